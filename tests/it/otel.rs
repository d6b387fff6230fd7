//! Export to an OpenTelemetry collector: one trace per request, with a span for each step and attempt, and the conventions' histograms.
#![cfg(feature = "otel")]

use std::collections::HashMap;

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value},
    metrics::v1::metric,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;
use serde_json::json;

use crate::support::{
    client::{self, Sse, http, json as with_json},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, polite},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const CALLER: &str = "00f067aa0ba902b7";

pub(crate) async fn collector() -> Mock {
    Mock::start(|_| Plan::text(200, "application/x-protobuf", "")).await
}

pub(crate) fn otel(collector: &Mock, more: &str) -> String {
    let base = collector.url().replace("/v1", "");
    format!("otel: {{ endpoint: \"{base}\", headers: {{ x-team: \"rails\" }}, interval: 1s{more} }}\n")
}

/// Spans of the trace, once its root has arrived.
pub(crate) async fn spans(collector: &Mock, trace: &str) -> Vec<Span> {
    let of = |seen: &Seen| {
        let request = ExportTraceServiceRequest::decode(&*seen.body).expect("protobuf");
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).filter(|span| hex(&span.trace_id) == trace).collect::<Vec<_>>()
    };
    let is_trace = |seen: &Seen| seen.path == "/v1/traces";
    let root = |seen: &Seen| is_trace(seen) && of(seen).iter().any(|span| span.kind() == SpanKind::Server);
    collector.wait_for("the root of the trace", root).await;
    collector.seen().iter().filter(|seen| is_trace(seen)).flat_map(of).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let number = bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    format!("{number:0width$x}", width = 2 * bytes.len())
}

pub(crate) fn attributes(all: &[KeyValue]) -> HashMap<&str, String> {
    let text = |value: &KeyValue| match value.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(count) => Some(count.to_string()),
        any_value::Value::DoubleValue(number) => Some(number.to_string()),
        any_value::Value::BoolValue(flag) => Some(flag.to_string()),
        any_value::Value::ArrayValue(all) => {
            let texts = all.values.iter().filter_map(|it| match it.value.as_ref()? {
                any_value::Value::StringValue(text) => Some(text.clone()),
                _ => None,
            });
            Some(format!("[{}]", texts.collect::<Vec<_>>().join(", ")))
        }
        _ => None,
    };
    all.iter().filter_map(|it| Some((&*it.key, text(it)?))).collect()
}

#[tokio::test]
async fn a_request_with_a_cache_miss_a_retry_and_a_hedge_is_one_trace() {
    const WARM: usize = 20;
    let primary = Mock::start(|seen| match seen.number {
        number if number < WARM => polite(seen),
        WARM => Plan::error(500, "once"),
        _ => Plan::silence(),
    })
    .await;
    let backup = Mock::start(polite).await;
    let collector = collector().await;
    let gateway = Gateway::start(&format!(
        "{}cache: {{ exact: {{ scope: shared }}, semantic: {{ scope: shared }} }}\n\
         pools:\n  primary: {{ model: large, backends: [\"{}\"] }}\n  backup: {{ model: other, backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: primary, fallback: [backup] }} }}\n",
        otel(&collector, ""),
        primary.url(),
        backup.url()
    ))
    .await;
    let ask = async |what: &str, trace: Option<String>| {
        let body = json!({ "model": "auto", "stream": true, "temperature": 0, "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": format!("Tell me about {what}.") }] });
        let mut request = with_json(http().post(gateway.at("/v1/chat/completions")), &body);
        if let Some(trace) = trace {
            request = request.header("traceparent", trace);
        }
        let text = Sse::send(request).await.text().await.0;
        assert!(!text.is_empty());
    };
    for number in 0..WARM {
        ask(&format!("station {number}"), Some(format!("00-{number:031x}1-{CALLER}-00"))).await;
    }
    ask("the signal box", Some(format!("00-{TRACE}-{CALLER}-01"))).await;
    let spans = spans(&collector, TRACE).await;

    let root = spans.iter().find(|span| span.kind() == SpanKind::Server).unwrap();
    assert_eq!((&*root.name, hex(&root.parent_span_id)), ("chat auto", CALLER.to_owned()));
    let reported = attributes(&root.attributes);
    assert_eq!((&*reported["signalbox.cache"], &*reported["signalbox.pool"]), ("miss", "backup"), "{reported:?}");
    assert_eq!(&*reported["http.response.status_code"], "200");
    assert!(reported["gen_ai.usage.output_tokens"].parse::<u64>().unwrap() > 0);
    assert_eq!(
        (
            &*reported["gen_ai.request.temperature"],
            &*reported["gen_ai.request.stream"],
            &*reported["gen_ai.response.finish_reasons"]
        ),
        ("0", "true", "[stop]")
    );
    assert!(reported["gen_ai.response.time_to_first_chunk"].parse::<f64>().unwrap() > 0.0, "{reported:?}");
    assert!(!reported.keys().any(|key| key.contains("messages")), "content is opt-in: {reported:?}");

    let parts = |of: &Span| -> Vec<&Span> { spans.iter().filter(|span| span.parent_span_id == of.span_id).collect() };
    let (mut attempts, steps): (Vec<&Span>, Vec<&Span>) =
        parts(root).into_iter().partition(|span| span.kind() == SpanKind::Client);
    let mut names: Vec<&str> = steps.iter().map(|span| &*span.name).collect();
    names.sort_unstable();
    // A vector is made and sought where another answer is stored already, and takes less time than an answer.
    names.retain(|name| !matches!(*name, "decide" | "search"));
    assert_eq!(names, ["cache", "estimate", "route"]);
    attempts.sort_unstable_by_key(|span| span.start_time_unix_nano);
    let outcomes: Vec<String> = attempts
        .iter()
        .map(|span| {
            let reported = attributes(&span.attributes);
            format!("{} {}", reported["signalbox.pool"], reported["signalbox.outcome"])
        })
        .collect();
    assert_eq!(outcomes, ["primary upstream_error", "primary outrun", "backup ok"]);
    let servers: Vec<String> = attempts
        .iter()
        .map(|span| {
            let reported = attributes(&span.attributes);
            format!("{}:{}", reported["server.address"], reported["server.port"])
        })
        .collect();
    let [one, other] = [&primary, &backup].map(|mock| mock.addr().to_string());
    assert_eq!(servers, [one.clone(), one, other]);
    let failed = |span: &Span| span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error);
    assert_eq!(attempts.iter().map(|span| failed(span)).collect::<Vec<_>>(), [true, false, false]);
    assert!(!failed(root));

    let within: Vec<Vec<&str>> =
        attempts.iter().map(|span| parts(span).iter().map(|part| &*part.name).collect()).collect();
    assert_eq!(within, [vec![], vec![], vec!["prefill", "decode"]]);
    assert_eq!(spans.len(), 1 + steps.len() + attempts.len() + 2, "nothing but these");
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE);
        let Some(whole) = spans.iter().find(|whole| whole.span_id == span.parent_span_id) else { continue };
        // Offsets are written in milliseconds with fractions, and read again: what is lost on the way is below a microsecond.
        assert!(span.start_time_unix_nano + 1_000 >= whole.start_time_unix_nano, "{} begins early", span.name);
        assert!(span.end_time_unix_nano <= whole.end_time_unix_nano + 1_000, "{} ends late", span.name);
    }

    // Whoever was asked knows which attempt it was.
    let reported: Vec<String> = primary.seen()[WARM..]
        .iter()
        .chain(&backup.seen())
        .map(|seen| seen.header("traceparent").unwrap_or_default().to_owned())
        .collect();
    let sent: Vec<String> = attempts.iter().map(|span| format!("00-{TRACE}-{}-01", hex(&span.span_id))).collect();
    assert_eq!(reported, sent);
    assert!(
        primary.seen()[0].header("traceparent").unwrap().ends_with("-00"),
        "what is not recorded is still one trace"
    );
}

#[tokio::test]
async fn histograms_follow_the_conventions_and_failures_are_recorded() {
    let engine = Mock::start(|seen| if seen.number == 0 { polite(seen) } else { Plan::error(400, "no") }).await;
    let collector = collector().await;
    let policy = format!(
        "{}pools: {{ p: {{ model: up, backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n",
        otel(&collector, ", service: box"),
        engine.url()
    );
    let gateway = Gateway::start(&policy).await;
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    assert!(!Sse::post(&gateway.at("/v1/chat/completions"), &body).await.text().await.0.is_empty());
    let refused = with_json(http().post(gateway.at("/v1/chat/completions")), &body)
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    assert_eq!(refused.send().await.unwrap().status(), 400);
    let spans = spans(&collector, TRACE).await;
    let root = spans.iter().find(|span| span.kind() == SpanKind::Server).unwrap();
    assert_eq!(attributes(&root.attributes)["error.type"], "upstream_refused");

    let read = |seen: &Seen| ExportMetricsServiceRequest::decode(&*seen.body).expect("protobuf");
    let counts = move |seen: &Seen| -> HashMap<String, u64> {
        let scopes = read(seen).resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let count = |data: Option<metric::Data>| match data {
            Some(metric::Data::Histogram(histogram)) => histogram.data_points.iter().map(|point| point.count).sum(),
            _ => 0,
        };
        scopes.flat_map(|scope| scope.metrics).map(|metric| (metric.name, count(metric.data))).collect()
    };
    let full =
        move |seen: &Seen| seen.path == "/v1/metrics" && counts(seen).get("gen_ai.server.request.duration") == Some(&2);
    collector.wait_for("both requests among the measurements", full).await;
    let seen = collector.seen().into_iter().find(full).unwrap();
    assert_eq!(seen.header("x-team"), Some("rails"));
    let counted = counts(&seen);
    assert_eq!(counted["gen_ai.server.time_to_first_token"], 1);
    assert_eq!(counted["gen_ai.client.token.usage"], 2, "input and output");
    let resource = read(&seen).resource_metrics.remove(0).resource.unwrap();
    assert_eq!(attributes(&resource.attributes)["service.name"], "box");
}

#[tokio::test]
async fn a_missing_collector_is_harmless_and_sampling_keeps_its_share() {
    let engine = Mock::start(polite).await;
    let (gone, there) = (collector().await, collector().await);
    let pools = format!("pools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n", engine.url());
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let policy = format!("{}{pools}", otel(&gone, ""));
    gone.stop().await;
    let mut gateway = Gateway::start(&policy).await;
    let url = gateway.at("/v1/chat/completions");
    assert!(!Sse::post(&url, &body).await.text().await.0.is_empty());
    // A reload leads to another collector; nothing is recorded there but what callers ask to have recorded.
    gateway.rewrite(&format!("{}{pools}", otel(&there, ", sample: 0%")));
    let reloaded = |metrics: &Metrics| metrics.sum("signalbox_config_reloads_total", &[r#"result="ok""#]) > 0.5;
    gateway.wait_metrics("a reload", reloaded).await;
    assert!(!Sse::post(&url, &body).await.text().await.0.is_empty());
    let asked = with_json(http().post(&url), &body).header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    assert!(!Sse::send(asked).await.text().await.0.is_empty());
    spans(&there, TRACE).await;
    let traces = there.seen().into_iter().filter(|seen| seen.path == "/v1/traces");
    let roots: usize = traces
        .map(|seen| {
            let request = ExportTraceServiceRequest::decode(&*seen.body).expect("protobuf");
            let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            scopes.flat_map(|scope| scope.spans).filter(|span| span.kind() == SpanKind::Server).count()
        })
        .sum();
    assert_eq!(roots, 1);
    gateway.sigterm();
    assert!(gateway.wait_exit().await.success());
}

#[tokio::test]
async fn a_collector_that_never_answers_does_not_hold_up_the_end() {
    let collector = Mock::start(|_| Plan::silence()).await;
    let mock = Mock::start(polite).await;
    let mut gateway = Gateway::start(&format!(
        "{}pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n",
        otel(&collector, ""),
        mock.url()
    ))
    .await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    crate::support::client::post(&gateway.at("/v1/chat/completions"), &body).await;
    let sent = |path: &'static str| move |seen: &Seen| seen.path == path;
    collector.wait_for("spans under way", sent("/v1/traces")).await;
    collector.wait_for("measurements under way", sent("/v1/metrics")).await;
    let asked = std::time::Instant::now();
    gateway.sigterm();
    assert_eq!(gateway.wait_exit().await.code(), Some(0), "{}", gateway.log());
    // It was eight seconds; 0.75 of the exporter's own, and what a busy machine adds.
    assert!(asked.elapsed() < std::time::Duration::from_secs(4), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn content_is_captured_where_the_policy_asks_for_it_and_exemplars_lead_to_traces() {
    let engine = Mock::start(|seen| {
        if seen.streams() { Plan::chat_stream(["write to ", "ann@example.com", " soon"]) } else { polite(seen) }
    })
    .await;
    let collector = collector().await;
    let gateway = Gateway::start(&format!(
        "{}pools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n",
        otel(&collector, ", content: { max_bytes: 120, redact: [\"project-[a-z]+\"] }"),
        engine.url()
    ))
    .await;
    let long = "and so on ".repeat(40);
    let body = json!({ "model": "m", "max_tokens": 9, "stream": true, "system": "Be brief about project-falcon.",
        "messages": [{ "role": "user", "content": format!("My key is sk-0123456789abcdef, {long}") }] });
    let asked = with_json(http().post(gateway.at("/v1/messages")), &body)
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    let (events, _) = Sse::send(asked).await.rest().await;
    let text = String::from_utf8_lossy(&events.concat()).into_owned();
    assert!(text.contains("ann@example.com"), "the caller gets all of it: {text}");
    let spans = spans(&collector, TRACE).await;
    let root = spans.iter().find(|span| span.kind() == SpanKind::Server).unwrap();
    let said = attributes(&root.attributes);
    assert_eq!(said["gen_ai.system_instructions"], r#"[{"type":"text","content":"Be brief about [redacted]."}]"#);
    let input = &said["gen_ai.input.messages"];
    assert!(input.contains("My key is [redacted], and so on") && input.contains("[cut]\"}"), "{input}");
    assert!(input.len() <= 120 && serde_json::from_str::<Vec<serde_json::Value>>(input).is_ok(), "{input}");
    let output = &said["gen_ai.output.messages"];
    assert!(output.contains("write to [redacted] soon") && output.contains("\"role\":\"assistant\""), "{output}");
    assert_eq!((&*said["gen_ai.response.finish_reasons"], &*said["gen_ai.request.max_tokens"]), ("[end_turn]", "9"));

    // The measurement of a recorded request leads to its trace, and no other.
    let exemplar = format!("# {{trace_id=\"{TRACE}\"}}");
    let scrape = client::http().get(gateway.admin("/metrics")).header("accept", "application/openmetrics-text");
    let text = client::answer(scrape).await.text();
    let marked: Vec<&str> = text.lines().filter(|line| line.contains("trace_id")).collect();
    assert!(marked.iter().all(|line| line.contains(&exemplar)), "{marked:?}");
    for name in ["signalbox_ttft_seconds_bucket", "signalbox_e2e_seconds_bucket"] {
        assert!(marked.iter().any(|line| line.starts_with(name)), "{name}: {marked:?}");
    }
}
