//! Builds the reply from a stored answer, whole or as a stream.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::cache_status::{CacheStatus, Tier};
use crate::{
    Reply,
    record::AnswerEnd,
    relay::Replay,
    reply::{self, put_stream_headers},
    stages::Routed,
};
use signalbox_cache::{Found, Record};
use signalbox_journal::CacheResult;
use signalbox_policy::{self as policy, Caching};

/// Builds the reply from a stored answer. `entry` identifies the cache entry.
pub(super) fn reply(caching: &Caching, routed: &Routed, (by, entry): (Tier, String), found: &Found) -> Reply {
    let call = &routed.call;
    let record = &*found.record;
    let transcript = &record.transcript;
    let paced = caching.exact.is_some_and(|exact| exact.replay == policy::Replay::Paced);
    let parts = if call.body.stream {
        let events = transcript.events(call.body.include_usage, paced);
        if paced {
            events.into_iter().map(|(pause, event)| (pause, event.raw)).collect()
        } else {
            let all: Vec<u8> = events.iter().flat_map(|(_, event)| event.raw.iter().copied()).collect();
            vec![(Duration::ZERO, all.into())]
        }
    } else {
        vec![(Duration::ZERO, transcript.whole().clone())]
    };
    let usage = record.usage();
    let saved = call.record.metrics().cache();
    saved.save(by.name(), &record.pool, usage.as_ref(), record.cost_usd, record.seconds);
    let overhead = call.record.clock().now().since(call.read_at);
    let mut progress = call.record.progress();
    progress.looked_up(CacheResult::hit(by.hit(), record.pool.clone(), found.age, entry));
    progress.head(StatusCode::OK);
    progress.answered(AnswerEnd { usage, overhead_us: Some(overhead.as_secs_f64() * 1e6), ..AnswerEnd::default() });
    drop(progress);
    let mut reply = Reply::new(axum::body::Body::new(Replay::new(parts, call.record.clone())));
    put(reply.headers_mut(), routed, record);
    reply.headers_mut().insert("x-signalbox-overhead-us", (overhead.as_micros() as u64).into());
    CacheStatus::Hit { by, age: found.age, left: found.left }.put(reply.headers_mut());
    reply
}

fn put(headers: &mut HeaderMap, routed: &Routed, record: &Record) {
    if routed.call.body.stream {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        put_stream_headers(headers);
    } else {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, text) in [("x-signalbox-pool", &record.pool), ("x-signalbox-route", &routed.route.name)] {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
    if routed.call.serving.snapshot.policy.simulated {
        headers.insert("x-signalbox-simulated", HeaderValue::from_static("true"));
    }
    reply::put_id(headers, &routed.call.record.id());
}
