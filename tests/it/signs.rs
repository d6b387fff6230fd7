//! Signs of trouble before objectives are missed: queues in engines, streams that stall, tokens of failed answers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    client::{answer, http, json},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, chat_events, polite},
    until,
};

/// A stall that readers notice.
const STALL: Duration = Duration::from_millis(300);

async fn ask(gateway: &Gateway, path: &str, body: &Value) {
    answer(json(http().post(gateway.at(path)), body)).await;
}

#[tokio::test]
async fn a_queue_in_an_engine_is_no_balance() {
    let mock = Mock::start(polite).await;
    mock.set_vllm(4, 50, 0.1);
    let gateway = Gateway::start(&format!(
        "engines: {{ e: {{ url: \"{}\", scrape: 100ms }} }}\n\
         pools: {{ main: {{ model: m, backends: [{{ engine: e }}] }} }}\n",
        mock.url()
    ))
    .await;
    let mut pool = Value::Null;
    let mut troubles = String::new();
    let mut reach = async |what: &str, wanted: &str| {
        until(what, async || {
            let state = gateway.get_json("/admin/state").await;
            (pool, troubles) = (state["pools"][0].clone(), state["health"]["troubles"].to_string());
            pool["diagnosis"]["state"] == *wanted
        })
        .await;
        (pool.clone(), troubles.clone())
    };
    let (pool, troubles) = reach("the queue to be seen", "capacity-bound").await;
    assert_eq!(pool["saturation"], 1.0, "{pool}");
    assert!(pool["diagnosis"]["words"].as_str().is_some_and(|it| it.starts_with("50 requests wait")), "{pool}");
    assert!(troubles.contains("50 where 4 run"), "{troubles}");
    mock.set_vllm(4, 1, 0.1);
    let (pool, troubles) = reach("the queue to be gone", "idle").await;
    assert!(pool["saturation"].as_f64() < Some(1.0) && !troubles.contains("wait"), "{pool} {troubles}");
}

/// An engine that stalls once in every stream, and breaks off those about `cut`.
fn stalling(seen: &Seen) -> Plan {
    let asked = seen.json().to_string();
    if !seen.streams() {
        return polite(seen);
    }
    let events = chat_events(["one ", "two ", "three ", "four ", "five "]);
    let (first, rest) = events.split_at(3);
    if asked.contains("cut") {
        Plan::stream().events(first).cut()
    } else {
        Plan::stream().events(first).pause(STALL).events(rest).done()
    }
}

#[tokio::test]
async fn streams_that_stall_and_tokens_of_failed_answers_are_counted() {
    let mock = Mock::start(stalling).await;
    let gateway = Gateway::start(&format!("pools: {{ main: {{ model: m, backends: [\"{}\"] }} }}\n", mock.url())).await;
    let messages = |said: &str| json!([{ "role": "user", "content": said }]);
    for at in 0..3 {
        let said = format!("hello {at}");
        ask(&gateway, "/v1/chat/completions", &json!({ "model": "m", "stream": true, "messages": messages(&said) }))
            .await;
        let body = json!({ "model": "m", "stream": true, "max_tokens": 50, "messages": messages(&said) });
        ask(&gateway, "/v1/messages", &body).await;
        ask(&gateway, "/v1/responses", &json!({ "model": "m", "stream": true, "store": false, "input": said })).await;
    }
    ask(&gateway, "/v1/chat/completions", &json!({ "model": "m", "stream": true, "messages": messages("cut") })).await;
    let stalled = |now: &Metrics| now.sum("signalbox_stalled_answers_total", &[r#"pool="main""#]);
    gateway.wait_metrics("nine to have stalled", |now| stalled(now) > 8.5).await;
    let failed = |now: &Metrics| now.sum("signalbox_work_tokens_total", &[r#"kind="completion""#, r#"use="failed""#]);
    gateway.wait_metrics("the one that was cut", |now| failed(now) > 0.5).await;

    let state = gateway.get_json("/admin/state").await;
    let signs = state["pools"][0]["signs"].to_string();
    assert!(signs.contains("streams of the last minute stalled, for up to 0.3 s"), "{state}");
    assert!(state["health"]["troubles"].to_string().contains("stalled"), "{state}");
    let decisions = state["decisions"].as_array().expect("decisions");
    let largest = decisions.iter().filter_map(|it| it["largest_gap_ms"].as_f64()).filter(|ms| *ms >= 290.0).count();
    assert!(largest >= 9, "{state}");
}
