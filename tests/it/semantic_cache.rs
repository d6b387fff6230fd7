//! The semantic cache: over the real binary with its built-in embedders, a scripted engine and real sockets.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, http},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_events},
    until,
};

fn policy(mock: &Mock, more: &str) -> String {
    format!(
        "pools:\n  p: {{ model: up, price: {{ input: 1, output: 2 }}, backends: [\"{}\"] }}\nmodels: {{ m: {{ to: p }} }}\n{more}",
        mock.url()
    )
}

const SHARED: &str = "cache: { semantic: { max_false_hit_rate: 5%, scope: shared } }\n";
const CAPITAL: &str = "What is the capital of France?";
const SAME: &str = "what is the capital of france";
const OTHER: &str = "What is the capital of Spain?";

fn ask(said: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": said }] })
}

async fn send(gateway: &Gateway, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let request = client::json(http().post(gateway.at("/v1/chat/completions")), body);
    client::answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

async fn cache_status(gateway: &Gateway, body: &Value) -> String {
    send(gateway, body, &[]).await.header("x-signalbox-cache").to_owned()
}

fn text(answer: &Answer) -> String {
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

/// Answers with the capital of the country in the prompt.
fn capitals(seen: &Seen) -> Plan {
    let body = seen.json();
    let said = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap_or_default().to_owned();
    let lower = said.to_lowercase();
    let answer = if lower.contains("france") { "It is Paris." } else { "It is Madrid." };
    if seen.streams() { Plan::chat_stream(["It is ", &answer[6..]]) } else { Plan::chat(answer) }
}

async fn kept(gateway: &Gateway, entries: f64) {
    gateway
        .wait_metrics("the answer to be kept", |metrics| {
            metrics.sum("signalbox_cache_entries", &["tier=\"semantic\""]) >= entries
        })
        .await;
}

#[tokio::test]
async fn paraphrases_hit_and_other_prompts_miss() {
    let mock = Mock::start(capitals).await;
    let gateway = Gateway::start(&policy(&mock, SHARED)).await;
    assert_eq!(text(&send(&gateway, &ask(CAPITAL), &[]).await), "It is Paris.");
    kept(&gateway, 1.0).await;

    let hit = send(&gateway, &ask(SAME), &[]).await;
    assert_eq!((hit.header("x-signalbox-cache"), &*text(&hit)), ("hit-semantic", "It is Paris."), "{:?}", hit.headers);
    assert!(hit.header("cache-status").starts_with("signalbox; hit; detail=semantic"), "{:?}", hit.headers);
    assert!(hit.header("x-signalbox-cache-certainty").starts_with("similarity="), "{:?}", hit.headers);
    let usage = hit.json()["usage"].clone();
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]);
    // Also as a stream.
    let mut stream = ask(SAME);
    stream["stream"] = json!(true);
    let streamed = send(&gateway, &stream, &[]).await;
    assert_eq!(streamed.header("x-signalbox-cache"), "hit-semantic");
    assert!(streamed.text().contains("Paris") && streamed.text().trim_end().ends_with("data: [DONE]"));
    assert_eq!(mock.seen().len(), 1);

    let spain = send(&gateway, &ask(OTHER), &[]).await;
    assert_eq!((spain.header("x-signalbox-cache"), &*text(&spain)), ("miss", "It is Madrid."));
    let today = send(&gateway, &ask("What is the capital of France today?"), &[]).await;
    assert_eq!(today.header("cache-status"), "signalbox; fwd=bypass; detail=volatile");
    let metrics = gateway.metrics().await;
    assert!(
        metrics.sum("signalbox_cache_lookups_total", &["tier=\"semantic\"", "result=\"hit\""]) >= 2.0,
        "{metrics:?}"
    );
    assert!(metrics.sum("signalbox_cache_saved_tokens_total", &["tier=\"semantic\""]) > 0.0, "{metrics:?}");
    assert!(metrics.sum("signalbox_cache_verified_labels", &[]) < 0.1, "unverified so far");
}

#[tokio::test]
async fn reworded_prompts_hit_and_misses_say_why() {
    let mock = Mock::start(capitals).await;
    let gateway = Gateway::start(&policy(&mock, SHARED)).await;
    send(&gateway, &ask("Hello! What is the capital of France, please?"), &[]).await;
    kept(&gateway, 1.0).await;
    for reworded in [
        "Hi, what is the capital of France? Thanks!",
        "Can you tell me: what's the capital of France?",
        "WHAT IS THE CAPITAL OF FRANCE",
        "What is the captial of France?",
        "What is the capital of Frence?",
    ] {
        assert_eq!(cache_status(&gateway, &ask(reworded)).await, "hit-semantic", "{reworded}");
    }
    let other = send(&gateway, &ask(OTHER), &[("x-signalbox-id", "spain")]).await;
    assert_eq!(other.header("cache-status"), "signalbox; fwd=miss; detail=guard:antonym");
    let id = other.header("x-signalbox-id").to_owned();
    let near = gateway.get_json(&format!("/admin/decisions/{id}")).await["reused"]["near"].clone();
    assert_eq!((&near["guard"], &near["probability"]), (&json!("antonym"), &Value::Null), "{near}");
    assert!(near["similarity"].as_f64().is_some_and(|similarity| similarity > 0.5), "{near}");
    assert_eq!(near["entry"].as_str().map(str::len), Some(64), "{near}");
}

#[tokio::test]
async fn exchanged_parts_hit_only_where_their_order_does_not_matter() {
    let mock = Mock::start(capitals).await;
    let gateway = Gateway::start(&policy(&mock, SHARED)).await;
    for (number, (one, other, expected)) in [
        ("How do I arrange books by author and year?", "How do I arrange books by year and author?", "miss"),
        ("Rename field a to d in the schema", "Rename field d to a in the schema", "miss"),
        (
            "What is the difference between moths and bees?",
            "What is the difference between bees and moths?",
            "hit-semantic",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(cache_status(&gateway, &ask(one)).await, "miss", "{one}");
        kept(&gateway, 2.0 * number as f64 + 1.0).await;
        assert_eq!(cache_status(&gateway, &ask(other)).await, expected, "{one} | {other}");
    }
}

#[tokio::test]
async fn other_request_fields_separate_prompts() {
    let mock = Mock::start(capitals).await;
    let gateway = Gateway::start(&policy(&mock, SHARED)).await;
    send(&gateway, &ask(CAPITAL), &[]).await;
    kept(&gateway, 1.0).await;
    let with = |name: &str, value: Value| {
        let mut body = ask(SAME);
        body[name] = value;
        body
    };
    let said = |messages: Value| json!({ "model": "m", "messages": messages });
    for (body, expected) in [
        (with("temperature", json!(0.3)), "miss"),
        (with("seed", json!(1)), "miss"),
        (with("max_tokens", json!(5)), "miss"),
        (said(json!([{ "role": "system", "content": "be brief" }, { "role": "user", "content": SAME }])), "miss"),
        (
            said(json!([
                { "role": "user", "content": "hi" }, { "role": "assistant", "content": "hello" }, { "role": "user", "content": SAME }
            ])),
            "miss",
        ),
        (with("n", json!(2)), "bypass"),
        (with("logprobs", json!(true)), "bypass"),
        (with("tools", json!([{ "type": "function", "function": { "name": "f" } }])), "bypass"),
        (ask("What is the capital of France today?"), "bypass"),
        (
            said(json!([
                { "role": "user", "content": "What is the weather today?" }, { "role": "assistant", "content": "Fine." },
                { "role": "user", "content": SAME }
            ])),
            "bypass",
        ),
        (ask(SAME), "hit-semantic"),
    ] {
        assert_eq!(cache_status(&gateway, &body).await, expected, "{body}");
    }
}

#[tokio::test]
async fn tenants_do_not_share_and_callers_may_ask_for_less() {
    let mock = Mock::start(capitals).await;
    let hash = |secret: &str| blake3::hash(secret.as_bytes()).to_hex().to_string();
    let keys = format!(
        "keys:\n  - {{ id: one, hash: \"blake3:{}\", allow: [cache] }}\n  - {{ id: two, hash: \"blake3:{}\" }}\n\
         cache: {{ semantic: {{ max_false_hit_rate: 5% }} }}\n",
        hash("k1"),
        hash("k2")
    );
    let gateway = Gateway::start(&policy(&mock, &keys)).await;
    let (one, two) = (("authorization", "Bearer k1"), ("authorization", "Bearer k2"));
    send(&gateway, &ask(CAPITAL), &[one]).await;
    gateway
        .wait_metrics("the answer to be kept", |metrics| {
            metrics.sum("signalbox_cache_entries", &["tier=\"semantic\""]) >= 1.0
        })
        .await;
    let cache_status = async |headers: &[(&str, &str)]| {
        send(&gateway, &ask(SAME), headers).await.header("x-signalbox-cache").to_owned()
    };
    assert_eq!(cache_status(&[two, ("cache-control", "no-store")]).await, "miss");
    assert_eq!(cache_status(&[one]).await, "hit-semantic");
    assert_eq!(cache_status(&[one, ("cache-control", "no-cache, no-store")]).await, "miss");
    assert_eq!(cache_status(&[one, ("x-signalbox-cache", "exact"), ("cache-control", "no-store")]).await, "bypass");
    assert_eq!(cache_status(&[one, ("x-signalbox-cache", "off")]).await, "bypass");
    assert_eq!(cache_status(&[one, ("x-signalbox-cache", "shadow"), ("cache-control", "no-store")]).await, "miss");
    let looked =
        gateway.metrics().await.sum("signalbox_cache_lookups_total", &["tier=\"semantic\"", "reason=\"shadow\""]);
    assert!(looked > 0.5);
    assert_eq!(client::post(&gateway.at("/v1/chat/completions"), &ask(SAME)).await.status, 401);
}

#[tokio::test]
async fn hits_are_verified() {
    let mock = Mock::start(capitals).await;
    let more = format!("{SHARED}background: {{ budget: 100% }}\n");
    let gateway = Gateway::start(&policy(&mock, &more)).await;
    send(&gateway, &ask(CAPITAL), &[]).await;
    kept(&gateway, 1.0).await;
    // Made anew, it says the same.
    until("a hit to be verified", async || {
        assert_eq!(cache_status(&gateway, &ask(SAME)).await, "hit-semantic");
        // What callers' own requests cost is what verification may spend.
        send(&gateway, &ask(&format!("tell me of the number {}", fastrand::u32(..))), &[]).await;
        gateway
            .metrics()
            .await
            .sum("signalbox_cache_labels_total", &["of=\"hit\"", "verdict=\"right\"", "source=\"rerun\""])
            >= 1.0
    })
    .await;
    assert!(gateway.metrics().await.sum("signalbox_background_requests_total", &["purpose=\"verify\""]) >= 1.0);
}

/// Reports hits as wrong until no more are served, or up to a limit; true if none is served any more.
async fn calls_wrong(gateway: &Gateway, headers: &[(&str, &str)], most: usize) -> bool {
    for _ in 0..most {
        let hit = send(gateway, &ask(SAME), headers).await;
        if hit.header("x-signalbox-cache") != "hit-semantic" {
            return true;
        }
        let word = json!({ "request_id": hit.header("x-signalbox-id"), "served": false });
        let reply = judge(gateway, &word, headers).await;
        assert_eq!(reply.json(), json!({ "recorded": true, "learned": true }), "{}", reply.text());
    }
    false
}

async fn judge(gateway: &Gateway, word: &Value, headers: &[(&str, &str)]) -> Answer {
    let request = client::json(http().post(gateway.at("/v1/cache/feedback")), word);
    client::answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

fn keys(count: usize, scope: &str) -> String {
    let hash = |secret: &str| blake3::hash(secret.as_bytes()).to_hex().to_string();
    let keys: Vec<_> =
        (1..=count).map(|n| format!("  - {{ id: c{n}, hash: \"blake3:{}\" }}\n", hash(&format!("k{n}")))).collect();
    format!("keys:\n{}cache: {{ semantic: {{ max_false_hit_rate: 5%, scope: {scope} }} }}\n", keys.concat())
}

#[tokio::test]
async fn a_caller_who_reports_hits_as_wrong_gets_none() {
    let mock = Mock::start(capitals).await;
    let gateway = Gateway::start(&policy(&mock, &keys(1, "key"))).await;
    let one = [("authorization", "Bearer k1")];
    send(&gateway, &ask(CAPITAL), &one).await;
    kept(&gateway, 1.0).await;
    assert!(calls_wrong(&gateway, &one, 100).await);
    let metrics = gateway.wait_metrics("the scope to be silent", |metrics| {
        metrics.sum("signalbox_cache_lookups_total", &["tier=\"semantic\"", "result=\"miss\""]) > 1.5
    });
    assert!(metrics.await.sum("signalbox_cache_labels_total", &["of=\"hit\"", "source=\"feedback\""]) > 0.5);
}

#[tokio::test]
async fn one_caller_of_many_does_not_switch_the_cache_off_for_all() {
    let mock = Mock::start(capitals).await;
    for (more, headers) in [(SHARED.to_owned(), Vec::new()), (keys(2, "shared"), vec![("authorization", "Bearer k1")])]
    {
        let gateway = Gateway::start(&policy(&mock, &more)).await;
        let asked = |country: &str| ask(&format!("What is the capital of {country}?"));
        // An entry is judged by everybody who got it, and given no more; other answers still are.
        for country in
            ["France", "Spain", "Peru", "Chad", "Mali", "Cuba", "Fiji", "Iran", "Iraq", "Laos", "Oman", "Togo"]
        {
            send(&gateway, &asked(country), &headers).await;
        }
        kept(&gateway, 12.0).await;
        for country in ["Spain", "Peru", "Chad", "Mali", "Cuba", "Fiji", "Iran", "Iraq", "Laos", "Oman", "Togo"] {
            let again = ask(&format!("what is the capital of {country}"));
            for _ in 0..4 {
                let hit = send(&gateway, &again, &headers).await;
                if hit.header("x-signalbox-cache") == "hit-semantic" {
                    let word = json!({ "request_id": hit.header("x-signalbox-id"), "served": false });
                    assert_eq!(judge(&gateway, &word, &headers).await.json()["learned"], true);
                }
            }
        }
        assert_eq!(send(&gateway, &ask(SAME), &headers).await.header("x-signalbox-cache"), "hit-semantic");
        let metrics = gateway.metrics().await;
        assert!(metrics.sum("signalbox_cache_labels_total", &["source=\"feedback\"", "verdict=\"false\""]) > 10.5);
        assert!(metrics.sum("signalbox_cache_shadow_scopes", &[]) < 0.5);
    }
}

#[tokio::test]
async fn a_word_on_a_hit_is_taken_once_and_of_hits_alone() {
    let mock = Mock::start(capitals).await;
    let gateway = Gateway::start(&policy(&mock, SHARED)).await;
    let first = send(&gateway, &ask(CAPITAL), &[]).await;
    kept(&gateway, 1.0).await;
    let hit = send(&gateway, &ask(SAME), &[]).await;
    let id = hit.header("x-signalbox-id");
    let error = async |word: Value| {
        let reply = judge(&gateway, &word, &[]).await;
        let error = &reply.json()["error"];
        (reply.status.as_u16(), error["param"].clone(), error["code"].clone())
    };
    assert_eq!(error(json!({ "served": true })).await, (400, json!("request_id"), Value::Null));
    assert_eq!(error(json!({ "request_id": id })).await, (400, json!("served"), Value::Null));
    assert_eq!(error(json!({ "request_id": id, "served": "no" })).await, (400, Value::Null, json!("invalid_json")));
    let unknown = json!({ "request_id": "nobody's", "served": true });
    assert_eq!(error(unknown).await, (404, json!("request_id"), json!("request_not_found")));
    let engines = json!({ "request_id": first.header("x-signalbox-id"), "served": true });
    assert_eq!(error(engines).await, (400, json!("request_id"), json!("not_a_hit")));
    let word = json!({ "request_id": id, "served": true });
    assert_eq!(judge(&gateway, &word, &[]).await.json(), json!({ "recorded": true, "learned": true }));
    until("the second word to be one too many", async || {
        // Its line is there once its answer has ended.
        let reply = judge(&gateway, &word, &[]).await.json();
        reply["recorded"] == true && reply["learned"] == false
    })
    .await;
    let labels = ["of=\"hit\"", "verdict=\"right\"", "source=\"feedback\""];
    assert!((gateway.metrics().await.sum("signalbox_cache_labels_total", &labels) - 1.0).abs() < 0.1);
    // So does `/v1/feedback`, for clients that rate answers of any origin.
    let hit = send(&gateway, &ask(SAME), &[]).await;
    let word = json!({ "request_id": hit.header("x-signalbox-id"), "outcome": "ok" });
    let reply = client::post(&gateway.at("/v1/feedback"), &word).await;
    assert_eq!(reply.json(), json!({ "recorded": true, "learned": true }));
}

#[tokio::test]
async fn semantic_entries_can_be_purged_and_never_come_from_broken_answers() {
    let mock = Mock::start(|seen| {
        let cut = seen.json()["messages"][0]["content"].as_str().unwrap_or_default().contains("Peru");
        if cut { Plan::stream().events(&chat_events(["It is ", "Lima."])[..2]).cut() } else { capitals(seen) }
    })
    .await;
    let gateway = Gateway::start(&policy(&mock, SHARED)).await;
    let mut peru = ask("What is the capital of Peru?");
    peru["stream"] = json!(true);
    send(&gateway, &peru, &[]).await;
    send(&gateway, &ask(CAPITAL), &[]).await;
    kept(&gateway, 1.0).await;
    assert!(gateway.metrics().await.sum("signalbox_cache_entries", &["tier=\"semantic\""]) < 1.5);
    assert_eq!(cache_status(&gateway, &ask("what is the capital of peru")).await, "miss");
    assert_eq!(cache_status(&gateway, &ask(SAME)).await, "hit-semantic");
    let purged = client::post(&gateway.admin("/admin/cache/purge?route=m"), &json!({})).await;
    assert!(purged.json()["purged"].as_u64() >= Some(1), "{}", purged.text());
    assert_eq!(cache_status(&gateway, &ask(SAME)).await, "miss");
}
