//! Callers' keys: allowed models, limits, allowed headers, and the errors that callers get.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, Sse, http},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, Seen, chat_events, polite},
    until,
};

const CHAT: &str = "/v1/chat/completions";

/// Keys whose secrets are their ids, each with further settings.
pub(crate) fn keys(list: &[(&str, &str)]) -> String {
    let mut text = String::from("keys:\n");
    for (id, more) in list {
        let _ = writeln!(text, "  - {{ id: {id}, hash: \"blake3:{}\"{more} }}", blake3::hash(id.as_bytes()).to_hex());
    }
    text
}

pub(crate) fn pool(mock: &Mock, more: &str) -> String {
    format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false{more} }} }}\npools: {{ main: {{ model: m, price: {{ input: 1, output: 2 }}, backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main }}, \"claude-*\": {{ to: main }} }}\n",
        mock.url()
    )
}

/// An answer with this usage, complete or streamed.
pub(crate) fn used(seen: &Seen, prompt: u64, completion: u64) -> Plan {
    let usage =
        json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion });
    if seen.streams() {
        let last = json!({ "id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage });
        return Plan::stream().events(chat_events(["a", "b"])).event(&last.to_string()).done();
    }
    let message = json!({ "index": 0, "message": { "role": "assistant", "content": "a" }, "finish_reason": "stop" });
    Plan::json(200, &json!({ "id": "x", "object": "chat.completion", "choices": [message], "usage": usage }))
}

pub(crate) fn chat(model: &str, max_tokens: u64) -> Value {
    json!({ "model": model, "max_tokens": max_tokens, "messages": [{ "role": "user", "content": "hi" }] })
}

pub(crate) async fn ask(gateway: &Gateway, key: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let request = client::json(http().post(gateway.at(CHAT)), body).bearer_auth(key);
    client::answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

pub(crate) fn code(answer: &Answer) -> (u16, String) {
    (answer.status.as_u16(), answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_key_reaches_its_models_only() {
    let mock = Mock::start(polite).await;
    let list = keys(&[("some", ", models: [auto, \"claude-*\"]"), ("all", "")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    let status = async |key, model| code(&ask(&gateway, key, &chat(model, 5), &[]).await);
    assert_eq!(status("some", "auto").await.0, 200);
    assert_eq!(status("some", "claude-9").await.0, 200);
    assert_eq!(status("all", "m").await.0, 200);
    let refused = ask(&gateway, "some", &chat("m", 5), &[]).await;
    assert_eq!(code(&refused), (403, "model_not_found".to_owned()));
    let message = "the key 'some' may not use the model 'm': it may use 'auto', 'claude-*'";
    assert_eq!(
        (refused.json()["error"]["message"].as_str(), refused.json()["error"]["param"].as_str()),
        (Some(message), Some("model"))
    );
    assert_eq!(status("some", "no-such").await, (403, "model_not_found".to_owned()), "whether or not it exists");

    let listed = async |key: &str, path: &str| client::answer(http().get(gateway.at(path)).bearer_auth(key)).await;
    let names = async |key: &str| {
        let data = listed(key, "/v1/models").await.json()["data"].take();
        data.as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names("some").await, names("all").await),
        (vec!["auto".to_owned()], vec!["auto".to_owned(), "m".to_owned()])
    );
    assert_eq!(listed("some", "/v1/models/m").await.status, 403);
    assert_eq!(listed("some", "/v1/models/claude-9").await.status, 200);

    let seen = mock.seen().len();
    for name in ["Model", "MODEL", "mod\\u0045l"] {
        let body = format!("{{\"model\":\"auto\",\"{name}\":\"m\",\"messages\":[]}}");
        let request = http().post(gateway.at(CHAT)).bearer_auth("some").header("content-type", "application/json");
        let answer = client::answer(request.body(body)).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
    }
    let unnamed = client::answer(http().get(gateway.at("/v1/files")).bearer_auth("some")).await;
    assert_eq!(code(&unnamed), (403, "endpoint_not_allowed".to_owned()));
    // The contents of a batch, and fallbacks that another server applies, are not checked here.
    let mut fallbacks = chat("auto", 5);
    fallbacks["models"] = json!(["m"]);
    assert_eq!(code(&ask(&gateway, "some", &fallbacks, &[]).await), (403, "model_not_found".to_owned()));
    let batch = json!({ "model": "auto", "requests": [{ "custom_id": "a", "params": { "model": "m" } }] });
    let batch = client::json(http().post(gateway.at("/v1/messages/batches")), &batch).bearer_auth("some");
    assert_eq!(client::answer(batch).await.status, 403);
    assert_eq!(mock.seen().len(), seen, "none of them may reach an engine");
}

#[tokio::test]
async fn rate_limit_headers_follow_openai() {
    let mock = Mock::start(|seen| used(seen, 10, 5).header("x-ratelimit-remaining-tokens", "77")).await;
    let list = keys(&[("few", ", limits: { rpm: 2 }"), ("free", "")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    let first = ask(&gateway, "few", &chat("auto", 5), &[]).await;
    assert_eq!(
        (first.header("x-ratelimit-limit-requests"), first.header("x-ratelimit-remaining-requests")),
        ("2", "1")
    );
    assert_eq!(first.header("x-ratelimit-remaining-tokens"), "", "the provider's own limits are not the caller's");
    assert_eq!(ask(&gateway, "few", &chat("no-such", 5), &[]).await.status, 404, "it counts too");
    let refused = ask(&gateway, "few", &chat("auto", 5), &[]).await;
    assert_eq!(code(&refused), (429, "rate_limit_exceeded".to_owned()));
    assert_eq!(refused.json()["error"]["type"], "requests");
    let after: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=30).contains(&after), "{after}");
    assert_eq!(refused.header("x-ratelimit-remaining-requests"), "0");
    assert!(refused.header("x-ratelimit-reset-requests").ends_with('s'));
    let free = ask(&gateway, "free", &chat("auto", 5), &[]).await;
    assert_eq!((free.status.as_u16(), free.header("x-ratelimit-remaining-tokens")), (200, "77"));
    assert_eq!(mock.seen().len(), 2);
}

#[tokio::test]
async fn tokens_are_reserved_and_settled_by_the_usage() {
    let mock = Mock::start(|seen| match seen.header("x-fate") {
        Some("hang") => Plan::stream().events(&chat_events(["a", "b"])[..2]).hang(),
        Some("fail") => Plan::error(500, "broken"),
        _ => used(seen, 300, 200),
    })
    .await;
    let list = keys(&[("web", ", limits: { tpm: 1000, concurrency: 2 }"), ("small", ", limits: { tpm: 20 }")]);
    let gateway = Gateway::start(&format!("{list}cache: {{ exact: {{ ttl: 1h }} }}\n{}", pool(&mock, ""))).await;
    let left = |answer: &Answer| answer.header("x-ratelimit-remaining-tokens").parse::<u64>().unwrap();
    // What fails upstream costs nothing.
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "web", &chat("auto", 100), &[("x-fate", "fail")]).await.status, 500);
    }
    let first = ask(&gateway, "web", &chat("auto", 10), &[]).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert!((960..1000).contains(&left(&first)), "so far it is reserved by the estimate: {}", left(&first));
    // 500 were used, whatever was expected.
    let second = ask(&gateway, "web", &chat("auto", 9), &[]).await;
    assert!((470..520).contains(&left(&second)), "{}", left(&second));
    let hit = json!({ "model": "auto", "max_tokens": 9, "temperature": 0, "messages": [{ "role": "user", "content": "hi" }] });
    let third = ask(&gateway, "web", &hit, &[]).await;
    assert_eq!(third.status, 429, "1000 were used: {}", third.text());
    assert_eq!(
        (code(&third).1.as_str(), third.json()["error"]["type"].as_str()),
        ("rate_limit_exceeded", Some("tokens"))
    );
    let never = ask(&gateway, "small", &chat("auto", 500), &[]).await;
    assert_eq!((never.status.as_u16(), never.header("retry-after")), (429, ""), "to wait would be in vain");
}

#[tokio::test]
async fn a_kept_answer_costs_a_request_and_no_tokens() {
    let mock = Mock::start(|seen| used(seen, 300, 200)).await;
    let list = keys(&[("web", ", limits: { rpm: 100, tpm: 1000 }")]);
    let gateway = Gateway::start(&format!("{list}cache: {{ exact: {{ ttl: 1h }} }}\n{}", pool(&mock, ""))).await;
    let body = json!({ "model": "auto", "max_tokens": 9, "temperature": 0, "messages": [{ "role": "user", "content": "hi" }] });
    assert_eq!(ask(&gateway, "web", &body, &[]).await.header("x-signalbox-cache"), "miss");
    for round in 0..5_u32 {
        let hit = ask(&gateway, "web", &body, &[]).await;
        assert_eq!(hit.header("x-signalbox-cache"), "hit-exact");
        let left: u64 = hit.header("x-ratelimit-remaining-tokens").parse().unwrap();
        assert!((495..600).contains(&left), "{left}");
        let requests: u32 = hit.header("x-ratelimit-remaining-requests").parse().unwrap();
        assert!(requests <= 99 - round, "{requests}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_place_back() {
    let mock = Mock::start(|seen| {
        let begun = Plan::stream().events(&chat_events(["a", "b"])[..2]);
        if seen.streams() { begun.hang() } else { Plan::chat("a") }
    })
    .await;
    let list = keys(&[("web", ", limits: { concurrency: 1, tpm: 1M }")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    let mut body = chat("auto", 5);
    body["stream"] = true.into();
    let mut stream = Sse::send(client::json(http().post(gateway.at(CHAT)), &body).bearer_auth("web")).await;
    stream.event().await.unwrap();
    let refused = ask(&gateway, "web", &chat("auto", 5), &[]).await;
    assert_eq!((code(&refused), refused.header("retry-after")), ((429, "rate_limit_exceeded".to_owned()), "1"));
    drop(stream);
    until("the place to be free", async || ask(&gateway, "web", &chat("auto", 5), &[]).await.status == 200).await;
}

#[tokio::test]
async fn callers_decide_what_their_keys_allow() {
    let mock = Mock::start(polite).await;
    let list = keys(&[("may", ", allow: [session, priority, pool, bound-ttft]"), ("not", ", priority: 9")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    for (name, good, bad) in [
        ("x-signalbox-session", "a", None),
        ("x-signalbox-priority", "7", Some("10")),
        ("x-signalbox-pool", "main", Some("none")),
        ("x-signalbox-bound-ttft", "60s", Some("60")),
    ] {
        let status = async |key, value| code(&ask(&gateway, key, &chat("auto", 5), &[(name, value)]).await);
        assert_eq!(status("may", good).await.0, 200, "{name}");
        assert_eq!(status("not", good).await, (403, "override_refused".to_owned()), "{name}");
        if let Some(bad) = bad {
            assert_eq!(status("may", bad).await.0, 400, "{name}");
        }
    }
}

#[tokio::test]
async fn the_urgent_go_first() {
    let mock = Mock::start(|seen| match seen.header("x-first") {
        Some(_) => Plan::chat("a").behind(1),
        None => Plan::chat("a"),
    })
    .await;
    let list = keys(&[("slow", ", priority: 0"), ("fast", ", priority: 9")]);
    let gateway = Start::with(&format!("{list}{}", pool(&mock, ", max_concurrency: 1"))).start().await;
    let (slow, fast) = (chat("auto", 5), chat("claude-1", 5));
    let first = ask(&gateway, "slow", &slow, &[("x-first", "1")]);
    let waiting = async |count: f64| {
        gateway.wait_metrics("the queue", |now| now.sum("signalbox_queue_depth", &[]) > count - 0.5).await;
    };
    let others = async {
        mock.wait_seen(1).await;
        let one = ask(&gateway, "slow", &slow, &[("x-request-id", "slow")]);
        let two = async {
            waiting(1.0).await;
            let asked = ask(&gateway, "fast", &fast, &[("x-request-id", "fast")]);
            let open = async {
                waiting(2.0).await;
                mock.open(1);
            };
            tokio::join!(asked, open)
        };
        tokio::join!(one, two)
    };
    tokio::join!(first, others);
    let order: Vec<_> = mock.seen().iter().filter_map(|seen| Some(seen.header("x-request-id")?.to_owned())).collect();
    assert_eq!(order[order.len() - 2..], ["fast", "slow"]);
}

#[tokio::test]
async fn a_reload_keeps_what_was_used() {
    let mock = Mock::start(polite).await;
    let with = |more: &str| format!("{}{}", keys(&[("web", more)]), pool(&mock, ""));
    let gateway = Gateway::start(&with(", limits: { rpm: 2 }")).await;
    let status = async || ask(&gateway, "web", &chat("auto", 5), &[]).await.status.as_u16();
    assert_eq!([status().await, status().await, status().await], [200, 200, 429]);
    gateway.rewrite(&with(", limits: { rpm: 2 }, tags: [a]"));
    gateway.wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) > 0.5).await;
    assert_eq!(status().await, 429);
}

#[tokio::test]
async fn after_a_storm_nothing_is_held() {
    let mock = Mock::start(crate::accounting::fate).await;
    let list = keys(&[("web", ", limits: { rpm: 1G, tpm: 1G, concurrency: 50 }, team: all")]);
    let teams = "teams: { all: { budget: { usd: 1000000, per: month } } }\n";
    let gateway =
        Gateway::start(&format!("{teams}{list}cache: {{ coalesce: on, exact: {{ ttl: 1h }} }}\n{}", pool(&mock, "")))
            .await;
    let fates = [
        "whole", "stream", "400", "429", "500", "cut-head", "reset", "garbage", "cut", "in-band", "silent", "prefill",
        "answer",
    ];
    let mut dice = crate::accounting::Dice(7);
    for _ in 0..8 {
        let storm = fates.map(|fate| {
            // Some of them are equal, and share.
            let mut body = chat("auto", 5 + dice.roll(2) as u64);
            body["stream"] = (dice.roll(2) == 0).into();
            body["temperature"] = 0.into();
            let request = client::json(http().post(gateway.at(CHAT)), &body).bearer_auth("web").header("x-fate", fate);
            let patience = std::time::Duration::from_millis(10 + dice.roll(60) as u64);
            tokio::time::timeout(patience, async move {
                if let Ok(answer) = request.send().await {
                    let _ = answer.bytes().await;
                }
            })
        });
        futures_util::future::join_all(storm).await;
    }
    until("everything to be given back", async || {
        let reported = gateway.get_json("/admin/keys").await;
        reported["keys"][0]["standing"]["in_flight"] == 0 && mock.under_way() == 0
    })
    .await;
    let reported = gateway.get_json("/admin/keys").await;
    let used = 1_000_000_000 - reported["keys"][0]["standing"]["tokens"]["remaining"].as_u64().unwrap();
    // What is reserved for one answer is some hundred tokens; more than a few of them left over would show.
    let spent = reported["teams"][0]["spent_tokens"].as_u64().unwrap();
    assert!(used <= spent, "{used} of {spent}");
}
