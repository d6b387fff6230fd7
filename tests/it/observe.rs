//! Observe mode: an existing gateway's traffic passes unchanged, is measured, and is compared with the policy's decisions.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::support::{
    client::{End, Sse, http, json as with_json},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, Seen, chat_events, polite, usage_event},
};

/// A policy whose engines do not exist: only the observed gateway may get requests.
const POLICY: &str = "keys: [{ id: somebody, hash: \"blake3:0000000000000000000000000000000000000000000000000000000000000000\" }]\n\
    journal: { path: journal.jsonl }\n\
    pools:\n  small: { model: s, backends: [{ engine: one }] }\n  large: { model: l, backends: [{ engine: two }] }\n\
    engines:\n  one: { url: \"http://127.0.0.1:9/v1\", scrape: false }\n  two: { url: \"http://127.0.0.1:9/v2\", scrape: false }\n\
    models: { auto: { routes: [{ when: prompt.tokens > 500, to: large }, { to: small }] } }\n";

async fn observing(policy: &str, observed: &Mock) -> Gateway {
    Start::with(policy).arg("--observe").arg(&observed.url()).start().await
}

fn ask(content: &str) -> Value {
    json!({ "model": "auto", "stream": true, "messages": [{ "role": "user", "content": content }], "unknown": [1, 2] })
}

#[tokio::test]
async fn everything_passes_unchanged_and_is_measured() {
    let stream = || {
        let events = chat_events(["Hello ", "there"]);
        Plan::stream().header("x-theirs", "kept").events(&events).event(&usage_event(7, 2)).done()
    };
    let observed = Mock::start(move |seen: &Seen| match &*seen.path {
        "/v1/chat/completions" if seen.streams() => stream(),
        "/v1/chat/completions" => polite(seen),
        "/v1/embeddings" => Plan::error(429, "slow down"),
        _ => Plan::text(200, "text/plain", "theirs"),
    })
    .await;
    observed.set_metrics("theirs 1");
    let gateway = observing(POLICY, &observed).await;
    let url = gateway.at("/v1/chat/completions");

    // A stream, with a key of the observed gateway's: the bytes are those that its own clients get.
    let body = ask("hi").to_string();
    let send = |url: String| {
        let request = http().post(url).header("authorization", "Bearer theirs").header("x-own", "1");
        request.header("content-type", "application/json").body(body.clone())
    };
    let (mut through, mut direct) =
        (Sse::send(send(url.clone())).await, Sse::send(send(observed.url() + "/chat/completions")).await);
    assert_eq!((through.status, through.header("x-theirs")), (StatusCode::OK, "kept"));
    assert!(through.header("x-signalbox-pool").is_empty(), "nothing is added");
    let ((through, end), (direct, _)) = (through.rest().await, direct.rest().await);
    assert!(matches!(end, End::Clean));
    assert_eq!(through, direct);
    let [one, other] = &observed.seen()[..] else { panic!("each came once") };
    assert_eq!((&one.body, &one.body), (&other.body, &Bytes::from(body.clone())));
    for name in ["authorization", "x-own", "content-type", "accept", "content-length"] {
        assert_eq!(one.header(name), other.header(name), "{name}");
    }

    // Complete answers, refusals, other paths, and unparsable bodies.
    let whole = with_json(
        http().post(&url),
        &json!({ "model": "auto", "messages": [{ "role": "user", "content": "x ".repeat(4000) }] }),
    );
    assert!(whole.send().await.unwrap().text().await.unwrap().contains("choices"));
    let refused = with_json(http().post(gateway.at("/v1/embeddings")), &json!({ "model": "e", "input": "x" }))
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.text().await.unwrap().contains("slow down"));
    for path in ["/v1/models", "/metrics", "/health", "/any/thing?at=all"] {
        let answer = http().get(gateway.at(path)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }
    let odd = http().post(&url).body("no json").send().await.unwrap();
    assert!(odd.text().await.unwrap().contains("choices"));
    assert_eq!(observed.seen().last().unwrap().body, "no json");

    let metrics =
        gateway.wait_metrics("all of them", |metrics| metrics.sum("signalbox_requests_total", &[]) > 3.5).await;
    let seen = |name: &str| metrics.sum(name, &[r#"pool="observed""#]) as u64;
    assert_eq!((seen("signalbox_ttft_seconds_count"), seen("signalbox_backend_requests_total")), (1, 4));
    let decisions = gateway.get_json("/admin/decisions").await;
    let would: Vec<(&str, &str)> = decisions
        .as_array()
        .or_else(|| decisions["decisions"].as_array())
        .unwrap()
        .iter()
        .rev()
        .map(|line| (line["would"]["pool"].as_str().unwrap_or("none"), line["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(would, [("small", "ok"), ("large", "ok"), ("none", "upstream_rate_limited"), ("none", "ok")]);
}

#[tokio::test]
async fn a_large_upload_and_a_cut_pass_as_they_come() {
    let observed = Mock::start(|seen: &Seen| {
        if seen.path.ends_with("/files") {
            Plan::text(200, "application/json", "{}")
        } else {
            Plan::stream().events(&chat_events(["Hel", "lo"])[..2]).cut()
        }
    })
    .await;
    let gateway = observing(&format!("limits: {{ body: 64Ki }}\n{POLICY}"), &observed).await;
    let upload = Bytes::from(vec![b'x'; 1 << 20]);
    let sent = http().post(gateway.at("/v1/files")).body(upload.clone()).send().await.unwrap();
    assert_eq!((sent.status(), &observed.seen()[0].body), (StatusCode::OK, &upload));
    let mut answer = Sse::post(&gateway.at("/v1/chat/completions"), &ask("hi")).await;
    let (events, end) = answer.rest().await;
    assert!(!matches!(end, End::Clean), "a cut stays a cut");
    assert_eq!(events.len(), 2);
    gateway
        .wait_metrics("the cut", |metrics| metrics.sum("signalbox_requests_total", &[r#"outcome="stream_cut""#]) > 0.5)
        .await;
    observed.stop().await;
    let gone = Sse::post(&gateway.at("/v1/chat/completions"), &ask("hi")).await;
    assert_eq!(gone.status, StatusCode::BAD_GATEWAY);
}
