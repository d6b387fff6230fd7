//! The history of figures and events, over time, a reload, a death and a restart.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    client::{get, post},
    gateway::Gateway,
    mock::{Mock, polite},
    until,
};

fn policy(mock: &Mock, folder: &std::path::Path, more: &str) -> String {
    format!(
        "pools:\n  main: {{ model: m, backends: [\"{}\"], objectives: [{{ ttft: {{ p95: 800ms }} }}] }}\n\
         cache: {{ exact: {{}} }}\nusage: {{ path: \"{}\" }}\n{more}",
        mock.url(),
        folder.display()
    )
}

fn chat(at: u64) -> Value {
    json!({ "model": "m", "stream": true, "temperature": 0, "messages": [{ "role": "user", "content": format!("hi {}", at % 3) }] })
}

fn kinds(history: &Value) -> Vec<&str> {
    history["events"].as_array().expect("events").iter().filter_map(|event| event["kind"].as_str()).collect()
}

fn highest(column: &Value) -> f64 {
    column.as_array().into_iter().flatten().filter_map(Value::as_f64).fold(0.0, f64::max)
}

#[tokio::test]
async fn figures_and_events_outlive_the_process() {
    let (mock, folder) = (Mock::start(polite).await, tempfile::tempdir().expect("a folder"));
    let mut gateway = Gateway::start(&policy(&mock, folder.path(), "")).await;
    assert_eq!(get(&gateway.admin("/admin/history?range=2h")).await.status, 400);
    for at in 0..6 {
        assert_eq!(post(&gateway.at("/v1/chat/completions"), &chat(at)).await.status, 200);
    }
    let mut seen = Value::Null;
    until("an interval", async || {
        seen = gateway.get_json("/admin/history?range=15m").await;
        highest(&seen["pools"]["main"]["requests_per_s"]) > 0.0
    })
    .await;
    let main = &seen["pools"]["main"];
    assert_eq!((&seen["step_s"], &main["objective_ttft_ms"]), (&json!(5), &json!(800.0)), "{seen}");
    for column in [&main["ttft_ms"]["p50"], &main["ttft_ms"]["p99"], &main["share"], &seen["gateway"]["tokens_per_s"]] {
        assert!(highest(column) > 0.0, "{seen}");
    }
    assert!(highest(&seen["cache"]["exact"]["hit_ratio"]) > 0.0, "{seen}");
    assert!(highest(&seen["budgets"]["pool main ttft_p95"]["left"]) > 0.0, "{seen}");
    let times = seen["times"].as_array().expect("times").len();
    assert_eq!(main["queue"].as_array().map(Vec::len), Some(times), "columns have equal lengths");
    assert!(highest(&gateway.get_json("/admin/history?range=3d").await["pools"]["main"]["share"]) > 0.0);

    gateway.rewrite(&policy(&mock, folder.path(), "models: { other: { to: main } }\n"));
    let has = async |gateway: &Gateway, kind: &str| kinds(&gateway.get_json("/admin/history").await).contains(&kind);
    until("the mark of a reload", async || has(&gateway, "reloaded").await).await;
    gateway.rewrite("pools: 7\n");
    until("the mark of a failed reload", async || has(&gateway, "reload_failed").await).await;
    mock.stop().await;
    until("the mark of a backend that died", async || has(&gateway, "backend_down").await).await;

    gateway.sigterm();
    gateway.wait_exit().await;
    let again = Mock::start(polite).await;
    let mut gateway = Gateway::start(&policy(&again, folder.path(), "")).await;
    let restored = gateway.get_json("/admin/history?range=1h").await;
    assert!(highest(&restored["pools"]["main"]["requests_per_s"]) > 0.0, "{restored}");
    until("the mark of the start", async || {
        let history = gateway.get_json("/admin/history").await;
        kinds(&history).iter().filter(|kind| **kind == "started").count() == 2
    })
    .await;
    gateway.kill().await;

    fs::write(folder.path().join("history.json"), "{\"version\":1,").expect("a file");
    let gateway = Gateway::start(&policy(&again, folder.path(), "")).await;
    gateway.wait_log("history: the file cannot be read").await;
    assert_eq!(gateway.get_json("/admin/history").await["times"], json!([]));
}
