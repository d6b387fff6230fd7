//! Cascades: checks of a smaller model's answer, escalation, and that no answer is lost, mixed or uncounted.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::{
    client::{Answer, End, Sse, answer, http, json, post},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, chat_chunk, chat_events, polite, usage_event},
    until,
};

/// A small pool that cascades to a large one; `cascade` adds to that key.
fn policy(small: &Mock, large: &Mock, cascade: &str, more: &str) -> String {
    format!(
        "engines:\n  a: {{ url: \"{}\", scrape: false }}\n  b: {{ url: \"{}\", scrape: false, max_concurrency: 1 }}\n\
         pools:\n  small: {{ model: s, price: {{ input: 1, output: 2 }}, backends: [{{ engine: a }}] }}\n  \
         large: {{ model: l, price: {{ input: 10, output: 20 }}, backends: [{{ engine: b }}] }}\n\
         models:\n  auto: {{ to: small, cascade: {{ to: large{cascade} }} }}\njournal: {{ path: journal.jsonl }}\n{more}",
        small.url(),
        large.url()
    )
}

const ALL: &str = ", checks: [schema, tools, length, refusal, empty, repetition, logprobs], min_logprob: -1.0";
const SORRY: &str = "I'm sorry, but I can't help with that.";

fn chat(stream: bool) -> Value {
    json!({ "model": "auto", "stream": stream, "messages": [{ "role": "user", "content": "hi" }] })
}

fn content(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A complete answer.
fn whole(message: &Value, finish: &str, logprob: f64) -> String {
    // Spaces that no writer of JSON would put there: they have to survive.
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs(logprob) });
    format!(
        "{{ \"id\": \"w\",  \"choices\": [{choice}] , \"usage\":{{\"prompt_tokens\": 1000, \"completion_tokens\": 100}} }}\n"
    )
}

fn logprobs(logprob: f64) -> Value {
    json!({ "content": [{ "token": "x", "logprob": logprob }] })
}

/// The same answer as a stream: first chunk, message, finish.
fn streamed(message: &Value, finish: &str, logprob: f64) -> Vec<String> {
    let mut delta = message.clone();
    if let Some(calls) = delta["tool_calls"].as_array_mut() {
        calls.iter_mut().enumerate().for_each(|(at, call)| call["index"] = json!(at));
    }
    let mut said: Value = serde_json::from_str(&chat_chunk(&delta, None)).unwrap();
    said["choices"][0]["logprobs"] = logprobs(logprob);
    let role = chat_chunk(&json!({ "role": "assistant", "content": "" }), None);
    vec![role, said.to_string(), chat_chunk(&json!({}), Some(finish))]
}

/// A message with its finish reason, the request that it answers, and the check that it fails.
struct Case {
    asks: Value,
    message: Value,
    finish: &'static str,
    logprob: f64,
    fails: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let case = |asks: Value, message: Value, finish, fails| Case { asks, message, finish, logprob: -0.1, fails };
    let object = || json!({ "response_format": { "type": "json_object" } });
    let schema = json!({ "type": "object", "required": ["city"], "additionalProperties": false,
        "properties": { "city": { "type": "string" } } });
    let strict =
        json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": schema } } });
    let tools = json!({ "tools": [{ "type": "function", "function": { "name": "weather", "parameters": schema } }] });
    let call = |name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": function }] })
    };
    let refusal = json!({ "role": "assistant", "content": null, "refusal": "No." });
    let unsure =
        Case { logprob: -2.5, ..case(json!({ "logprobs": true }), content("Perhaps"), "stop", Some("logprobs")) };
    vec![
        case(json!({}), content("Hello"), "stop", None),
        case(object(), content("{\"a\": 1}"), "stop", None),
        case(object(), content("Sure! {\"a\": 1}"), "stop", Some("schema")),
        case(object(), content("[1]"), "stop", Some("schema")),
        case(strict.clone(), content("{\"city\":\"Ulm\"}"), "stop", None),
        case(strict, content("{\"town\":\"Ulm\"}"), "stop", Some("schema")),
        case(tools.clone(), call("weather", "{\"city\":\"Ulm\"}"), "tool_calls", None),
        case(tools.clone(), call("weather", "{\"city\":"), "tool_calls", Some("tools")),
        case(tools.clone(), call("weather", "{\"city\":5}"), "tool_calls", Some("tools")),
        case(tools, call("climate", "{}"), "tool_calls", Some("tools")),
        case(json!({}), content("Once upon"), "length", Some("length")),
        case(json!({ "max_tokens": 2 }), content("Once upon"), "length", None),
        case(json!({}), content(SORRY), "stop", Some("refusal")),
        case(json!({}), refusal, "stop", Some("refusal")),
        case(json!({}), content("Here"), "content_filter", Some("refusal")),
        case(json!({}), content("I'm sorry to hear that."), "stop", None),
        case(json!({}), content(" \n"), "stop", Some("empty")),
        case(json!({}), content(&"and so on, ".repeat(40)), "stop", Some("repetition")),
        case(json!({ "logprobs": true }), content("Surely"), "stop", None),
        unsure,
    ]
}

/// A small model that answers each case as it says, selected by the header `x-case`.
async fn small() -> Mock {
    let cases = cases();
    Mock::start(move |seen| {
        let case = &cases[seen.header("x-case").unwrap().parse::<usize>().unwrap()];
        let Case { message, finish, logprob, .. } = case;
        if seen.streams() {
            Plan::stream().events(streamed(message, finish, *logprob)).event(&usage_event(1000, 100)).done()
        } else {
            Plan::text(200, "application/json", whole(message, finish, *logprob))
        }
    })
    .await
}

fn large_events() -> Vec<String> {
    chat_events(["from", " the", " large"])
}

async fn large() -> Mock {
    Mock::start(|seen| {
        if seen.streams() {
            Plan::stream().events(large_events()).event(&usage_event(1000, 50)).done()
        } else {
            Plan::text(200, "application/json", whole(&content("from the large"), "stop", 0.0))
        }
    })
    .await
}

fn events(data: &[String]) -> String {
    data.iter().map(String::as_str).chain(["[DONE]"]).fold(String::new(), |text, data| text + "data: " + data + "\n\n")
}

fn merged(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn ask(gateway: &Gateway, body: &Value, case: usize) -> Answer {
    answer(json(http().post(gateway.at("/v1/chat/completions")), body).header("x-case", case.to_string())).await
}

/// The journal, once it has `count` lines.
async fn journal(gateway: &Gateway, count: usize) -> Vec<Value> {
    let path = gateway.dir().join("journal.jsonl");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    until("the journal", async || read().split_inclusive('\n').filter(|line| line.ends_with('\n')).count() >= count)
        .await;
    read().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn idle(now: &Metrics) -> bool {
    let gauges = [
        "signalbox_in_flight",
        "signalbox_backend_in_flight",
        "signalbox_backend_queued_prompt_tokens",
        "signalbox_backend_decoding",
        "signalbox_backend_context_tokens",
    ];
    gauges.iter().all(|name| now.sum(name, &[]) < 0.5)
}

#[tokio::test]
async fn every_check_both_ways_whole_and_streamed() {
    let (small, large) = (small().await, large().await);
    let gateway = Gateway::start(&policy(&small, &large, &format!("{ALL}, hold: 100"), "")).await;
    for (number, case) in cases().iter().enumerate() {
        for stream in [false, true] {
            let body = merged(chat(stream), &case.asks);
            let answered = ask(&gateway, &body, number).await;
            let what = format!("case {number}, streamed: {stream}: {body}");
            let (label, pool) = match case.fails {
                Some(check) => (format!("escalated:{check}"), "large"),
                None => ("kept".to_owned(), "small"),
            };
            assert_eq!(answered.header("x-signalbox-cascade"), label, "{what}");
            assert_eq!((answered.status.as_u16(), answered.header("x-signalbox-pool")), (200, pool), "{what}");
            let Case { message, finish, logprob, .. } = case;
            let want = match (case.fails.is_some(), stream) {
                (false, false) => whole(message, finish, *logprob),
                (false, true) => events(&streamed(message, finish, *logprob)),
                (true, false) => whole(&content("from the large"), "stop", 0.0),
                (true, true) => events(&large_events()),
            };
            assert_eq!(answered.text(), want, "{what}");
        }
    }
    let escalated = 2 * cases().iter().filter(|case| case.fails.is_some()).count();
    let metrics = gateway.wait_metrics("the end", idle).await;
    let count = |result: &str| metrics.sum("signalbox_cascade_total", &[result, "route=\"auto\""]) as usize;
    assert_eq!(count("\"escalated\""), escalated, "{metrics:?}");
    assert_eq!(count("\"kept\""), 2 * cases().len() - escalated);
    assert_eq!(large.seen().len(), escalated);
}

/// Everything that may occur in a stream that passes.
const RICH: &str = concat!(
    ": welcome\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n",
    "id: 7\nevent: chunk\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"\u{e4}\u{20ac}\u{1F600}\\ud83d\"},\"x_vendor\":{\"k\": [1, 2e3]}}]}\n\n",
    "data: {\"choices\":\ndata:[{\"index\":0,\"delta\":{\"content\":\"two lines\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"},\"finish_reason\":null}]}\n\n",
    ": keep-alive\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\".\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3}}\n\n",
);
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"x\":1}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[tokio::test]
async fn a_stream_that_is_kept_arrives_as_it_was_wherever_it_is_cut_and_however_much_is_held() {
    const HOLDS: [&str; 3] = ["1", "3", "1000"];
    let text = [RICH, USAGE, DONE].concat();
    let texts = [text.clone(), text.replace('\n', "\r\n")];
    let served = texts.clone();
    let small = Mock::start(move |seen| {
        let mut numbers = seen.header("x-cut").unwrap().split('-').map(|number| number.parse::<usize>().unwrap());
        let (text, cut) = (numbers.next().unwrap(), numbers.next().unwrap());
        let plan = Plan::stream().body(served[text].clone());
        if cut == 0 { plan.cut_every(1) } else { plan.cut_at([cut, cut + 1]) }
    })
    .await;
    let large = large().await;
    let models = HOLDS
        .map(|hold| {
            format!(
                "  h{hold}: {{ to: small, cascade: {{ to: large, hold: {hold} }} }}
"
            )
        })
        .concat();
    let policy = policy(&small, &large, "", "").replace("journal:", &format!("{models}journal:"));
    let gateway = Gateway::start(&policy).await;
    let url = gateway.at("/v1/chat/completions");
    let (client, url, texts) = (&http(), &url, &texts);
    let one = |text: usize, cut: usize, hold: &'static str, usage: bool| async move {
        let mut body = merged(chat(true), &json!({ "model": format!("h{hold}") }));
        if usage {
            body["stream_options"] = json!({ "include_usage": true });
        }
        let request = json(client.post(url), &body).header("x-cut", format!("{text}-{cut}"));
        let answered = answer(request).await;
        let ending = ["\n", "\r\n"][text];
        let hidden = if usage { String::new() } else { USAGE.replace('\n', ending) };
        let wanted = if usage { texts[text].clone() } else { texts[text].replace(&hidden, "") };
        assert_eq!(answered.text(), wanted, "text {text} cut at {cut}, {hold} held");
        assert_eq!(answered.header("x-signalbox-cascade"), "kept");
    };
    let offsets = (0..2).flat_map(|text| (0..texts[text].len()).map(move |cut| (text, cut)));
    stream::iter(offsets).for_each_concurrent(16, |(text, cut)| one(text, cut, HOLDS[cut % 3], cut % 2 == 0)).await;
    for hold in HOLDS {
        one(0, 0, hold, false).await;
        one(1, 0, hold, true).await;
    }
    assert_eq!(large.seen().len(), 0);
}

#[tokio::test]
async fn a_failed_escalation_returns_the_first_answer() {
    let (small, down) = (small().await, Mock::start(|_| Plan::error(503, "down")).await);
    let gateway = Gateway::start(&policy(&small, &down, "", "")).await;
    let number = cases().iter().position(|case| case.fails == Some("refusal")).unwrap();
    let first = |stream: bool| {
        let Case { message, finish, logprob, .. } = &cases()[number];
        if stream { events(&streamed(message, finish, *logprob)) } else { whole(message, finish, *logprob) }
    };
    for stream in [false, true] {
        let answered = ask(&gateway, &chat(stream), number).await;
        assert_eq!(answered.header("x-signalbox-cascade"), "failed:refusal");
        assert_eq!((answered.status.as_u16(), answered.header("x-signalbox-pool")), (200, "small"));
        assert_eq!(answered.text(), first(stream));
    }
    assert!((2..=4).contains(&down.seen().len()), "each is given a second chance at most");
    down.stop().await;
    for stream in [false, true] {
        let answered = ask(&gateway, &chat(stream), number).await;
        assert_eq!((answered.header("x-signalbox-cascade"), answered.text()), ("failed:refusal", first(stream)));
    }
    let lines = journal(&gateway, 4).await;
    for line in &lines {
        assert_eq!((&line["outcome"], &line["answered"]), (&json!("ok"), &json!(0)), "{line}");
        assert_eq!(line["cascade"], json!({ "result": "failed", "check": "refusal" }));
        assert_eq!(line["attempts"][0]["outcome"], "ok", "{line}");
        assert!(line["attempts"].as_array().unwrap().len() >= 2 && line["attempts"][1]["outcome"] != "ok", "{line}");
        assert!((line["cost_usd"].as_f64().unwrap() - 0.0012).abs() < 1e-9, "{line}");
    }
    gateway.wait_metrics("everything to be over", idle).await;
}

#[tokio::test]
async fn the_first_stream_continues_after_a_failed_escalation() {
    let small = Mock::start(|_| {
        let said = chat_events([SORRY, " Not", " now."]);
        Plan::stream().events(&said[..2]).gate(1).events(&said[2..]).done()
    })
    .await;
    let large = Mock::start(|_| Plan::error(500, "broken")).await;
    let gateway = Gateway::start(&policy(&small, &large, "", "")).await;
    let mut stream = Sse::post(&gateway.at("/v1/chat/completions"), &chat(true)).await;
    assert_eq!(stream.header("x-signalbox-cascade"), "failed:refusal");
    small.open(1);
    let (text, end) = stream.text().await;
    assert!(text == format!("{SORRY} Not now.") && matches!(end, End::Clean), "{text}");
}

#[tokio::test]
async fn a_cascade_does_not_escalate_after_its_time_limit() {
    let (small, large) = (small().await, large().await);
    let gateway = Gateway::start(&policy(&small, &large, ", within: 1us", "")).await;
    let number = cases().iter().position(|case| case.fails == Some("refusal")).unwrap();
    for stream in [false, true] {
        let answered = ask(&gateway, &chat(stream), number).await;
        assert_eq!(answered.header("x-signalbox-cascade"), "too_late:refusal");
        assert!(answered.status == 200 && answered.text().contains("sorry"), "{}", answered.text());
    }
    assert_eq!(large.seen().len(), 0);
}

#[tokio::test]
async fn a_larger_model_that_would_be_late_is_not_asked() {
    let late = std::time::Duration::from_millis(400);
    let small = Mock::start(move |_| Plan::stream().events(chat_events([SORRY])).done().after(late)).await;
    let large = large().await;
    let cascade = ", within: 20s }, bound: { ttft: 300ms";
    let gateway = Gateway::start(&policy(&small, &large, cascade, "")).await;
    let answered = post(&gateway.at("/v1/chat/completions"), &chat(true)).await;
    assert_eq!(answered.header("x-signalbox-cascade"), "too_late:refusal", "{}", answered.text());
    assert_eq!(large.seen().len(), 0);
}

#[tokio::test]
async fn a_stream_is_held_no_longer_than_it_may_be_replaced() {
    let small = Mock::start(|_| {
        let said = chat_events(["one", " two"]);
        Plan::stream().events(&said[..2]).gate(1).events(&said[2..]).done()
    })
    .await;
    let large = large().await;
    let gateway = Gateway::start(&policy(&small, &large, ", hold: 1000, within: 100ms", "")).await;
    // The engine is still silent when the head comes.
    let mut stream = Sse::post(&gateway.at("/v1/chat/completions"), &chat(true)).await;
    assert_eq!((stream.header("x-signalbox-cascade"), small.under_way()), ("kept", 1));
    small.open(1);
    assert_eq!(stream.text().await.0, "one two");
    assert_eq!(large.seen().len(), 0);
}

#[tokio::test]
async fn a_stream_that_fails_while_it_is_held_is_cut_off_and_replaced() {
    let small = Mock::start(|_| Plan::stream().events(&chat_events([SORRY])[..2]).hang()).await;
    let large = large().await;
    let gateway = Gateway::start(&policy(&small, &large, ", hold: 1000", "")).await;
    let answered = post(&gateway.at("/v1/chat/completions"), &chat(true)).await;
    assert_eq!(
        (answered.header("x-signalbox-cascade"), answered.text()),
        ("escalated:refusal", events(&large_events()))
    );
    small.gone().await;
    let line = &journal(&gateway, 1).await[0];
    let [first, second] = &line["attempts"].as_array().unwrap()[..] else { panic!("{line}") };
    assert_eq!((&first["outcome"], &second["outcome"]), (&json!("escalated"), &json!("ok")));
    assert_eq!((&first["usage_estimated"], &second["usage_estimated"]), (&json!(true), &json!(false)));
    // By four bytes a token, of which nothing was learned yet.
    let tokens = SORRY.len().div_ceil(4) as u64;
    assert_eq!(first["usage"]["completion_tokens"], tokens, "{first}");
    assert!(first["ttft_ms"].is_number() && second["ttft_ms"].is_number());
    let metrics = gateway.wait_metrics("everything to be over", idle).await;
    let sum = |name: &str, labels: &[&str]| metrics.sum(name, labels);
    assert!((sum("signalbox_cascade_tokens_total", &["kind=\"completion\""]) - tokens as f64).abs() < 0.1);
    // The client's first token is the larger model's; each attempt had one of its own.
    let ttft = |name: &str, pool: &str| sum(&format!("signalbox_{name}_seconds_count"), &[&format!("pool=\"{pool}\"")]);
    assert!(ttft("ttft", "small") < 0.5 && ttft("ttft", "large") > 0.5);
    assert!(ttft("upstream_ttft", "small") > 0.5 && ttft("upstream_ttft", "large") > 0.5);
    assert!(sum("signalbox_backend_attempts_total", &["outcome=\"escalated\"", "pool=\"small\""]) > 0.5);
    assert!(sum("signalbox_engine_up", &["engine=\"a\""]) > 0.5, "an answer that fails is no failure of its engine");
}

#[tokio::test]
async fn both_answers_are_paid_for() {
    let (small, large) = (small().await, large().await);
    let gateway = Gateway::start(&policy(&small, &large, ", hold: 1000", "")).await;
    // It shows at the end only, when the engine has counted.
    let number = cases().iter().position(|case| case.fails == Some("length")).unwrap();
    for (at, stream) in [false, true].into_iter().enumerate() {
        ask(&gateway, &chat(stream), number).await;
        let line = &journal(&gateway, at + 1).await[at];
        let cost = |attempt: usize| line["attempts"][attempt]["cost_usd"].as_f64().unwrap();
        // 1000 × 1 + 100 × 2 dollars a million; then 1000 × 10, and 100 or 50 × 20.
        let second = if stream { 0.011 } else { 0.012 };
        assert!((cost(0) - 0.0012).abs() < 1e-9 && (cost(1) - second).abs() < 1e-9, "{line}");
        assert!((line["cost_usd"].as_f64().unwrap() - cost(0) - cost(1)).abs() < 1e-12, "{line}");
        assert_eq!((&line["attempts"][0]["outcome"], &line["answered"]), (&json!("escalated"), &json!(1)));
        assert_eq!(line["attempts"][0]["usage"]["completion_tokens"], 100, "{line}");
        assert_eq!((&line["attempts"][0]["usage_estimated"], &line["status"]), (&json!(false), &json!(200)));
        assert_eq!(line["cascade"], json!({ "result": "escalated", "check": "length" }));
    }
    let metrics = gateway.wait_metrics("the end", idle).await;
    let cost = metrics.sum("signalbox_cost_usd_total", &[]);
    assert!((cost - 2.0 * 0.0012 - 0.011 - 0.012).abs() < 1e-9, "{cost}");
    let given_up = metrics.sum("signalbox_cascade_cost_usd_total", &["route=\"auto\""]);
    assert!((given_up - 0.0024).abs() < 1e-9, "{given_up}");
    assert!((metrics.sum("signalbox_tokens_total", &["pool=\"small\"", "kind=\"completion\""]) - 200.0).abs() < 0.1);
}

#[tokio::test]
async fn a_stream_that_breaks_while_held_is_replaced_or_reported() {
    let cut = |seen: &Seen| {
        let begun = Plan::stream().events(&chat_events(["a", "b"])[..2]);
        match seen.header("x-plan") {
            Some("error") => begun.event(r#"{"error":{"message":"out of memory"}}"#).done(),
            Some("reset") => begun.reset(),
            Some("end") => begun,
            _ => begun.cut(),
        }
    };
    let (small, large) = (Mock::start(cut).await, large().await);
    // Else an engine that fails so often would be left aside for the larger pool.
    let policy = policy(&small, &large, ", hold: 1000", "").replace("to: small,", "to: small, spill: off,");
    let gateway = Gateway::start(&policy).await;
    let url = gateway.at("/v1/chat/completions");
    let plans = ["cut", "reset", "end", "error"];
    for plan in plans {
        let answered = answer(json(http().post(&url), &chat(true)).header("x-plan", plan)).await;
        assert_eq!(
            (answered.header("x-signalbox-cascade"), answered.text()),
            ("escalated:broken", events(&large_events())),
            "{plan}"
        );
    }
    large.stop().await;
    for plan in plans {
        let answered = answer(json(http().post(&url), &chat(true)).header("x-plan", plan)).await;
        assert_eq!(answered.header("x-signalbox-cascade"), "failed:broken", "{plan}");
        let text = answered.text();
        assert!(text.contains("\"a\"") && text.contains("\"error\""), "{plan}: {text}");
    }
    let lines = journal(&gateway, 8).await;
    assert!(lines[..4].iter().all(|line| line["outcome"] == "ok" && line["attempts"][0]["outcome"] != "ok"));
    assert!(lines[4..].iter().all(|line| line["outcome"] != "ok"), "{lines:?}");
}

#[tokio::test]
async fn a_client_that_leaves_during_a_cascade_leaves_nothing_behind() {
    let small = Mock::start(|seen| match seen.header("x-plan") {
        Some("hold") => Plan::stream().events(&chat_events(["a"])[..2]).hang(),
        Some("whole") => Plan::text(200, "application/json", whole(&content(SORRY), "stop", 0.0)),
        _ => Plan::stream().events(&chat_events([SORRY])[..2]).hang(),
    })
    .await;
    let large = Mock::start(|_| Plan::silence()).await;
    let gateway = Gateway::start(&policy(&small, &large, ", hold: 1000", "")).await;
    let url = gateway.at("/v1/chat/completions");
    for (at, plan) in ["hold", "stream", "whole"].into_iter().enumerate() {
        let request = json(http().post(&url), &chat(plan != "whole")).header("x-plan", plan);
        let asking = tokio::spawn(async move { Sse::send(request).await });
        small.wait_seen(at + 1).await;
        if plan == "hold" {
            let read = |now: &Metrics| now.sum("signalbox_upstream_ttft_seconds_count", &[]) > 0.5;
            gateway.wait_metrics("its first token to be read", read).await;
        } else {
            large.wait_seen(at).await;
        }
        asking.abort();
        if plan != "whole" {
            small.gone().await;
        }
        if plan != "hold" {
            large.gone().await;
        }
        gateway.wait_metrics("everything to be over", idle).await;
    }
    let lines = journal(&gateway, 3).await;
    for line in &lines {
        assert_eq!((&line["outcome"], &line["stage"]), (&json!("client_gone"), &json!("prefill")), "{line}");
        let attempts = line["attempts"].as_array().unwrap();
        assert!(attempts.iter().all(|attempt| attempt["outcome"] == "client_gone"), "{line}");
    }
    assert!(
        (lines[2]["cost_usd"].as_f64().unwrap() - 0.0012).abs() < 1e-9,
        "the first answer was complete: {}",
        lines[2]
    );
}

#[tokio::test]
async fn whole_answers_wait_for_room_at_the_larger_pool_and_streams_do_not() {
    let small = Mock::start(|seen| {
        if seen.streams() {
            let said = chat_events([SORRY, " No."]);
            Plan::stream().events(&said[..2]).gate(1).events(&said[2..]).done()
        } else {
            Plan::text(200, "application/json", whole(&content(SORRY), "stop", 0.0))
        }
    })
    .await;
    let large = Mock::start(|seen| polite(seen).behind(1)).await;
    let gateway = Arc::new(Gateway::start(&policy(&small, &large, "", "")).await);
    let send = |body: Value| {
        let gateway = gateway.clone();
        tokio::spawn(async move { post(&gateway.at("/v1/chat/completions"), &body).await })
    };
    // The larger engine takes one at a time.
    let busy = send(json!({ "model": "l", "messages": [1] }));
    large.wait_seen(1).await;
    let mut stream = Sse::post(&gateway.at("/v1/chat/completions"), &chat(true)).await;
    assert_eq!(stream.header("x-signalbox-cascade"), "failed:refusal");
    small.open(1);
    assert_eq!(stream.text().await.0, format!("{SORRY} No."));
    let waiting = send(chat(false));
    gateway.wait_metrics("one to wait", |now| now.sum("signalbox_queue_depth", &["pool=\"large\""]) > 0.5).await;
    let free = |now: &Metrics| now.sum("signalbox_backend_in_flight", &["pool=\"small\""]) < 0.5;
    gateway.wait_metrics("the small engine to be free meanwhile", free).await;
    large.open(1);
    assert_eq!(busy.await.unwrap().status, 200);
    assert_eq!(waiting.await.unwrap().header("x-signalbox-cascade"), "escalated:refusal");
    let metrics = gateway.wait_metrics("everything to be over", idle).await;
    assert!(metrics.sum("signalbox_shed_total", &[]) < 0.5, "nobody was refused: {metrics:?}");
}

#[tokio::test]
async fn unreadable_answers_are_passed_on_unchanged() {
    let huge = whole(&content(&"x y ".repeat(2_300_000)), "stop", 0.0);
    let served = huge.clone();
    let small = Mock::start(move |seen| match seen.header("x-plan") {
        Some("huge") => Plan::text(200, "application/json", served.clone()),
        Some("packed") => Plan::text(200, "application/json", "not really").header("content-encoding", "x-odd"),
        _ => Plan::text(200, "application/json", "[\"a shape nobody foresaw\"]"),
    })
    .await;
    let large = large().await;
    let gateway = Gateway::start(&policy(&small, &large, "", "")).await;
    for (plan, text) in [("huge", &*huge), ("packed", "not really"), ("odd", "[\"a shape nobody foresaw\"]")] {
        let request = json(http().post(gateway.at("/v1/chat/completions")), &chat(false)).header("x-plan", plan);
        let answered = answer(request).await;
        assert_eq!(answered.header("x-signalbox-cascade"), "unchecked", "{plan}");
        assert!(answered.body == text.as_bytes(), "{plan}");
    }
    assert_eq!(large.seen().len(), 0);
}

#[tokio::test]
async fn the_larger_pool_replaces_a_failed_first_pool_without_a_cascade() {
    let (small, large) = (Mock::start(|_| Plan::error(500, "down")).await, Mock::start(polite).await);
    let policy = policy(&small, &large, "", "").replace("small: { model: s,", "small: { model: s, context: 1k,");
    let gateway = Gateway::start(&policy).await;
    let url = gateway.at("/v1/chat/completions");
    let fallen = post(&url, &chat(false)).await;
    assert_eq!((fallen.header("x-signalbox-pool"), fallen.header("x-signalbox-cascade")), ("large", ""));
    let asked = small.seen().len();
    let long = json!({ "model": "auto", "messages": [{ "role": "user", "content": "many words ".repeat(2_000) }] });
    let fits = post(&url, &long).await;
    assert_eq!((fits.header("x-signalbox-pool"), fits.header("x-signalbox-cascade")), ("large", ""));
    assert_eq!(small.seen().len(), asked, "it would not fit there");
    let named = answer(json(http().post(&url), &chat(false)).header("x-signalbox-pool", "large")).await;
    assert_eq!((named.header("x-signalbox-pool"), named.header("x-signalbox-cascade")), ("large", ""));
    let vectors = post(&gateway.at("/v1/embeddings"), &json!({ "model": "auto", "input": "a" })).await;
    assert_eq!(
        (vectors.status.as_u16(), vectors.header("x-signalbox-cascade")),
        (500, ""),
        "they stay with the first model"
    );
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("signalbox_cascade_total", &[]) < 0.5, "{metrics:?}");
}
