//! The reply: its body by how the answer arrives, the end-to-end headers from upstream, and those that report the decision.

use http::{HeaderMap, HeaderName, HeaderValue, response::Parts};

use super::{
    Answer, Committed, Decision, Meter, ResumeStream, plain::Plain, resume::ResumeSource, stream::Stream,
    timeouts::StreamTimeouts,
};
use crate::{
    Reply,
    record::Served,
    reply::{self, is_events, put_dropped, put_stream_headers},
    stages::Call,
};
use signalbox_journal::Explained;
use signalbox_policy::Route;
use signalbox_upstream::headers;

/// Longest model name that is put into a header, in bytes.
const LONGEST_MODEL: usize = 256;

/// Builds the reply to a request with this `route` and the reasons for it, if they are known. `resumer` fetches the rest of
/// a stream that breaks off.
pub(crate) fn reply(
    committed: Committed,
    call: &Call,
    (route, explained): (&Route, Option<&Explained>),
    resumer: Option<Box<dyn ResumeStream>>,
) -> Reply {
    let Committed { head, answer, mut meter, endpoint, decision } = committed;
    meter.commit(call.read_at);
    call.record.progress().head(head.status);
    let passed = decision.cascade.is_none_or(|cascade| matches!(cascade.result, "kept" | "escalated"));
    let (pool, backend) = (decision.pool.clone(), decision.backend.clone());
    call.record.serve(Served { pool, backend, endpoint, passed });
    let headers = headers(&head, call, (route, explained), &decision, &meter);
    let left = route.timeouts.total.map(|total| total.saturating_sub(meter.age()));
    let timeouts = || StreamTimeouts::new(route.timeouts.idle, route.timeouts.content, left);
    let body = match answer {
        Answer::Whole(bytes) => axum::body::Body::new(Plain::new(http_body_util::Full::new(bytes), meter, None)),
        Answer::Opaque(body) => axum::body::Body::new(Plain::new(body, meter, Some(timeouts()))),
        Answer::Events { events, hide_usage } => {
            let resume = resumer.map(|resumer| Box::new(ResumeSource::new(resumer)));
            axum::body::Body::new(Stream::new(events, meter, hide_usage, timeouts(), resume))
        }
    };
    let mut reply = Reply::new(body);
    *reply.status_mut() = head.status;
    *reply.headers_mut() = headers;
    reply
}

fn headers(
    head: &Parts,
    call: &Call,
    (route, explained): (&Route, Option<&Explained>),
    decision: &Decision,
    meter: &Meter,
) -> HeaderMap {
    let keys = &call.serving.snapshot.policy.engines[meter.engine()].keys;
    let mut headers = headers::returned(&head.headers, keys);
    let mut put = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    put(HeaderName::from_static("x-signalbox-pool"), &decision.pool);
    put(HeaderName::from_static("x-signalbox-backend"), call.serving.snapshot.policy.labels.shown(&decision.backend));
    put(HeaderName::from_static("x-signalbox-route"), &route.name);
    put(HeaderName::from_static("x-signalbox-predicted-ttft-ms"), &format!("{:.1}", decision.predicted_ttft_ms));
    if let Some(explained) = &decision.explained {
        put(HeaderName::from_static("x-signalbox-explain"), explained);
    }
    if let Some(cascade) = decision.cascade {
        put(HeaderName::from_static("x-signalbox-cascade"), &cascade.label());
    }
    if let Some(scored) = explained.and_then(|explained| explained.complexity.as_ref()) {
        put(HeaderName::from_static("x-signalbox-complexity"), &scored.header());
    }
    if let Some(pools) = explained.map(|explained| &explained.over_budget).filter(|pools| !pools.is_empty()) {
        put(HeaderName::from_static("x-signalbox-over-budget"), &pools.join(", "));
    }
    if let Some(tier) = explained.and_then(|explained| explained.tier.as_ref()) {
        put(HeaderName::from_static("x-signalbox-tier"), &tier.header());
    }
    // A pattern route accepts a model name of any length, and clients reject headers that long.
    let model = decision.model.as_deref().or(call.body.model.as_deref());
    if let Some(model) = model.filter(|model| model.len() <= LONGEST_MODEL) {
        put(HeaderName::from_static("x-signalbox-model"), model);
    }
    if call.serving.snapshot.policy.simulated {
        put(HeaderName::from_static("x-signalbox-simulated"), "true");
    }
    headers.insert(HeaderName::from_static("x-signalbox-reason"), HeaderValue::from_static(decision.reason));
    put_dropped(&mut headers, &decision.dropped);
    headers.insert(HeaderName::from_static("x-signalbox-overhead-us"), meter.overhead_us().into());
    reply::put_id(&mut headers, &call.record.id());
    if is_events(&head.headers) {
        put_stream_headers(&mut headers);
    }
    headers
}
