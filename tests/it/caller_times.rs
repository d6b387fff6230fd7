//! Times as callers see them: answers of engines and of caches, whole and streamed, and what the caches spare.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    client::{answer, http, json},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, polite},
    until,
};

/// The time of an engine's answer.
const SLOW: Duration = Duration::from_millis(300);

fn chat(said: &str, stream: bool) -> Value {
    json!({ "model": "auto", "stream": stream, "temperature": 0, "messages": [{ "role": "user", "content": said }] })
}

async fn ask(gateway: &Gateway, path: &str, body: &Value) {
    assert_eq!(answer(json(http().post(gateway.at(path)), body)).await.status, 200, "{body}");
}

fn slow(seen: &Seen) -> Plan {
    if seen.path.contains("embeddings") { polite(seen) } else { polite(seen).after(SLOW) }
}

#[tokio::test]
async fn every_answer_is_in_the_callers_histograms() {
    let mock = Mock::start(slow).await;
    let gateway = Gateway::start(&format!(
        "engines: {{ e: {{ url: \"{}\", gpu_hour: 3.6 }} }}\n\
         pools: {{ main: {{ model: m, backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main }} }}\n\
         cache: {{ exact: {{ ttl: 1h }} }}\n",
        mock.url()
    ))
    .await;
    for stream in [true, false] {
        for said in ["one", "two", "one", "one"] {
            ask(&gateway, "/v1/chat/completions", &chat(said, stream)).await;
        }
    }
    // Two at once share one answer.
    let both = chat("at once", true);
    tokio::join!(ask(&gateway, "/v1/chat/completions", &both), ask(&gateway, "/v1/chat/completions", &both));
    let messages = json!({ "model": "auto", "max_tokens": 9, "messages": [{ "role": "user", "content": "hello" }] });
    ask(&gateway, "/v1/messages", &messages).await;
    ask(&gateway, "/v1/responses", &json!({ "model": "auto", "input": "hello", "store": false })).await;
    ask(&gateway, "/v1/embeddings", &json!({ "model": "auto", "input": "hello" })).await;
    let of = |name: &'static str, source: &'static str| {
        move |now: &Metrics| now.sum(name, &[r#"route="auto""#, &format!("source=\"{source}\"")])
    };
    let whole = |source| of("signalbox_caller_e2e_seconds_count", source);
    let sum = |now: &Metrics| now.sum("signalbox_caller_e2e_seconds_count", &[]);
    let metrics = gateway.wait_metrics("all to be settled", |now| sum(now) > 12.5).await;
    assert!((sum(&metrics) - 13.0).abs() < 1e-9, "each answer once");
    assert!((whole("coalesced")(&metrics) - 1.0).abs() < 1e-9);
    let (engine, exact) = (whole("engine")(&metrics), whole("exact")(&metrics));
    assert!(exact >= 4.0 && engine + exact > 11.5, "{engine} and {exact}");
    // Only what was asked for as a stream has a first token.
    let first: f64 = metrics.sum("signalbox_caller_ttft_seconds_count", &[]);
    assert!((first - 6.0).abs() < 1e-9, "{first}");

    let state = gateway.get_json("/admin/state").await;
    let callers = &state["callers"][0];
    assert_eq!((&callers["route"], &callers["e2e"]["count"]), (&json!("auto"), &json!(13)));
    let sources = callers["sources"].as_array().expect("sources");
    let time = |source: &str, p: &str| {
        let one = sources.iter().find(|it| it["source"] == *source).expect("a source");
        one["e2e"][p].as_f64().expect("seconds")
    };
    assert!(time("engine", "p50") >= 0.29, "{callers}");
    assert!(time("exact", "p90") < 0.2, "{callers}");
    assert!(callers["spared_p95_s"].is_number(), "{callers}");
    assert!(state["cache"]["saved_s"].as_f64() > Some(1.0), "four answers of three tenths of a second: {state}");
    // By engine hours an answer costs what the engine's output costs at the moment.
    until("the engine's hours to be charged", async || {
        gateway.get_json("/admin/state").await["cache"]["saved_usd"].as_f64() > Some(0.0)
    })
    .await;
}
