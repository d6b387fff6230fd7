//! Answers a request from the cache, or from an equal request in progress. Requests that may not share answers bypass
//! both. Without a cache in the policy, a request only passes through.

mod cache_status;
mod hit;
mod missing;
mod peers;
mod saved_time;
mod semantic;
mod sharing;
mod single_flight;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::StatusCode;

use self::{
    cache_status::{CacheStatus, Tier},
    missing::{Missing, SemanticOutcome},
    sharing::{Allowed, Bypassed, Sharing},
};
use super::{
    Reply, Step,
    background::BackgroundRequests,
    stages::{Missed, Routed},
};
use signalbox_accounting::BackgroundBudget;
use signalbox_answers::{Answers, Miss};
use signalbox_cache::{Bypass, semantic::NearMiss};
use signalbox_journal::{CacheResult, NearAnswer};
use signalbox_policy::Caching;
use signalbox_telemetry::{Lookup, LookupStage};
use signalbox_types::Fault;

pub(super) struct CacheLookup<S> {
    inner: Arc<S>,
    answers: Arc<Answers>,
    background: Arc<BackgroundBudget>,
    /// Sends the background requests that verify semantic hits.
    background_requests: Arc<BackgroundRequests>,
}

impl<S> CacheLookup<S> {
    pub(super) fn new(
        inner: S,
        answers: Arc<Answers>,
        background: Arc<BackgroundBudget>,
        background_requests: Arc<BackgroundRequests>,
    ) -> Self {
        Self { inner: Arc::new(inner), answers, background, background_requests }
    }
}

impl<S: Step<Missed>> Step<Routed> for CacheLookup<S> {
    async fn call(&self, routed: Routed) -> Result<Reply, Fault> {
        let serving = routed.call.serving.clone();
        let Some(caching) = &serving.snapshot.policy.caching else {
            return self.inner.boxed(Missed(routed)).await;
        };
        match Sharing::check(caching, &routed) {
            Err(bypassed) => self.go_on(routed, bypassed.status()?, None).await,
            // Boxed, so that the future of a request that bypasses the cache stays small.
            Ok(allowed) => Box::pin(self.share(caching, routed, allowed)).await,
        }
    }
}

impl<S: Step<Missed>> CacheLookup<S> {
    /// Handles a request that may share answers.
    async fn share(&self, caching: &Caching, routed: Routed, allowed: Allowed) -> Result<Reply, Fault> {
        let record = routed.call.record.clone();
        let (metrics, clock) = (record.metrics().cache(), record.clock());
        let began = clock.now();
        let semantic = caching.semantic.filter(|_| allowed.semantic);
        let sharing = match Sharing::of(&self.answers, caching, &routed, allowed).await {
            Ok(sharing) => sharing,
            Err(bypassed) => return self.go_on(routed, bypassed.status()?, None).await,
        };
        let keyed = clock.now();
        metrics.took(LookupStage::Key, keyed.seconds_since(began));
        let found = sharing.look(&self.answers.local.cache.exact, keyed);
        metrics.took(LookupStage::Exact, clock.now().seconds_since(keyed));
        routed.call.record.took("cache", began);
        let found = match (found, &caching.exact) {
            (Err("absent" | "expired"), Some(exact)) if self.answers.peers.is_on() => {
                self.look_elsewhere(exact, &sharing, &record).await
            }
            (found, _) => found,
        };
        let missing = match found {
            Ok(found) => {
                Self::count(&routed, "hit", "");
                let entry = (Tier::Exact, sharing.key.to_string());
                return Ok(hit::reply(caching, &routed, entry, &found));
            }
            Err(missing) => sharing.not_exact.map_or(missing, Bypass::label),
        };
        let meant = match semantic {
            Some(semantic) => self.meant(caching, &semantic, &routed, &sharing).await,
            None => SemanticOutcome::Not(None),
        };
        let mut near = None;
        let (status, pending) = match meant {
            SemanticOutcome::Hit(reply) => {
                Self::count_exact_miss(&routed, &sharing, missing);
                return Ok(*reply);
            }
            SemanticOutcome::Missed(miss, pending) => {
                near = miss.near.as_ref().map(|found| near_answer(&miss, found));
                (CacheStatus::Miss(miss.reason, miss.guard), pending)
            }
            // Where no tier may answer, the reason of the tier that comes last is the one to mend.
            SemanticOutcome::Not(reason) => match sharing.not_exact {
                None => (CacheStatus::Miss(missing, None), None),
                Some(not_exact) => (CacheStatus::Bypass(reason.unwrap_or(not_exact)), None),
            },
        };
        if sharing.said.only_if_cached {
            Self::count_exact_miss(&routed, &sharing, missing);
            return Err(not_cached());
        }
        if sharing.keeps || sharing.joins || pending.is_some() {
            self.board(caching, routed, sharing, Missing { exact: missing, status, near, pending }).await
        } else {
            self.go_on(routed, status, near).await
        }
    }

    /// Counts an exact lookup that found no answer.
    fn count_exact_miss(routed: &Routed, sharing: &Sharing, missing: &'static str) {
        Self::count(routed, if sharing.not_exact.is_some() { "bypass" } else { "miss" }, missing);
    }

    /// Sends a request whose answer is neither stored nor shared.
    async fn go_on(&self, routed: Routed, status: CacheStatus, near: Option<NearAnswer>) -> Result<Reply, Fault> {
        let (result, reason) = status.label();
        Self::count(&routed, result, reason);
        routed.call.record.progress().looked_up(CacheResult { near, ..CacheResult::not_served(result, reason) });
        let mut reply = self.inner.boxed(Missed(routed)).await?;
        status.put(reply.headers_mut());
        Ok(reply)
    }

    fn count(routed: &Routed, result: &'static str, reason: &'static str) {
        routed.call.record.metrics().cache().lookup(Lookup { tier: "exact", result, reason }, &routed.route.name);
    }
}

/// The nearest answer, as decisions show it.
fn near_answer(miss: &Miss, near: &NearMiss) -> NearAnswer {
    NearAnswer {
        entry: near.entry.exact.to_string(),
        similarity: near.similarity,
        probability: near.probability,
        guard: miss.guard,
    }
}

impl Bypassed {
    /// Converts the bypass to the status reported to the client.
    ///
    /// # Errors
    /// A fault if the request was rejected, or if the client allows cached answers only.
    fn status(self) -> Result<CacheStatus, Fault> {
        match self {
            Self::Refused(fault) => Err(*fault),
            Self::Past { only_if_cached: true, .. } => Err(not_cached()),
            Self::Past { reason, .. } => Ok(CacheStatus::Bypass(reason)),
        }
    }
}

/// Rejects a request with `only-if-cached` to which no answer is stored (RFC 9111, section 5.2.1.7).
fn not_cached() -> Fault {
    let message =
        "no answer to this request is kept, and it says 'only-if-cached': send it without, to have it answered";
    Fault::gateway(StatusCode::GATEWAY_TIMEOUT, "not_cached", message)
}
