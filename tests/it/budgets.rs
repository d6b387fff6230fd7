//! Budgets and rates under hostile callers and engines: many answers to one request, a hundred requests at once, impossible counts, clients that
//! leave early.
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, code, keys, pool, used},
    support::{
        client::{self, Answer, Sse, http},
        gateway::{Gateway, Metrics},
        mock::{Mock, Plan, Seen, chat_chunk, chat_events},
        redis::Redis,
        until,
    },
};

/// A budget of this many tokens for the team of the keys `a` and `b`.
fn budget(tokens: u64, mock: &Mock) -> String {
    let list = keys(&[("a", ", team: search"), ("b", ", team: search")]);
    format!("teams: {{ search: {{ budget: {{ tokens: {tokens}, per: month }} }} }}\n{list}{}", pool(mock, ""))
}

/// Spent tokens of a budget.
fn spent(now: &Metrics) -> f64 {
    now.sum("signalbox_team_spent_tokens", &["team=\"search\""])
}

/// Spent tokens, once `requests` have ended.
async fn settled(gateway: &Gateway, requests: usize) -> f64 {
    let ended = |now: &Metrics| now.sum("signalbox_key_requests_total", &[]) > requests as f64 - 0.5;
    gateway.wait_metrics("all requests to be settled", ended).await;
    // Counters and standings of one page are not of one moment.
    spent(&gateway.metrics().await)
}

fn left(answer: &Answer) -> u64 {
    answer.header("x-ratelimit-remaining-tokens").parse().unwrap()
}

/// An answer of as many tokens as the request allows, two bytes each, with or without usage.
fn longest(seen: &Seen, counted: bool) -> Plan {
    let tokens = seen.json()["max_tokens"].as_u64().unwrap_or(3000);
    let text = "a ".repeat(tokens as usize);
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens });
    if seen.streams() {
        let plan = Plan::stream().event(&chat_chunk(&json!({ "content": text }), None));
        let plan = plan.event(&chat_chunk(&json!({}), Some("stop")));
        let last = json!({ "id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage });
        return if counted { plan.event(&last.to_string()).done() } else { plan.done() };
    }
    let message = json!({ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" });
    let mut answer = json!({ "id": "x", "object": "chat.completion", "choices": [message] });
    if counted {
        answer["usage"] = usage;
    }
    Plan::json(200, &answer)
}

#[tokio::test]
async fn as_many_answers_as_are_asked_for_are_reserved() {
    let mock = Mock::start(|seen| used(seen, 10, 5)).await;
    let list = keys(&[("web", ", limits: { tpm: 10000 }"), ("free", "")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    let reserved = async |path: &str, more: Value| {
        let mut body = json!({ "model": "auto", "max_tokens": 100 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        if path.ends_with("/chat/completions") {
            body["messages"] = json!([{ "role": "user", "content": "hi" }]);
        }
        let before = gateway.get_json("/admin/keys").await["keys"][0]["standing"]["tokens"]["remaining"].as_u64();
        let answer = client::answer(client::json(http().post(gateway.at(path)), &body).bearer_auth("web")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        before.unwrap().saturating_sub(left(&answer))
    };
    let chat = "/v1/chat/completions";
    let one = reserved(chat, json!({})).await;
    assert!((20..=120).contains(&one), "{one}");
    for name in ["n", "best_of", "n_cmpl", "num_completions"] {
        let eight = reserved(chat, json!({ name: 8 })).await;
        assert!(eight > 4 * one, "{name}: {eight} for eight, {one} for one");
    }
    let prompts = reserved("/v1/completions", json!({ "prompt": ["a", "b", "c", "d"], "n": 2 })).await;
    assert!(prompts > 4 * one, "{prompts} for two answers to each of four prompts, {one} for one");
    let mut endless = serde_json::from_str::<Value>(r#"{ "n": 1e300 }"#).unwrap();
    endless["model"] = "auto".into();
    endless["messages"] = json!([{ "role": "user", "content": "hi" }]);
    assert_eq!(ask(&gateway, "free", &endless, &[]).await.status, 200, "whether it may be so many, the engine says");
}

/// A hundred concurrent requests, each as large as allowed; returns what the team has spent.
async fn storm(counted: bool, stream: bool) -> (f64, usize) {
    let mock = Mock::start(move |seen| longest(seen, counted).behind(1)).await;
    let gateway = Gateway::start(&budget(2000, &mock)).await;
    let mut body = chat("auto", 500);
    body["stream"] = stream.into();
    let answers = join_all((0..100).map(|number| ask(&gateway, ["a", "b"][number % 2], &body, &[])));
    let opening = async {
        // All of them are under way before the first ends.
        let counted = |now: &Metrics| {
            now.sum("signalbox_key_limited_total", &["limit=\"budget\""]) + now.sum("signalbox_in_flight", &[]) > 99.5
        };
        gateway.wait_metrics("all of them to be in or out", counted).await;
        mock.open(1);
    };
    let (answers, ()) = tokio::join!(answers, opening);
    let let_in = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!(code(refused), (429, "rate_limit_exceeded".to_owned()), "{}", refused.text());
    assert_eq!(refused.header("retry-after"), "1", "what is reserved comes back long before the month is over");
    assert_eq!(let_in, mock.seen().len());
    (settled(&gateway, 100).await, let_in)
}

#[tokio::test]
async fn a_hundred_requests_at_once_overspend_by_less_than_one_of_them() {
    for (counted, stream) in [(true, false), (true, true), (false, false), (false, true)] {
        let (spent, let_in) = storm(counted, stream).await;
        // A prompt of 10 tokens and an answer of 500.
        let most = 2000.0 + 520.0;
        assert!(spent < most, "{spent} spent of 2000 by {let_in}, counted {counted}, streamed {stream}");
        // What engines do not count is estimated by its bytes, a quarter of a token each.
        let least = if counted { 2000.0 } else { 800.0 };
        assert!(
            spent > least && (4..=5).contains(&let_in),
            "{spent} spent by {let_in}: nobody is locked out for nothing"
        );
    }
}

#[tokio::test]
async fn without_a_limit_of_its_own_a_request_may_take_what_the_context_leaves() {
    let mock = Mock::start(|seen| longest(seen, true).behind(1)).await;
    let text = budget(10_000, &mock).replace("{ main: { model: m,", "{ main: { model: m, context: 4000,");
    let gateway = Gateway::start(&text).await;
    let body = json!({ "model": "auto", "messages": [{ "role": "user", "content": "hi" }] });
    let answers = join_all((0..20).map(|_| ask(&gateway, "a", &body, &[])));
    let opening = async {
        let counted = |now: &Metrics| {
            now.sum("signalbox_key_limited_total", &["limit=\"budget\""]) + now.sum("signalbox_in_flight", &[]) > 19.5
        };
        gateway.wait_metrics("all of them to be in or out", counted).await;
        mock.open(1);
    };
    let (answers, ()) = tokio::join!(answers, opening);
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 3);
    let spent = settled(&gateway, 20).await;
    assert!(spent < 14_000.0, "{spent}");
}

#[tokio::test]
async fn gateways_that_share_a_budget_overspend_by_less_than_one_request() {
    let Some(redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| longest(seen, true).behind(1)).await;
    let shared = format!("limits: {{ shared: {{ url: \"{}\", timeout: 30s }} }}\n", redis.url());
    let text = format!("{shared}{}", budget(2000, &mock));
    let (one, two) = tokio::join!(Gateway::start(&text), Gateway::start(&text));
    let up = |now: &Metrics| now.sum("signalbox_limits_shared_up", &[]) > 0.5;
    tokio::join!(one.wait_metrics("the server", up), two.wait_metrics("the server", up));
    let body = chat("auto", 500);
    let answers = join_all((0..60).map(|number| ask([&one, &two][number % 2], "a", &body, &[])));
    let opening = async {
        until("all of them to be in or out", async || {
            let (one, two) = tokio::join!(one.metrics(), two.metrics());
            let of = |now: &Metrics| {
                now.sum("signalbox_key_limited_total", &["limit=\"budget\""]) + now.sum("signalbox_in_flight", &[])
            };
            of(&one) + of(&two) > 59.5
        })
        .await;
        mock.open(1);
    };
    let (answers, ()) = tokio::join!(answers, opening);
    let let_in = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((4..=5).contains(&let_in), "{let_in}");
    // Each gateway reports its spending when a request ends, and gets the other's with its next exchange.
    until("both to know what was spent", async || {
        let refused = tokio::join!(ask(&one, "a", &body, &[]), ask(&two, "a", &body, &[]));
        code(&refused.0).1 == "insufficient_quota" && code(&refused.1).1 == "insufficient_quota"
    })
    .await;
    let spent = spent(&one.metrics().await);
    assert!((2000.0..2520.0).contains(&spent), "{spent} spent of 2000");
    assert_eq!(mock.seen().len(), let_in);
}

#[tokio::test]
async fn long_answers_of_one_caller_do_not_lock_out_another() {
    let mock = Mock::start(|seen| longest(seen, true)).await;
    let list = keys(&[("long", ""), ("short", ", limits: { tpm: 1000 }"), ("team", ", team: small")]);
    let teams = "teams: { small: { budget: { tokens: 1000, per: month } } }\n";
    let gateway = Gateway::start(&format!("{teams}{list}{}", pool(&mock, ""))).await;
    let body = json!({ "model": "auto", "messages": [{ "role": "user", "content": "hi" }] });
    for _ in 0..30 {
        assert_eq!(ask(&gateway, "long", &body, &[]).await.status, 200);
    }
    let first = ask(&gateway, "short", &body, &[]).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let other = ask(&gateway, "team", &body, &[]).await;
    assert_eq!(other.status, 200, "{}", other.text());
    // The caller's own long answers make it wait, but are no reason to send it away for good.
    let second = ask(&gateway, "short", &body, &[]).await;
    assert_eq!(code(&second), (429, "rate_limit_exceeded".to_owned()));
    assert!(second.header("retry-after").parse::<u64>().unwrap() > 0, "{}", second.text());
}

#[tokio::test]
async fn counts_that_cannot_be_are_neither_billed_nor_added() {
    let mock = Mock::start(|seen| {
        let large = if seen.header("x-count") == Some("huge") { u64::MAX } else { 1 << 63 };
        let usage = json!({ "prompt_tokens": large, "completion_tokens": large, "total_tokens": large });
        if seen.streams() {
            let last = json!({ "id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage });
            return Plan::stream().events(chat_events(["a", "b"])).event(&last.to_string()).done();
        }
        let message = json!({ "index": 0, "message": { "role": "assistant", "content": "a" } });
        Plan::json(200, &json!({ "id": "x", "object": "chat.completion", "choices": [message], "usage": usage }))
    })
    .await;
    let gateway = Gateway::start(&budget(100_000, &mock)).await;
    let mut requests = 0;
    for stream in [true, false] {
        for count in ["huge", "large", "huge"] {
            let mut body = chat("auto", 500);
            body["stream"] = stream.into();
            let answer = ask(&gateway, "a", &body, &[("x-count", count)]).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            requests += 1;
        }
    }
    // The bodies that went there have some hundred bytes, the answers some hundred too; templates may add about two thousand tokens.
    let spent = settled(&gateway, requests).await;
    assert!((60.0..20_000.0).contains(&spent), "{spent}");
    assert_eq!(ask(&gateway, "b", &chat("auto", 5), &[]).await.status, 200, "the team has not lost its budget");
    let rows = client::get(&gateway.admin("/admin/usage")).await.text();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.iter().all(|row| row["prompt_tokens"].as_u64().unwrap() < 20_000), "{rows:?}");
}

#[tokio::test]
async fn hidden_reasoning_counts_within_the_client_s_own_limit() {
    let mock = Mock::start(|_| {
        let usage = json!({
            "prompt_tokens": 10, "completion_tokens": 900_005, "total_tokens": 900_015,
            "completion_tokens_details": { "reasoning_tokens": 900_000 },
        });
        let message = json!({ "index": 0, "message": { "role": "assistant", "content": "a" } });
        Plan::json(200, &json!({ "id": "x", "object": "chat.completion", "choices": [message], "usage": usage }))
    })
    .await;
    let gateway = Gateway::start(&budget(1_000_000, &mock)).await;
    assert_eq!(ask(&gateway, "a", &chat("auto", 4000), &[]).await.status, 200);
    let spent = settled(&gateway, 1).await;
    assert!((4000.0..5000.0).contains(&spent), "{spent}");
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_the_work_until_then() {
    let mock = Mock::start(|_| Plan::silence()).await;
    let gateway = Gateway::start(&budget(1_000_000, &mock)).await;
    let leave = async |max_tokens: u64, stream: bool| {
        let mut body = chat("auto", max_tokens);
        body["stream"] = stream.into();
        let request = client::json(http().post(gateway.at("/v1/chat/completions")), &body).bearer_auth("a");
        let before = mock.seen().len();
        let patience = tokio::time::timeout(Duration::from_secs(3), request.send());
        assert!(patience.await.is_err(), "nothing was to come");
        assert!(mock.seen().len() > before);
    };
    leave(5000, false).await;
    let first = settled(&gateway, 1).await;
    // Three seconds at the pace that is expected of an engine which nothing is known of: a token every 20 ms or so.
    assert!((30.0..600.0).contains(&first), "{first}");
    leave(3, false).await;
    let second = settled(&gateway, 2).await - first;
    assert!((8.0..=30.0).contains(&second), "its prompt, and the three tokens that it might have had: {second}");
    leave(5000, true).await;
    let third = settled(&gateway, 3).await - first - second;
    assert!((5.0..=27.0).contains(&third), "of a stream it is seen that there was nothing yet: {third}");
}

#[tokio::test]
async fn explaining_counts_as_a_request() {
    let mock = Mock::start(|seen| used(seen, 10, 5)).await;
    let list = keys(&[("few", ", limits: { rpm: 3, concurrency: 1 }")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    let explain = async || {
        let request = client::json(http().post(gateway.at("/v1/route/explain")), &chat("auto", 5));
        client::answer(request.bearer_auth("few")).await
    };
    for remaining in ["2", "1"] {
        let answer = explain().await;
        assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-remaining-requests")), (200, remaining));
    }
    let answered = ask(&gateway, "few", &chat("auto", 5), &[("x-signalbox-explain", "1")]).await;
    assert_eq!(answered.status, 200, "no place is held by what was explained: {}", answered.text());
    let refused = explain().await;
    assert_eq!(code(&refused), (429, "rate_limit_exceeded".to_owned()));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    assert_eq!(ask(&gateway, "few", &chat("auto", 5), &[]).await.status, 429);
    assert_eq!(mock.seen().len(), 1);
}

#[tokio::test]
async fn a_stream_that_is_left_costs_what_came() {
    let mock = Mock::start(|_| {
        let begun = Plan::stream().event(&chat_chunk(&json!({ "content": "a ".repeat(400) }), None));
        begun.hang()
    })
    .await;
    let gateway = Gateway::start(&budget(1_000_000, &mock)).await;
    let mut body = chat("auto", 5000);
    body["stream"] = true.into();
    let request = client::json(http().post(gateway.at("/v1/chat/completions")), &body).bearer_auth("a");
    let mut stream = Sse::send(request).await;
    stream.event().await.unwrap();
    drop(stream);
    let spent = settled(&gateway, 1).await;
    assert!((150.0..500.0).contains(&spent), "{spent}");
}

/// An answer with `usage` in the API that is asked.
fn answer_with(seen: &Seen, usage: &Value, text: &str) -> Plan {
    let id = json!("x");
    if seen.path.ends_with("/responses") {
        let part = json!({ "type": "output_text", "text": text, "annotations": [] });
        let item =
            json!({ "type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part] });
        let whole = json!({ "id": id, "object": "response", "status": "completed", "output": [item], "usage": usage });
        let delta = json!({ "type": "response.output_text.delta", "item_id": "m", "delta": text });
        let end = json!({ "type": "response.completed", "response": whole });
        return if seen.streams() {
            Plan::stream().events([delta.to_string(), end.to_string()])
        } else {
            Plan::json(200, &whole)
        };
    }
    if seen.streams() {
        let end = json!({ "id": id, "object": "chat.completion.chunk", "choices": [], "usage": usage });
        let chunks = [chat_chunk(&json!({ "content": text }), None), chat_chunk(&json!({}), Some("stop"))];
        return Plan::stream().events(chunks).event(&end.to_string()).done();
    }
    let message = json!({ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" });
    Plan::json(200, &json!({ "id": id, "object": "chat.completion", "choices": [message], "usage": usage }))
}

#[tokio::test]
async fn reasoning_is_billed_as_the_provider_bills_it() {
    let usages = [
        ("no detail", json!({ "prompt_tokens": 100, "completion_tokens": 400, "total_tokens": 500 })),
        (
            "within",
            json!({ "prompt_tokens": 100, "completion_tokens": 400, "completion_tokens_details": { "reasoning_tokens": 390 } }),
        ),
        (
            "on top",
            json!({ "prompt_tokens": 100, "completion_tokens": 10, "completion_tokens_details": { "reasoning_tokens": 390 } }),
        ),
        ("in the total", json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 500 })),
    ];
    let all = usages.clone();
    let mock = Mock::start(move |seen| {
        let (_, usage) = all.iter().find(|(name, _)| String::from_utf8_lossy(&seen.body).contains(name)).unwrap();
        answer_with(seen, usage, "42")
    })
    .await;
    let gateway = Gateway::start(&budget(10_000_000, &mock)).await;
    let mut before = 0.0;
    let mut requests = 0;
    for (name, _) in &usages {
        for (path, input) in
            [("/v1/chat/completions", "messages"), ("/v1/messages", "messages"), ("/v1/responses", "input")]
        {
            for stream in [false, true] {
                let most = if input == "input" { "max_output_tokens" } else { "max_tokens" };
                let body = json!({
                    "model": "auto", "stream": stream, most: 5000, input: [{ "role": "user", "content": name }],
                });
                let answer = client::answer(client::json(http().post(gateway.at(path)), &body).bearer_auth("a")).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                requests += 1;
                let spent = settled(&gateway, requests).await;
                assert!((spent - before - 500.0).abs() < 0.5, "{name}, {path}, stream {stream}: {}", spent - before);
                before = spent;
                if path != "/v1/chat/completions" {
                    assert!(answer.text().contains("\"output_tokens\":400"), "{name}, {path}: {}", answer.text());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_spent_budget_leaves_free_pools_open() {
    let (paid, free) = (Mock::start(|seen| used(seen, 20, 30)).await, Mock::start(|seen| used(seen, 20, 30)).await);
    let keys = keys(&[("a", ", budget: { usd: 0.05, per: day }"), ("b", ", budget: { tokens: 60, per: day }")]);
    let gateway = Gateway::start(&format!(
        "{keys}pools:\n  paid: {{ model: m, price: {{ input: 1000, output: 1000 }}, backends: [\"{}\"] }}\n  \
         free: {{ model: own, backends: [\"{}\"] }}\n  \
         zero: {{ model: own, price: {{ input: 0, output: 0 }}, backends: [\"{}\"] }}\n\
         models:\n  paid: {{ to: paid }}\n  free: {{ to: free }}\n  zero: {{ to: zero }}\n  both: {{ to: paid, fallback: [free] }}\n  \
         larger: {{ to: zero, cascade: {{ to: paid }} }}\n",
        paid.url(),
        free.url(),
        free.url()
    ))
    .await;
    let backend = async |key: &str, model: &str| {
        let answer = ask(&gateway, key, &chat(model, 30), &[]).await;
        let pool = answer.header("x-signalbox-pool").to_owned();
        (
            answer.status.as_u16(),
            pool,
            answer.header("x-signalbox-over-budget").to_owned(),
            answer.header("x-signalbox-id").to_owned(),
        )
    };
    let first = backend("a", "both").await;
    assert_eq!((first.0, &*first.1, &*first.2), (200, "paid", ""));
    settled(&gateway, 1).await;
    assert_eq!(backend("a", "paid").await.0, 429);
    for (model, pool, left_out) in
        [("free", "free", ""), ("zero", "zero", ""), ("both", "free", "paid"), ("larger", "zero", "paid")]
    {
        let (status, taken, over_budget, id) = backend("a", model).await;
        assert_eq!((status, &*taken, &*over_budget), (200, pool, left_out), "{model}");
        let decision = gateway.get_json(&format!("/admin/decisions/{id}")).await;
        let told = decision["explained"]["over_budget"].as_array().map_or(0, Vec::len);
        assert_eq!(told, usize::from(!left_out.is_empty()), "{decision}");
    }
    assert_eq!(paid.seen().len(), 1);
    // A budget of tokens counts those of free pools too.
    assert_eq!(backend("b", "free").await.0, 200);
    settled(&gateway, 7).await;
    assert_eq!(backend("b", "free").await.0, 200);
    settled(&gateway, 8).await;
    assert_eq!(backend("b", "both").await.0, 429);
}
