//! Exact cache and coalescing: over the real binary, a scripted engine and real sockets.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::process::Stdio;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{
    client::{self, Answer, End, Sse, http},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_events, polite, usage_event},
    until,
};

const CACHE: &str = "cache: { exact: { ttl: 1h } }\n";

fn policy(mocks: &[(&str, &Mock)], more: &str) -> String {
    let pool = |(name, mock): &(&str, &Mock)| {
        format!("  {name}: {{ model: m-{name}, price: {{ input: 1, output: 2 }}, backends: [\"{}\"] }}\n", mock.url())
    };
    format!("pools:\n{}{more}", mocks.iter().map(pool).collect::<String>())
}

async fn gateway(mock: &Mock, more: &str) -> Gateway {
    Gateway::start(&policy(&[("p", mock)], &format!("models: {{ m: {{ to: p }} }}\n{more}"))).await
}

/// A cacheable chat request.
fn ask(said: &str) -> Value {
    json!({ "model": "m", "temperature": 0, "messages": [{ "role": "user", "content": said }] })
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

fn streamed(body: Value) -> Value {
    with(with(body, "stream", true.into()), "stream_options", json!({ "include_usage": true }))
}

async fn send(gateway: &Gateway, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let request = client::json(http().post(gateway.at("/v1/chat/completions")), body);
    client::answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

/// Cache status of an answer.
async fn cache_status(gateway: &Gateway, body: &Value, headers: &[(&str, &str)]) -> String {
    send(gateway, body, headers).await.header("x-signalbox-cache").to_owned()
}

/// A stream as a client parses it: text of the first choice, end, and usage.
fn assembled(events: &str) -> (String, Value, Value) {
    let (mut text, mut finish, mut usage) = (String::new(), Value::Null, Value::Null);
    assert!(events.trim_end().ends_with("data: [DONE]"), "{events}");
    for data in events.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]") {
        let chunk: Value = serde_json::from_str(data).unwrap();
        assert!(chunk["error"].is_null(), "{chunk}");
        text += chunk.pointer("/choices/0/delta/content").and_then(Value::as_str).unwrap_or_default();
        for (place, value) in
            [(&mut finish, chunk.pointer("/choices/0/finish_reason")), (&mut usage, chunk.get("usage"))]
        {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                *place = value.clone();
            }
        }
    }
    (text, finish, usage)
}

/// Answers that differ with every request.
fn numbered(seen: &Seen) -> Plan {
    let text = format!("answer {}", seen.number);
    if seen.streams() { Plan::chat_stream([&text[..6], &text[6..]]) } else { Plan::chat(&text) }
}

#[tokio::test]
async fn an_answer_is_given_again_whole_and_as_a_stream() {
    for first_streams in [false, true] {
        let mock = Mock::start(numbered).await;
        let gateway = gateway(&mock, CACHE).await;
        let (whole, stream) = (ask("hi"), streamed(ask("hi")));
        let first = send(&gateway, if first_streams { &stream } else { &whole }, &[]).await;
        assert_eq!((first.header("x-signalbox-cache"), first.header("age")), ("miss", ""));
        assert_eq!(first.header("cache-status"), "signalbox; fwd=miss; detail=absent");

        let hit = send(&gateway, &whole, &[("x-request-id", "mine")]).await;
        assert_eq!((hit.status.as_u16(), hit.header("x-signalbox-cache")), (200, "hit-exact"));
        assert!(hit.header("cache-status").starts_with("signalbox; hit; detail=exact"), "{:?}", hit.headers);
        assert_eq!((hit.header("age"), hit.header("x-request-id"), hit.header("x-signalbox-pool")), ("0", "mine", "p"));
        assert_eq!(hit.header("content-type"), "application/json");
        let body = hit.json();
        let text = body["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        let usage = &body["usage"];
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]);
        assert_eq!(body["object"], "chat.completion");

        let replay = send(&gateway, &stream, &[]).await;
        assert_eq!(replay.header("x-signalbox-cache"), "hit-exact");
        assert!(replay.header("content-type").starts_with("text/event-stream"));
        assert_eq!(assembled(&replay.text()), (text.clone(), json!("stop"), usage.clone()));
        if first_streams {
            assert_eq!(assembled(&first.text()).0, text);
        } else {
            assert_eq!(first.json()["choices"], body["choices"]);
        }
        // Usage comes only to those who ask for it.
        let quiet = send(&gateway, &with(ask("hi"), "stream", true.into()), &[]).await;
        assert_eq!(assembled(&quiet.text()), (text, json!("stop"), Value::Null));
        assert_eq!(mock.seen().len(), 1);

        let decision = gateway.get_json("/admin/decisions/mine").await;
        assert_eq!((&decision["reused"]["result"], &decision["reused"]["pool"]), (&json!("hit-exact"), &json!("p")));
        assert_eq!(
            (&decision["cost_usd"], &decision["outcome"], &decision["attempts"]),
            (&json!(0.0), &json!("ok"), &json!([]))
        );
        let metrics = gateway.metrics().await;
        let lookups = |result: &str| metrics.sum("signalbox_cache_lookups_total", &[&format!("result=\"{result}\"")]);
        assert!((lookups("hit") - 3.0).abs() < 0.1 && (lookups("miss") - 1.0).abs() < 0.1, "{metrics:?}");
        assert!(metrics.sum("signalbox_cache_saved_cost_usd_total", &[r#"tier="exact""#]) > 0.0);
        assert!((metrics.sum("signalbox_cache_entries", &[]) - 1.0).abs() < 0.1);
        let state = gateway.get_json("/admin/state").await;
        assert_eq!(
            (&state["cache"]["tiers"][0]["lookups"], &state["cache"]["tiers"][0]["hits"]),
            (&json!(4), &json!(3))
        );
    }
}

#[tokio::test]
async fn only_equal_requests_share() {
    let mock = Mock::start(numbered).await;
    let gateway = gateway(&mock, "cache: { exact: { ttl: 1h }, key_headers: [X-Tenant] }\n").await;
    let base = || ask("hi");
    assert_eq!(cache_status(&gateway, &base(), &[]).await, "miss");
    let system = |text: &str| {
        with(base(), "messages", json!([{ "role": "system", "content": text }, { "role": "user", "content": "hi" }]))
    };
    for other in [
        ask("hi "),
        ask("Hi"),
        system("be brief"),
        system("be long"),
        with(base(), "seed", 1.into()),
        with(base(), "seed", 2.into()),
        with(base(), "top_p", json!(0.5)),
        with(base(), "tools", json!([{ "type": "function", "function": { "name": "f" } }])),
        with(base(), "model", "m-p".into()),
        with(base(), "cache", json!({ "namespace": "n" })),
    ] {
        assert_eq!(cache_status(&gateway, &other, &[]).await, "miss", "{other}");
        assert_eq!(cache_status(&gateway, &other, &[]).await, "hit-exact", "{other}");
    }
    let spelled = r#"{"messages" : [{"content":[{"type":"text","text":"h\u0069"}],"role":"user"}], "temperature":-0.0e1,"model":"m","n":1,"user":"u"}"#;
    let request =
        http().post(gateway.at("/v1/chat/completions")).body(spelled).header("content-type", "application/json");
    assert_eq!(client::answer(request).await.header("x-signalbox-cache"), "hit-exact", "another spelling of the first");
    for (drawn, reason) in [
        (with(base(), "temperature", json!(0.7)), "temperature"),
        (json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] }), "temperature"),
        (with(base(), "web_search_options", json!({})), "search"),
        (with(base(), "tools", json!([{ "type": "web_search" }])), "search"),
    ] {
        let answer = send(&gateway, &drawn, &[]).await;
        assert_eq!(answer.header("x-signalbox-cache"), "bypass");
        assert_eq!(answer.header("cache-status"), format!("signalbox; fwd=bypass; detail={reason}"));
    }
    for (header, value) in [("x-tenant", "a"), ("x-tenant", "b"), ("openai-beta", "a")] {
        let headers = [(header, value), ("user-agent", value), ("traceparent", value)];
        assert_eq!(cache_status(&gateway, &base(), &headers).await, "miss", "an engine may heed {header}");
        assert_eq!(cache_status(&gateway, &base(), &[(header, value)]).await, "hit-exact");
    }
    // Proxies give each request headers of its own, and clients accounting fields.
    for header in ["x-amzn-trace-id", "cf-ray", "x-envoy-attempt-count", "accept-language", "x-any"] {
        assert_eq!(cache_status(&gateway, &base(), &[(header, "b")]).await, "hit-exact", "{header}");
    }
    for (field, value) in [("prompt_cache_key", json!("s")), ("tools", json!([])), ("stop", Value::Null)] {
        assert_eq!(cache_status(&gateway, &with(base(), field, value), &[]).await, "hit-exact", "{field}");
    }
    assert!(mock.seen().iter().all(|seen| seen.json().get("cache").is_none()), "what is said to us goes no further");
}

/// A line for the policy's `keys`, whose secret is the id.
fn key(id: &str, more: &str) -> String {
    format!("  - {{ id: {id}, hash: \"blake3:{}\"{more} }}\n", blake3::hash(id.as_bytes()).to_hex())
}

#[tokio::test]
async fn tenants_share_only_where_the_policy_says_so() {
    let mock = Mock::start(numbered).await;
    let keys = format!("keys:\n{}{}", key("alice", ", allow: [cache]"), key("bob", ""));
    let at = |secret: &str| format!("Bearer {secret}");
    let as_user = |user: &str| with(ask("hi"), "user", user.into());
    for (scope, want) in [
        ("key", ["miss", "hit-exact", "miss", "hit-exact"]),
        ("user", ["miss", "miss", "miss", "hit-exact"]),
        ("shared", ["miss", "hit-exact", "hit-exact", "hit-exact"]),
    ] {
        let cache = format!("cache: {{ exact: {{ scope: {scope} }} }}\n{keys}");
        let gateway = gateway(&mock, &cache).await;
        let mut seen = Vec::new();
        for (secret, user) in [("alice", "u"), ("alice", "v"), ("bob", "u"), ("bob", "u")] {
            seen.push(cache_status(&gateway, &as_user(user), &[("authorization", &at(secret))]).await);
        }
        assert_eq!(seen, want, "{scope}");
        if scope == "user" {
            assert_eq!(
                cache_status(&gateway, &ask("hi"), &[("authorization", &at("bob"))]).await,
                "bypass",
                "it names no user"
            );
        }
        let off = |secret: &str| [("authorization", at(secret)), ("x-signalbox-cache", "off".to_owned())];
        for (secret, status) in [("alice", 200), ("bob", 403)] {
            let headers = off(secret);
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = send(&gateway, &as_user("u"), &headers).await;
            assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
            assert_eq!(answer.header("x-signalbox-cache"), if status == 200 { "bypass" } else { "" });
        }
    }
}

#[tokio::test]
async fn incomplete_answers_are_not_cached() {
    let mock = Mock::start(|seen| {
        let events = chat_events(["a", "b"]);
        let finish = |reason: &str| {
            let mut events = events.clone();
            let last = events.pop().unwrap().replace("\"stop\"", &format!("\"{reason}\""));
            events.push(last);
            Plan::stream().events(events).event(&usage_event(3, 2)).done()
        };
        match seen.json()["messages"][0]["content"].as_str().unwrap() {
            "cut" => Plan::stream().events(&events[..2]).cut(),
            "error" => Plan::stream().events(&events[..2]).event(r#"{"error":{"message":"oom"}}"#).done(),
            "length" | "content_filter" | "tool_calls" => {
                finish(seen.json()["messages"][0]["content"].as_str().unwrap())
            }
            "long" => Plan::chat(&"a".repeat(5000)),
            "whole length" => {
                let mut body: Value =
                    json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": "a" } }] });
                body["choices"][0]["finish_reason"] = "length".into();
                Plan::json(200, &body)
            }
            "refused" => Plan::error(400, "no"),
            other => panic!("{other}"),
        }
    })
    .await;
    let gateway = gateway(&mock, "cache: { exact: { largest: 4Ki } }\n").await;
    for (said, stream) in [
        ("cut", true),
        ("error", true),
        ("length", true),
        ("content_filter", true),
        ("tool_calls", true),
        ("long", false),
        ("whole length", false),
        ("refused", false),
    ] {
        let body = if stream { streamed(ask(said)) } else { ask(said) };
        for _ in 0..2 {
            let answer = send(&gateway, &body, &[]).await;
            let cache_status = answer.header("x-signalbox-cache");
            assert!(cache_status == "miss" || said == "refused", "{said}: {cache_status}");
        }
    }
    assert!(mock.seen().len() >= 16, "what broke off is asked for again, too");
    assert!(gateway.metrics().await.sum("signalbox_cache_entries", &[]) < 0.1);
}

#[tokio::test]
async fn callers_can_ask_for_less() {
    let mock = Mock::start(numbered).await;
    let gateway = gateway(&mock, CACHE).await;
    let body = ask("hi");
    let no_answer = send(&gateway, &body, &[("cache-control", "only-if-cached")]).await;
    assert_eq!((no_answer.status.as_u16(), &no_answer.json()["error"]["code"]), (504, &json!("not_cached")));
    assert_eq!(cache_status(&gateway, &body, &[("cache-control", "no-store")]).await, "miss");
    assert_eq!(cache_status(&gateway, &with(body.clone(), "cache", json!({ "no-store": true })), &[]).await, "miss");
    assert_eq!(cache_status(&gateway, &with(body.clone(), "cache", json!({ "ttl": 0 })), &[]).await, "miss");
    assert_eq!(cache_status(&gateway, &body, &[]).await, "miss", "nothing was kept so far");
    assert_eq!(cache_status(&gateway, &body, &[("cache-control", "only-if-cached")]).await, "hit-exact");
    assert_eq!(cache_status(&gateway, &body, &[("x-signalbox-cache", "off")]).await, "bypass");
    assert_eq!(cache_status(&gateway, &body, &[("x-signalbox-cache", "exact")]).await, "hit-exact");
    let fresh = send(&gateway, &body, &[("cache-control", "no-cache")]).await;
    assert_eq!((fresh.header("x-signalbox-cache"), fresh.header("cache-status")), ("miss", "signalbox; fwd=request"));
    let kept = send(&gateway, &body, &[("cache-control", "max-age=600")]).await;
    assert_eq!(kept.json()["choices"], fresh.json()["choices"], "the fresh answer took the place of the old one");
    let odd = send(&gateway, &body, &[("x-signalbox-cache", "always")]).await;
    assert_eq!((odd.status.as_u16(), &odd.json()["error"]["param"]), (400, &json!("x-signalbox-cache")));
    let odd = send(&gateway, &with(body, "cache", true.into()), &[]).await;
    assert_eq!((odd.status.as_u16(), &odd.json()["error"]["param"]), (400, &json!("cache")));
}

#[tokio::test]
async fn a_policy_without_a_cache_leaves_everything_as_it_is() {
    let mock = Mock::start(polite).await;
    let gateway = gateway(&mock, "").await;
    let body = with(ask("hi"), "cache", json!({ "no-store": true }));
    for _ in 0..2 {
        let answer = send(&gateway, &body, &[]).await;
        assert_eq!((answer.header("x-signalbox-cache"), answer.header("cache-status")), ("", ""));
    }
    assert!(mock.seen().iter().all(|seen| seen.json()["cache"] == json!({ "no-store": true })));
    assert_eq!(mock.seen().len(), 2);
}

/// Streams wait at gate 1 after their first token.
fn held(seen: &Seen) -> Plan {
    let events = chat_events(["a", "b", "c"]);
    if seen.streams() {
        Plan::stream().events(&events[..2]).gate(1).events(&events[2..]).event(&usage_event(7, 3)).done()
    } else {
        Plan::chat("abc").behind(1)
    }
}

async fn coalesced(gateway: &Gateway, count: usize) {
    let what = format!("{count} requests that share one");
    gateway
        .wait_metrics(&what, |now| {
            now.sum("signalbox_cache_lookups_total", &[r#"result="coalesced""#]) as usize == count
        })
        .await;
}

#[tokio::test]
async fn fifty_equal_requests_are_one() {
    for stream in [true, false] {
        let mock = Mock::start(held).await;
        let gateway = gateway(&mock, CACHE).await;
        let body = if stream { streamed(ask("hi")) } else { ask("hi") };
        let all = join_all((0..50).map(|number| {
            let (gateway, body) = (&gateway, &body);
            async move { send(gateway, body, &[("x-request-id", &format!("r{number}"))]).await }
        }));
        let open = async {
            coalesced(&gateway, 49).await;
            mock.open(1);
        };
        let (answers, ()) = tokio::join!(all, open);
        assert_eq!(mock.seen().len(), 1);
        let mut ids: Vec<_> = answers.iter().map(|answer| answer.header("x-request-id").to_owned()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 50, "each has an id of its own");
        let count =
            |cache_status: &str| answers.iter().filter(|it| it.header("x-signalbox-cache") == cache_status).count();
        assert_eq!((count("miss"), count("coalesced")), (1, 49));
        for answer in &answers {
            assert_eq!(answer.body, answers[0].body, "byte for byte");
        }
        if stream {
            let (text, finish, usage) = assembled(&answers[0].text());
            assert_eq!((text.as_str(), &finish, &usage["completion_tokens"]), ("abc", &json!("stop"), &json!(3)));
        }
        let lines: Vec<Value> = serde_json::from_value(gateway.get_json("/admin/decisions").await).unwrap();
        let shared: Vec<_> = lines.iter().filter(|line| line["reused"]["result"] == "coalesced").collect();
        assert_eq!(shared.len(), 49);
        assert!(
            shared
                .iter()
                .all(|line| line["outcome"] == "ok" && line["cost_usd"] == 0.0 && line["attempts"] == json!([]))
        );
        assert_eq!(cache_status(&gateway, &body, &[]).await, "hit-exact");
    }
}

#[tokio::test]
async fn each_caller_sees_the_usage_only_if_he_asked_for_it() {
    let mock = Mock::start(|seen| held(seen).header("x-ratelimit-remaining-tokens", "7")).await;
    let gateway = gateway(&mock, CACHE).await;
    let (quiet, loud) = (with(ask("hi"), "stream", true.into()), streamed(ask("hi")));
    let url = gateway.at("/v1/chat/completions");
    let mut leader = Sse::post(&url, &quiet).await;
    let mut follower = Sse::post(&url, &loud).await;
    assert_eq!(follower.header("x-signalbox-cache"), "coalesced");
    mock.open(1);
    let of_the_other = ["x-ratelimit-remaining-tokens", "x-signalbox-reason", "x-signalbox-predicted-ttft-ms"];
    for name in of_the_other {
        assert_ne!(leader.header(name), "", "{name}");
        assert_eq!(follower.header(name), "", "{name}");
    }
    for name in ["content-type", "x-signalbox-pool", "x-signalbox-route", "cache-control"] {
        assert_eq!(follower.header(name), leader.header(name), "{name}");
    }
    let usage =
        |events: Vec<bytes::Bytes>| events.iter().any(|event| String::from_utf8_lossy(event).contains("\"usage\""));
    assert!(!usage(leader.rest().await.0));
    assert!(usage(follower.rest().await.0));
}

#[tokio::test]
async fn the_leader_may_leave_and_the_last_one_ends_it() {
    let mock = Mock::start(held).await;
    let gateway = gateway(&mock, CACHE).await;
    let body = streamed(ask("hi"));
    let url = gateway.at("/v1/chat/completions");
    // Before the answer begins: its head is held until its first token, which waits for nothing here.
    let leader = Sse::post(&url, &body).await;
    let followers = join_all((0..49).map(|_| Sse::post(&url, &body))).await;
    drop(leader);
    mock.open(1);
    let answers = join_all(followers.into_iter().map(|mut follower| async move { follower.rest().await })).await;
    for (events, end) in answers {
        assert!(matches!(end, End::Clean), "{end:?}");
        assert_eq!(assembled(&String::from_utf8(events.concat()).unwrap()).0, "abc");
    }
    assert_eq!(mock.seen().len(), 1);
    assert_eq!(cache_status(&gateway, &body, &[]).await, "hit-exact");

    mock.shut(1);
    let other = streamed(ask("other"));
    let all = join_all((0..3).map(|_| Sse::post(&url, &other))).await;
    mock.wait_under_way(1).await;
    drop(all);
    mock.wait_under_way(0).await;
    until("the callers to be noted as gone", async || {
        let lines = gateway.get_json("/admin/decisions").await;
        lines.as_array().unwrap().iter().filter(|line| line["outcome"] == "client_gone").count() == 3
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_fails_before_its_answer_is_replaced() {
    // The first request fails once there are others, as the policy gives it one backend.
    let mock = Mock::start(|seen| {
        if seen.number == 0 { Plan::error(500, "broken").behind(1) } else { Plan::chat_stream(["a", "b"]) }
    })
    .await;
    let gateway = gateway(&mock, CACHE).await;
    let body = streamed(ask("hi"));
    let all = join_all((0..10).map(|_| send(&gateway, &body, &[])));
    let open = async {
        coalesced(&gateway, 9).await;
        mock.open(1);
    };
    let (answers, ()) = tokio::join!(all, open);
    for answer in &answers {
        assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
        assert_eq!(assembled(&answer.text()).0, "ab");
    }
    assert_eq!(mock.seen().len(), 2);
}

#[tokio::test]
async fn coalesced_callers_all_get_the_failure_of_their_shared_request() {
    let mock = Mock::start(|seen| {
        if seen.streams() {
            Plan::stream().events(&chat_events(["a"])[..2]).gate(1).cut()
        } else {
            Plan::error(400, "too hot").behind(1)
        }
    })
    .await;
    let gateway = gateway(&mock, CACHE).await;
    let (stream, whole) = (streamed(ask("hi")), ask("hi"));
    let all = join_all((0..8).map(|number| send(&gateway, if number % 2 == 0 { &stream } else { &whole }, &[])));
    let open = async {
        coalesced(&gateway, 6).await;
        mock.open(1);
    };
    let (answers, ()) = tokio::join!(all, open);
    for (number, answer) in answers.iter().enumerate() {
        if number % 2 == 0 {
            assert!(answer.text().contains("stream_cut") && !answer.text().contains("[DONE]"), "{}", answer.text());
        } else {
            assert_eq!((answer.status.as_u16(), answer.text().contains("too hot")), (400, true), "{}", answer.text());
        }
    }
    assert!((2..=5).contains(&mock.seen().len()), "the rest of the stream is asked for three times at most");
    let lines: Vec<Value> = serde_json::from_value(gateway.get_json("/admin/decisions").await).unwrap();
    assert!(lines.iter().all(|line| line["outcome"] != "ok"), "{lines:?}");
}

#[tokio::test]
async fn a_small_pools_answer_serves_no_request_for_a_larger_one() {
    let (small, large) = (Mock::start(numbered).await, Mock::start(numbered).await);
    let models = "models:\n  m:\n    routes:\n      - { when: 'headers[\"user-agent\"] == \"large\"', to: large }\n      - { to: small }\n\
                  cache: { exact: {} }\n";
    let gateway = Gateway::start(&policy(&[("small", &small), ("large", &large)], models)).await;
    let body = ask("hi");
    let pool = async |headers: &[(&str, &str)]| {
        let answer = send(&gateway, &body, headers).await;
        format!("{} {}", answer.header("x-signalbox-cache"), answer.header("x-signalbox-pool"))
    };
    assert_eq!(pool(&[]).await, "miss small");
    assert_eq!(pool(&[]).await, "hit-exact small");
    assert_eq!(pool(&[("user-agent", "large")]).await, "miss large");
    assert_eq!(pool(&[("user-agent", "large")]).await, "hit-exact large");
    // Which of two pools is the better one is known only among tiers.
    assert_eq!(pool(&[]).await, "miss small");
}

#[tokio::test]
async fn a_reload_keeps_answers_but_not_those_of_other_backends() {
    let (one, other) = (Mock::start(numbered).await, Mock::start(numbered).await);
    let with_mock = |mock: &Mock, more: &str| policy(&[("p", mock)], &format!("models: {{ m: {{ to: p }} }}\n{more}"));
    let gateway = Gateway::start(&with_mock(&one, CACHE)).await;
    let reload = async |policy: String| {
        gateway.rewrite(&policy);
        assert_eq!(client::post(&gateway.admin("/admin/reload"), &json!({})).await.status, 200);
    };
    let body = ask("hi");
    assert_eq!(cache_status(&gateway, &body, &[]).await, "miss");
    reload(with_mock(&one, "cache: { exact: { ttl: 2h } }\n")).await;
    assert_eq!(cache_status(&gateway, &body, &[]).await, "hit-exact");
    reload(with_mock(&other, CACHE)).await;
    let answer = send(&gateway, &body, &[]).await;
    assert_eq!(answer.header("cache-status"), "signalbox; fwd=miss; detail=origin");
    assert_eq!(other.seen().len(), 1);
    reload(with_mock(&other, &CACHE.replace('\n', "\nlimits: { in_flight: 100 }\n"))).await;
    assert_eq!(cache_status(&gateway, &body, &[]).await, "hit-exact");
    reload(with_mock(&other, "")).await;
    assert_eq!(cache_status(&gateway, &body, &[]).await, "");
    reload(with_mock(&other, CACHE)).await;
    assert_eq!(cache_status(&gateway, &body, &[]).await, "miss", "a policy without a cache forgets it");
    let off = CACHE.to_owned();
    reload(policy(&[("p", &other)], &format!("models: {{ m: {{ to: p, cache: {{ exact: off }} }} }}\n{off}"))).await;
    assert_eq!(cache_status(&gateway, &body, &[]).await, "bypass");
}

#[tokio::test]
async fn kept_answers_can_be_forgotten() {
    let mock = Mock::start(numbered).await;
    let keys = format!("keys:\n{}{}", key("alice", ""), key("bob", ""));
    let gateway = gateway(&mock, &format!("{CACHE}{keys}")).await;
    let ask_as =
        async |who: &str| cache_status(&gateway, &ask("hi"), &[("authorization", &format!("Bearer {who}"))]).await;
    let signalbox = async |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        let admin = gateway.admin("");
        let output =
            command.args(["cache", "purge", "--admin", &admin]).args(args).stdin(Stdio::null()).output().await.unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    for who in ["alice", "bob"] {
        assert_eq!(ask_as(who).await, "miss");
    }
    assert_eq!(signalbox(&["--key", "alice"]).await, (true, "1 answers forgotten\n".to_owned()));
    assert_eq!((ask_as("alice").await, ask_as("bob").await), ("miss".to_owned(), "hit-exact".to_owned()));
    let lines = gateway.get_json("/admin/decisions").await;
    let entry = lines[0]["reused"]["entry"].as_str().unwrap().to_owned();
    assert_eq!(signalbox(&["--entry", &entry, "--route", "m"]).await.1, "1 answers forgotten\n");
    assert_eq!(ask_as("bob").await, "miss");
    assert!(!signalbox(&[]).await.0, "what to forget has to be said");
    assert!(!signalbox(&["--entry", "xyz"]).await.0);
    assert_eq!(signalbox(&["--all"]).await.1, "2 answers forgotten\n");
    let foreign = http().post(gateway.admin("/admin/cache/purge")).header("origin", "https://evil.example");
    assert_eq!(client::answer(foreign).await.status, 403);
    let misspelt = client::post(&gateway.admin("/admin/cache/purge?rout=m"), &json!({})).await;
    assert_eq!(misspelt.status, 400);
}

#[tokio::test]
async fn a_paced_replay_says_the_same() {
    let mock = Mock::start(numbered).await;
    let gateway = gateway(&mock, "cache: { exact: { replay: paced } }\n").await;
    let body = streamed(ask("hi"));
    let first = send(&gateway, &body, &[]).await;
    let again = send(&gateway, &body, &[]).await;
    assert_eq!(again.header("x-signalbox-cache"), "hit-exact");
    let ((text, ..), (replayed, ..)) = (assembled(&first.text()), assembled(&again.text()));
    assert_eq!(text, replayed);
    let pieces = |text: &str| text.matches(r#""content":"#).count();
    assert!(pieces(&again.text()) >= 2, "in the pieces it came in");
    until("the kept answer's end to be noted", async || {
        let lines = gateway.get_json("/admin/decisions").await;
        lines[0]["reused"]["result"] == "hit-exact" && lines[0]["outcome"] == "ok"
    })
    .await;
}
