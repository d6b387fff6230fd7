//! Diagnosis of a pool's bottleneck, and the hidden queue of engines, from traffic and from engines' metrics.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    client::Sse,
    gateway::Gateway,
    mock::{Mock, Plan, chat_events, usage_event},
};

#[tokio::test]
async fn a_pool_says_what_bounds_it_and_an_engine_s_hidden_queue_shows() {
    // It counts from when it takes a request up: 10 ms each. Callers wait 400 ms.
    let says = |requests: u32| {
        format!(
            "vllm:num_requests_running{{engine=\"0\"}} 0.0\nvllm:num_requests_waiting{{engine=\"0\"}} 0.0\n\
             vllm:kv_cache_usage_perc{{engine=\"0\"}} 0.25\n\
             vllm:time_to_first_token_seconds_count{{engine=\"0\"}} {requests}.0\n\
             vllm:time_to_first_token_seconds_sum{{engine=\"0\"}} {}\n",
            f64::from(requests) * 0.01
        )
    };
    let engine = Mock::start(|_| {
        let answer = Plan::stream().pause(Duration::from_millis(400)).events(chat_events(["one ", "two"]));
        answer.event(&usage_event(5, 2)).done()
    })
    .await;
    engine.set_metrics(says(10));
    let gateway = Gateway::start(&format!(
        "engines: {{ e: {{ url: \"{}\", scrape: 100ms, max_concurrency: 4 }} }}\n\
         pools: {{ p: {{ backends: [{{ engine: e }}] }} }}\nmodels: {{ m: {{ to: p }} }}\n",
        engine.url()
    ))
    .await;
    let state = |name: &str| format!("state=\"{name}\"");
    let before = gateway
        .wait_metrics("a first reading", |it| it.sum("signalbox_engine_kv_usage_ratio", &[r#"engine="e""#]) > 0.2)
        .await;
    assert!(before.sum("signalbox_pool_state", &[r#"pool="p""#, &state("idle")]) > 0.5);
    assert!(before.sum("signalbox_engine_hidden_queue_seconds", &[]) < 1e-9, "nothing is known yet");

    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    assert!(!Sse::post(&gateway.at("/v1/chat/completions"), &body).await.text().await.0.is_empty());
    engine.set_metrics(says(11));
    let after = gateway
        .wait_metrics("the gap", |it| it.sum("signalbox_engine_hidden_queue_seconds", &[r#"engine="e""#]) > 0.3)
        .await;
    assert!(after.sum("signalbox_pool_state", &[r#"pool="p""#, &state("prefill-bound")]) > 0.5);
    assert!(after.sum("signalbox_prefill_share_ratio", &[r#"pool="p""#]) > 0.5);
    let saturation = after.sum("signalbox_pool_saturation_ratio", &[r#"pool="p""#]);
    assert!((0.25..=1.0).contains(&saturation), "{saturation}");
    let pool = &gateway.get_json("/admin/state").await["pools"][0];
    assert_eq!(pool["diagnosis"]["state"], "prefill-bound");
    assert!(pool["diagnosis"]["words"].as_str().unwrap().contains("before its first token"), "{}", pool["diagnosis"]);
}
