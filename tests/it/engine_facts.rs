//! Facts about engines that show only on the wire: where their metrics are, whether they sleep, and the words that steer them.

use serde_json::{Value, json};

use crate::support::{
    client,
    gateway::Gateway,
    mock::{Mock, Plan, Seen, polite},
};

/// A page of trtllm-serve.
const TENSORRT_LLM: &str = "trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 5\n";

fn chat() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] })
}

/// A mock whose metrics stand at `path` only; at `/metrics` it has JSON.
async fn with_page_at(path: &'static str) -> Mock {
    let mock = Mock::start(polite).await;
    mock.on_probe(move |seen: &Seen| match &*seen.path {
        it if it == path => Some(Plan::text(200, "text/plain", TENSORRT_LLM)),
        "/metrics" => Some(Plan::json(200, &json!([]))),
        _ => None,
    });
    mock
}

#[tokio::test]
async fn metrics_are_found_where_the_engine_or_the_policy_has_them() {
    let (usual, odd) = (with_page_at("/prometheus/metrics").await, with_page_at("/odd/metrics").await);
    let (api, worker) = (Mock::start(polite).await, with_page_at("/metrics").await);
    let gateway = Gateway::start(&format!(
        "engines: {{ odd: {{ url: \"{}\", scrape: 100ms, metrics: {{ path: /odd/metrics }} }} }}\n\
         pools:\n  p: {{ backends: [\"{}\", {{ engine: odd }}, {{ url: \"{}\", metrics: {{ path: /metrics, port: {} }} }}] }}\n\
         models: {{ m: {{ to: p }} }}\n",
        odd.url(),
        usual.url(),
        api.url(),
        worker.addr().port(),
    ))
    .await;
    let metrics = gateway.wait_metrics("three pages", |it| it.sum("signalbox_engine_waiting", &[]) > 14.0).await;
    assert!((metrics.sum("signalbox_engine_running", &[]) - 9.0).abs() < 0.1, "{metrics:?}");
    let asked = odd.probes().iter().filter(|seen| seen.path == "/metrics").count();
    assert_eq!(asked, 0, "the policy says where the page is");
}

#[tokio::test]
async fn a_sleeping_engine_gets_no_requests_while_another_is_awake() {
    let (asleep, awake) = (Mock::start(polite).await, Mock::start(polite).await);
    let page = |awake: u8| {
        format!(
            "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n\
             vllm:engine_sleep_state{{sleep_state=\"awake\"}} {awake}\n\
             vllm:engine_sleep_state{{sleep_state=\"weights_offloaded\"}} {}\n",
            1 - awake
        )
    };
    asleep.set_metrics(page(0));
    awake.set_metrics(page(1));
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ balance: round_robin, backends: [{{ url: \"{}\", scrape: 100ms }}, {{ url: \"{}\", scrape: 100ms }}] }} }}\n\
         models: {{ m: {{ to: p }} }}\n",
        asleep.url(),
        awake.url()
    ))
    .await;
    gateway.wait_log("sleeps, its requests go to other backends").await;
    for _ in 0..10 {
        assert!(client::post(&gateway.at("/v1/chat/completions"), &chat()).await.status.is_success());
    }
    assert_eq!((asleep.seen().len(), awake.seen().len()), (0, 10));
    awake.set_metrics(page(0));
    asleep.set_metrics(page(1));
    gateway.wait_log("is awake again").await;
    for _ in 0..10 {
        assert!(client::post(&gateway.at("/v1/chat/completions"), &chat()).await.status.is_success());
    }
    assert!(asleep.seen().len() >= 9, "{} {}", asleep.seen().len(), awake.seen().len());
}

#[tokio::test]
async fn words_that_steer_the_engine_need_leave() {
    let mock = Mock::start(polite).await;
    let hash = |key: &str| format!("blake3:{}", blake3::hash(key.as_bytes()).to_hex());
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n\
         keys:\n  - {{ id: usual, hash: \"{}\" }}\n  - {{ id: operator, hash: \"{}\", allow: [engine] }}\n",
        mock.url(),
        hash("usual"),
        hash("operator")
    ))
    .await;
    let mut body = chat();
    body["priority"] = json!(-100);
    body["kv_transfer_params"] = json!({ "remote_host": "10.6.6.6" });
    body["seed"] = json!(1);
    for key in ["usual", "operator"] {
        let request = client::http().post(gateway.at("/v1/chat/completions")).bearer_auth(key);
        let answer = client::answer(client::json(request.header("x-override-priority", "-5"), &body)).await;
        assert!(answer.status.is_success(), "{answer:?}");
    }
    let seen = mock.seen();
    let has = |seen: &Seen| {
        let body = seen.json();
        let words = ["priority", "kv_transfer_params", "seed"].map(|name| body.get(name).is_some());
        (words, seen.header("x-override-priority").is_some())
    };
    assert_eq!(has(&seen[0]), ([false, false, true], false));
    assert_eq!(has(&seen[1]), ([true, true, true], true));
}
