//! Request coalescing: the first of several equal requests is sent, and all of them read its answer.

use std::{future::poll_fn, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{CacheLookup, cache_status::CacheStatus, missing::Missing, sharing::Sharing};
use crate::{
    Reply, Step,
    record::Record,
    relay::{AnswerStore, Share, broadcast, subscribe},
    reply,
    stages::{Missed, Routed},
};
use signalbox_answers::{Head, PendingEntry};
use signalbox_cache::single_flight::{FlightKey, Leader, Start};
use signalbox_journal::CacheResult;
use signalbox_policy::Caching;
use signalbox_telemetry::Lookup;
use signalbox_types::{Fault, Name};

impl<S: Step<Missed>> CacheLookup<S> {
    /// Sends a request, or joins an equal one in progress.
    pub(super) async fn board(
        &self,
        caching: &Caching,
        routed: Routed,
        sharing: Sharing,
        missing: Missing,
    ) -> Result<Reply, Fault> {
        let flights = &self.answers.local.cache.single_flight;
        let (mut reader, leader) = if sharing.joins {
            flights.join(FlightKey {
                key: sharing.key,
                stream: routed.call.body.stream,
                acceptable: sharing.acceptable_hash(),
            })
        } else {
            flights.alone()
        };
        let Missing { exact: reason, status: missed, near, mut pending } = missing;
        let leads = leader.is_some();
        let route = routed.route.name.clone();
        if leads {
            Self::count_exact_miss(&routed, &sharing, reason);
        } else {
            routed.call.record.metrics().cache().lookup(Lookup { tier: "exact", result: "coalesced", reason }, &route);
        }
        let (result, why) = missed.label();
        let record = routed.call.record.clone();
        let wants_usage = routed.call.body.include_usage;
        let read_at = routed.call.read_at;
        let mut routed = Some(routed);
        let sent = || {
            let entry = Some(sharing.key.to_string());
            record.progress().looked_up(CacheResult {
                entry,
                near: near.clone(),
                ..CacheResult::not_served(result, why)
            });
        };
        if let (Some(leader), Some(routed)) = (leader, routed.take_if(|_| leads)) {
            sent();
            self.send(leader, caching, routed, &sharing, pending.take());
        } else {
            record.progress().dispatched();
        }
        let clock = record.clock();
        let waits = clock.now();
        let head = loop {
            match poll_fn(|cx| reader.poll_start(cx)).await {
                Start::Head(head) => break head,
                Start::Failed(fault) => return Err(*fault),
                Start::TakeOver(leader) => {
                    if let Some(routed) = routed.take() {
                        sent();
                        self.send(leader, caching, routed, &sharing, pending.take());
                    }
                }
            }
        };
        let leads = reader.leads();
        let mut headers = if leads { head.headers.clone() } else { shared(&head.headers) };
        let status = if leads { missed } else { CacheStatus::Coalesced };
        status.put(&mut headers);
        if !leads {
            let now = clock.now();
            record.wait(now.since(waits));
            let overhead = now.since(read_at).saturating_sub(record.waited());
            headers.insert("x-signalbox-overhead-us", (overhead.as_micros() as u64).into());
            follow(&record, &route, &head, &mut headers);
            record.metrics().cache().coalesced(&route);
        }
        let share =
            Share { hide_usage: !wants_usage, own: !leads, pool: pool(&head.headers), price: head.price, record };
        let body = subscribe(reader, share, &headers).await?;
        let mut reply = Reply::new(body);
        *reply.status_mut() = head.status;
        *reply.headers_mut() = headers;
        Ok(reply)
    }

    /// Sends a request in its own task, which runs while the answer has readers.
    fn send(
        &self,
        leader: Leader<Head>,
        caching: &Caching,
        mut routed: Routed,
        sharing: &Sharing,
        pending: Option<Box<PendingEntry>>,
    ) {
        routed.call.keeps_usage = true;
        let exact = caching.exact.filter(|_| sharing.keeps);
        let keeper = AnswerStore::new(&self.answers, &routed, sharing.kept(), exact, pending);
        let inner = self.inner.clone();
        tokio::spawn(broadcast(leader, keeper, async move { inner.call(Missed(routed)).await }));
    }
}

/// Keeps the headers that describe the answer. The others belong to another caller's request, such as the rate limit
/// left at the provider or the reason for the route.
fn shared(headers: &HeaderMap) -> HeaderMap {
    const OF_THE_ANSWER: [&str; 10] = [
        "cache-control",
        "content-encoding",
        "content-language",
        "content-type",
        "vary",
        "x-accel-buffering",
        "x-signalbox-backend",
        "x-signalbox-model",
        "x-signalbox-pool",
        "x-signalbox-simulated",
    ];
    let named = |name: &str| Some((name.parse::<HeaderName>().ok()?, headers.get(name)?.clone()));
    OF_THE_ANSWER.into_iter().filter_map(named).collect()
}

/// The pool that answers, by the head of the answer.
fn pool(headers: &HeaderMap) -> Name {
    headers.get("x-signalbox-pool").and_then(|pool| pool.to_str().ok()).unwrap_or_default().into()
}

/// Records a request that shares another's answer.
fn follow(record: &Arc<Record>, route: &Name, head: &Head, headers: &mut HeaderMap) {
    let pool = pool(headers);
    let mut progress = record.progress();
    progress.looked_up(CacheResult::shared(pool));
    progress.head(head.status);
    drop(progress);
    if let Ok(value) = HeaderValue::from_str(route) {
        headers.insert("x-signalbox-route", value);
    }
    reply::put_id(headers, &record.id());
}
