//! Response headers: the end-to-end headers from upstream, and those that report the decision.

use http::{HeaderMap, HeaderValue, response::Parts};

use super::{Decision, Meter};
use crate::{
    gateway::{
        reply::{self, is_events, put_stream_headers},
        stages::Call,
    },
    policy::Route,
    upstream::address,
};

/// Longest model name that is put into a header, in bytes.
const LONGEST_MODEL: usize = 256;

pub(super) fn headers(head: &Parts, call: &Call, route: &Route, decision: &Decision, meter: &Meter) -> HeaderMap {
    let keys = &call.serving.snapshot.policy.engines[meter.engine()].keys;
    let mut headers = address::returned(&head.headers, keys);
    let mut put = |name: &'static str, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    put("x-signalbox-pool", &decision.pool);
    put("x-signalbox-backend", call.serving.snapshot.policy.labels.shown(&decision.backend));
    put("x-signalbox-route", &route.name);
    put("x-signalbox-reason", decision.reason);
    put("x-signalbox-predicted-ttft-ms", &format!("{:.1}", decision.predicted_ttft_ms));
    if let Some(explained) = &decision.explained {
        put("x-signalbox-explain", explained);
    }
    if let Some(cascade) = decision.cascade {
        put("x-signalbox-cascade", &cascade.label());
    }
    call.record.note(|line| {
        let Some(explained) = &line.explained else { return };
        if let Some(scored) = &explained.complexity {
            put("x-signalbox-complexity", &scored.header());
        }
        if let Some(tier) = &explained.tier {
            put("x-signalbox-tier", &tier.header());
        }
    });
    // A pattern route accepts a model name of any length, and clients reject headers that long.
    let model = decision.model.as_deref().or(call.body.model.as_deref());
    if let Some(model) = model.filter(|model| model.len() <= LONGEST_MODEL) {
        put("x-signalbox-model", model);
    }
    if call.serving.snapshot.policy.simulated {
        put("x-signalbox-simulated", "true");
    }
    headers.insert("x-signalbox-overhead-us", meter.overhead_us().into());
    reply::put_id(&mut headers, &call.record.id());
    if is_events(&head.headers) {
        put_stream_headers(&mut headers);
    }
    headers
}
