//! Sums over the spans of a trace, the status of spans, settings from the environment, and a collector that restarts.
#![cfg(feature = "otel")]

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;
use serde_json::{Value, json};

use crate::{
    otel::{CALLER, attributes, collector, hex, otel, spans},
    support::{
        client::{self, http, json as with_json},
        gateway::{Gateway, Metrics, Start},
        mock::{Mock, Plan, Seen, polite},
    },
};

fn pools(engine: &Mock) -> String {
    format!("pools: {{ p: {{ model: m, backends: [\"{}\"] }} }}\nmodels: {{ auto: {{ to: p }} }}\n", engine.url())
}

fn asked(model: &str, text: &str) -> Value {
    json!({ "model": model, "temperature": 0, "messages": [{ "role": "user", "content": text }] })
}

/// Sends a request within a trace of its own, and returns the trace and the status.
async fn traced(gateway: &Gateway, path: &str, number: usize, body: &Value, key: &str) -> (String, u16) {
    let trace = format!("{number:031x}1");
    let request = with_json(http().post(gateway.at(path)), body)
        .header("traceparent", format!("00-{trace}-{CALLER}-01"))
        .header("authorization", format!("Bearer {key}"));
    let answer = client::answer(request).await;
    (trace, answer.status.as_u16())
}

fn failed(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

#[tokio::test]
async fn tokens_of_a_trace_add_up_to_what_engines_reported() {
    let engine = Mock::start(|seen| {
        if String::from_utf8_lossy(&seen.body).contains("again") && seen.number == 2 {
            return Plan::error(500, "once");
        }
        let usage = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": { "cached_tokens": 60 } });
        if seen.path.ends_with("/embeddings") {
            let data = json!([{ "object": "embedding", "index": 0, "embedding": [0.5] }]);
            let usage = json!({ "prompt_tokens": 100, "total_tokens": 100 });
            return Plan::json(200, &json!({ "object": "list", "model": "m", "data": data, "usage": usage }));
        }
        let choice = json!({ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "a" } });
        Plan::json(200, &json!({ "id": "x", "object": "chat.completion", "choices": [choice], "usage": usage }))
    })
    .await;
    let collector = collector().await;
    let cache = "cache: { exact: { scope: shared } }\n";
    let gateway = Gateway::start(&format!("{}{cache}{}", otel(&collector, ""), pools(&engine))).await;
    let chat = "/v1/chat/completions";
    for (number, path, body, want) in [
        (1, chat, asked("auto", "hello"), [100, 20]),
        (2, chat, asked("auto", "hello"), [0, 0]),
        (3, chat, asked("auto", "again"), [100, 20]),
        (4, "/v1/embeddings", json!({ "model": "auto", "input": "hello" }), [100, 0]),
    ] {
        let (trace, status) = traced(&gateway, path, number, &body, "none").await;
        assert_eq!(status, 200);
        let spans = spans(&collector, &trace).await;
        let all: Vec<_> = spans.iter().map(|span| attributes(&span.attributes)).collect();
        let sum = |name: &str| {
            let counts = all.iter().filter_map(|span| span.get(name)).map(|count| count.parse::<u64>().unwrap());
            counts.sum::<u64>()
        };
        let both = [sum("gen_ai.usage.input_tokens"), sum("gen_ai.usage.output_tokens")];
        assert_eq!(both, want, "request {number}: {all:#?}");
        let with_usage = all.iter().filter(|span| span.keys().any(|key| key.starts_with("gen_ai.usage."))).count();
        assert!(with_usage <= 1, "request {number}: {all:#?}");
        let root = spans.iter().position(|span| span.kind() == SpanKind::Server).unwrap();
        assert_eq!(&*all[root]["signalbox.usage.input_tokens"], "100", "what the caller was told");
    }
}

#[tokio::test]
async fn only_the_server_s_own_errors_are_errors_of_its_spans() {
    let engine = Mock::start(|seen| match &*String::from_utf8_lossy(&seen.body) {
        body if body.contains("bad") => Plan::error(400, "no"),
        body if body.contains("down") => Plan::error(500, "broken"),
        _ => polite(seen),
    })
    .await;
    let collector = collector().await;
    let keys = "keys: [{ id: a, hash: \"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\", \
                limits: { rpm: 5 } }]\nlimits: { body: 1Ki }\n";
    let gateway = Gateway::start(&format!("{}{keys}{}", otel(&collector, ""), pools(&engine))).await;
    for (number, body, key, status, is_error, fails) in [
        (1, asked("auto", "hi"), "nope", 401, false, None),
        (2, asked("nope", "hi"), "foo", 404, false, None),
        (3, asked("auto", &"long".repeat(1024)), "foo", 413, false, None),
        (4, asked("auto", "down"), "foo", 500, true, Some(true)),
        (5, asked("auto", "bad"), "foo", 400, false, Some(true)),
        (6, asked("auto", "hi"), "foo", 200, false, Some(false)),
        (7, asked("auto", "hi"), "foo", 429, false, None),
    ] {
        let (trace, seen) = traced(&gateway, "/v1/chat/completions", number, &body, key).await;
        assert_eq!(seen, status, "request {number}");
        let spans = spans(&collector, &trace).await;
        let root = spans.iter().find(|span| span.kind() == SpanKind::Server).unwrap();
        assert_eq!(failed(root), is_error, "request {number}: {root:?}");
        assert_eq!(attributes(&root.attributes).contains_key("error.type"), status >= 400, "request {number}");
        let attempts: Vec<_> = spans.iter().filter(|span| span.kind() == SpanKind::Client).map(failed).collect();
        assert_eq!(attempts.last().copied(), fails, "request {number}");
    }
}

/// Resources of all exports to a path, by attribute.
fn resources(collector: &Mock, path: &str, attribute: &str) -> BTreeSet<String> {
    let of = |seen: &Seen| {
        let traces = || {
            let request = ExportTraceServiceRequest::decode(&*seen.body).expect("protobuf");
            request.resource_spans.into_iter().filter_map(|it| it.resource).collect::<Vec<_>>()
        };
        let metrics = || {
            let request = ExportMetricsServiceRequest::decode(&*seen.body).expect("protobuf");
            request.resource_metrics.into_iter().filter_map(|it| it.resource).collect()
        };
        if path.ends_with("traces") { traces() } else { metrics() }
    };
    let all: Vec<_> = collector.seen().iter().filter(|seen| seen.path == path).flat_map(of).collect();
    all.iter().map(|resource| attributes(&resource.attributes)[attribute].clone()).collect()
}

#[tokio::test]
async fn each_gateway_has_an_identity_and_follows_the_environment() {
    let engine = Mock::start(polite).await;
    let collector = collector().await;
    let policy = format!("otel: {{ interval: 1s }}\n{}", pools(&engine));
    let base = collector.url().replace("/v1", "");
    let start = || {
        let start = Start::with(&policy).env("OTEL_EXPORTER_OTLP_ENDPOINT", &base).env("OTEL_SERVICE_NAME", "edge");
        start
            .env("OTEL_PROPAGATORS", "b3multi,tracecontext")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=rails%21")
            .start()
    };
    let trace = "463ac35c9f6413ad48485a3953bb6124";
    // Both are kept until both have exported.
    let gateways = [start().await, start().await];
    for gateway in &gateways {
        let request = with_json(http().post(gateway.at("/v1/chat/completions")), &asked("auto", "hi"))
            .header("x-b3-traceid", trace)
            .header("x-b3-spanid", "0020000000000001")
            .header("x-b3-parentspanid", "0020000000000002")
            .header("x-b3-sampled", "1");
        assert_eq!(client::answer(request).await.status, 200);
    }
    let spans = spans(&collector, trace).await;
    let root = spans.iter().find(|span| span.kind() == SpanKind::Server).unwrap();
    assert_eq!(hex(&root.parent_span_id), "0020000000000001");
    let asked = engine.seen();
    let sent = |name: &str| asked[0].header(name).map(str::to_owned);
    let attempt = spans.iter().filter(|span| span.kind() == SpanKind::Client).map(|span| hex(&span.span_id));
    assert!(attempt.into_iter().any(|id| sent("x-b3-spanid") == Some(id)), "{:?}", asked[0]);
    assert_eq!((sent("x-b3-traceid").as_deref(), sent("x-b3-parentspanid")), (Some(trace), None));
    assert!(sent("traceparent").is_some_and(|value| value.contains(trace)));
    let two = |path: &'static str| resources(&collector, path, "service.instance.id").len() == 2;
    for path in ["/v1/traces", "/v1/metrics"] {
        collector.wait_for("both gateways", |_| two(path)).await;
        assert_eq!(resources(&collector, path, "service.name"), ["edge".to_owned()].into());
    }
    assert!(collector.seen().iter().all(|seen| seen.header("x-team") == Some("rails!")));
}

#[tokio::test]
async fn spans_survive_a_restart_of_the_collector_and_losses_are_counted() {
    let engine = Mock::start(polite).await;
    // It breaks off, starts, and accepts.
    let restarting = Mock::start(|seen| match seen.number {
        0..4 => Plan::close(),
        4..6 => Plan::error(503, "starting").header("retry-after", "0"),
        _ => Plan::text(200, "application/x-protobuf", ""),
    })
    .await;
    let rejecting = Mock::start(|_| Plan::error(400, "no")).await;
    let dropped = |metrics: &Metrics| metrics.sum("signalbox_otel_spans_dropped_total", &[]);
    let gateway = Gateway::start(&format!("{}{}", otel(&restarting, ""), pools(&engine))).await;
    let (trace, status) = traced(&gateway, "/v1/chat/completions", 1, &asked("auto", "hi"), "none").await;
    assert_eq!(status, 200);
    restarting.wait_seen(7).await;
    assert!(!spans(&restarting, &trace).await.is_empty());
    gateway.wait_log("does not accept spans").await;
    assert!(dropped(&gateway.metrics().await) < 0.5);
    let gateway = Gateway::start(&format!("{}{}", otel(&rejecting, ""), pools(&engine))).await;
    traced(&gateway, "/v1/chat/completions", 2, &asked("auto", "hi"), "none").await;
    let rejected =
        |metrics: &Metrics| metrics.sum("signalbox_otel_spans_dropped_total", &[r#"reason="rejected""#]) > 0.5;
    gateway.wait_metrics("the loss of spans", rejected).await;
}
