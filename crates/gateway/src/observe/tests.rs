//! Observe mode before a scripted gateway, on paused time.

use std::time::Duration;

use axum::body::Body;
use http::StatusCode;
use http_body_util::BodyExt;
use tower::{Service, ServiceExt};

use super::Observer;
use crate::{
    Reply,
    testing::{Answer, TestGateway, text},
};
use signalbox_config::Config;
use signalbox_policy::{compile, observing};

const FAST: Duration = Duration::from_millis(100);

fn observed(answers: &[Answer]) -> TestGateway {
    let policy = "pools:\n  p: { model: m, backends: ['http://ours/v1'] }\nmodels:\n  m: { to: p }\n";
    let policy = compile(&policy.parse::<Config>().unwrap()).unwrap();
    TestGateway::with(observing(policy, "http://theirs/v1"), &[("theirs", answers)])
}

async fn send(gateway: &TestGateway, body: &str) -> Reply {
    let mut observer = Observer::new(gateway.live.clone(), gateway.parts.clone(), gateway.client.clone());
    let request = http::Request::post("/v1/chat/completions").header("content-type", "application/json");
    let request = request.body(Body::from(body.to_owned())).unwrap();
    observer.ready().await.unwrap().call(request).await.unwrap()
}

/// Spaces and unknown fields are part of the request.
const ASKED: &str = r#"{ "model":"m",  "x_other": 1e1, "stream": true, "messages": [{"role":"user","content":"hi"}] }"#;

/// A model that this gateway does not know.
const OTHER: &str = r#"{"model":"other","messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test(start_paused = true)]
async fn bytes_pass_unchanged_and_the_own_decision_is_recorded() {
    let gateway = observed(&[Answer::stream(FAST, &["hel", "lo"])]);
    let said = text(send(&gateway, ASKED).await).await;
    assert!(said.contains("\"hel\"") && said.ends_with("data: [DONE]\n\n"), "{said}");
    let asked = gateway.asked();
    assert_eq!((asked.len(), &*asked[0].body), (1, ASKED.as_bytes()));
    let entry = gateway.entry();
    assert_eq!((entry.outcome, entry.status, entry.ttft_ms), ("ok", 200, Some(100.0)));
    assert_eq!(&*entry.attempts[0].pool, "observed");
    let own = entry.counterfactual.as_ref().unwrap();
    assert_eq!((own.pool.as_deref(), own.refused, entry.route.as_deref()), (Some("p"), None, Some("m")));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_be_refused_passes_too() {
    let gateway = observed(&[Answer::whole(FAST, "hello")]);
    for (body, refused) in [("{ broken", "bad_json"), (OTHER, "model_not_found")] {
        let reply = send(&gateway, body).await;
        assert_eq!(reply.status(), StatusCode::OK);
        text(reply).await;
        let entry = gateway.entry();
        assert_eq!(entry.counterfactual.as_ref().unwrap().refused, Some(refused), "{body}");
        assert_eq!((entry.outcome, entry.route.as_deref()), ("ok", None), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_pass_unchanged_and_are_not_retried() {
    let gateway = observed(&[Answer::status(503, &[("retry-after", "9")]), Answer::whole(FAST, "not asked for")]);
    let reply = send(&gateway, ASKED).await;
    assert_eq!(
        (reply.status(), reply.headers()["retry-after"].as_bytes()),
        (StatusCode::SERVICE_UNAVAILABLE, &b"9"[..])
    );
    assert!(text(reply).await.contains("scripted 503"));
    assert_eq!((gateway.asked().len(), gateway.entry().outcome), (1, "upstream_error"));
}

#[tokio::test(start_paused = true)]
async fn only_a_connection_that_died_unnoticed_is_replaced() {
    let gateway = observed(&[Answer::lost(), Answer::whole(FAST, "hello"), Answer::unreachable()]);
    assert!(text(send(&gateway, ASKED).await).await.contains("hello"));
    assert_eq!((gateway.asked().len(), gateway.entry().attempts.len()), (2, 1));
    let reply = send(&gateway, ASKED).await;
    assert_eq!((reply.status(), gateway.asked().len()), (StatusCode::BAD_GATEWAY, 3));
    assert_eq!(gateway.entry().outcome, "upstream_unreachable");
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_is_cut_for_the_client_too() {
    let gateway = observed(&[Answer::stream(FAST, &["one", "two"]).cut(2)]);
    let mut body = send(&gateway, ASKED).await.into_body();
    let mut read = Vec::new();
    let broken = loop {
        match body.frame().await {
            Some(Ok(frame)) => read.extend(frame.into_data().unwrap()),
            end => break end.is_some(),
        }
    };
    let read = String::from_utf8(read).unwrap();
    assert!(broken && read.contains("one") && read.contains("two"), "{read}");
    assert_eq!(gateway.entry().outcome, "stream_cut");
}
