//! Operators' figures of GPUs, their cost, speculative decoding and network distance.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    client,
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, polite},
    until,
};

const GPUS: &str = r#"# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="g1"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",Hostname="g1"} 30
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="g1"} 60000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",Hostname="g1"} 20000
"#;

fn near(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() < wanted * 0.01
}

#[tokio::test]
async fn gpus_are_seen_where_there_is_an_exporter_and_nothing_hangs_on_it() {
    let (engine, exporter) = (Mock::start(polite).await, Mock::start(polite).await);
    engine.set_vllm(1, 0, 0.25);
    exporter.set_metrics(GPUS);
    let silent = Mock::start(|_| Plan::stream().pause(Duration::from_hours(1)).done()).await;
    let gateway = Gateway::start(&format!(
        "engines:\n  seen: {{ url: \"{0}\", scrape: 100ms, dcgm: \"http://{1}\" }}\n\
         \x20 unseen: {{ url: \"{2}\", scrape: false, dcgm: \"http://{3}/gpus\" }}\n\
         pools: {{ p: {{ balance: round_robin, backends: [{{ engine: seen }}, {{ engine: unseen }}] }} }}\nmodels: {{ m: {{ to: p }} }}\n",
        engine.url(),
        exporter.addr(),
        engine.url().replace("/v1", "/other/v1"),
        silent.addr()
    ))
    .await;
    let metrics = gateway
        .wait_metrics("the GPUs", |it| it.sum("signalbox_engine_gpu_utilisation_ratio", &[r#"engine="seen""#]) > 0.1)
        .await;
    assert!(near(metrics.sum("signalbox_engine_gpu_utilisation_ratio", &[]), 0.6), "{metrics:?}");
    assert!(near(metrics.sum("signalbox_engine_gpu_memory_ratio", &[r#"engine="seen""#]), 0.75), "{metrics:?}");
    gateway
        .wait_metrics("the way there", |it| it.sum("signalbox_engine_round_trip_seconds", &[r#"engine="seen""#]) > 0.0)
        .await;
    assert!(!metrics.0.keys().any(|key| key.contains("gpu_") && key.contains("unseen")), "{metrics:?}");
    for _ in 0..4 {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
        let answer = client::post(&gateway.at("/v1/chat/completions"), &body).await;
        assert!(answer.status.is_success(), "an exporter that says nothing is nobody's fault");
    }
    let state = gateway.get_json("/admin/state").await;
    let backends = state["pools"][0]["backends"].as_array().expect("backends");
    let seen = backends.iter().find(|it| it["engine"] == "seen").expect("the one that is seen");
    assert_eq!((&seen["gpus"]["count"], &seen["gpus"]["memory"]), (&json!(2), &json!(0.75)));
    assert!(seen["round_trip_ms"].as_f64().is_some_and(|ms| (0.0..1000.0).contains(&ms)), "{seen}");
    let unseen = backends.iter().find(|it| it["engine"] == "unseen").expect("the other one");
    assert_eq!((&unseen["gpus"], &unseen["state"]), (&Value::Null, &json!("up")), "{unseen}");
    assert_eq!(state["health"]["level"], "ok", "{}", state["health"]);
    let top = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(["top", "--once", "--admin", &gateway.admin("")])
        .output()
        .expect("signalbox top runs");
    let said = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(said.contains("GPU") && said.contains("60%"), "{said}");
}

#[tokio::test]
async fn the_hours_of_engines_cost_whether_they_work_or_not() {
    let engine = Mock::start(polite).await;
    let policy = |more: &str| {
        format!(
            "pools:\n  own: {{ price: {{ gpu_hour: 3600 }}, backends: [\"{}\"] }}\n{more}models: {{ m: {{ to: own }} }}\n",
            engine.url()
        )
    };
    let began = Instant::now();
    let gateway = Gateway::start(&policy("")).await;
    // A dollar a second.
    let cost = |it: &Metrics| it.sum("signalbox_gpu_cost_usd_total", &[r#"pool="own""#]);
    let idle = gateway.wait_metrics("a second", |it| cost(it) > 1.0).await;
    assert!(cost(&idle) <= began.elapsed().as_secs_f64() + 0.1, "{idle:?}");
    assert!(near(idle.sum("signalbox_pool_usd_per_hour", &[r#"pool="own""#]), 3600.0), "{idle:?}");
    assert!(near(idle.sum("signalbox_fleet_usd_per_hour", &[]), 3600.0), "{idle:?}");
    assert!(!idle.0.keys().any(|key| key.contains("per_million")), "no token, no price of one: {idle:?}");

    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let answer = client::post(&gateway.at("/v1/chat/completions"), &body).await.json();
    let tokens = answer["usage"]["completion_tokens"].as_f64().expect("a count");
    let busy = gateway
        .wait_metrics("a price of tokens", |it| it.sum("signalbox_pool_usd_per_million_output_tokens", &[]) > 0.0)
        .await;
    let million = busy.sum("signalbox_pool_usd_per_million_output_tokens", &[r#"pool="own""#]);
    let most = began.elapsed().as_secs_f64().max(1.0) / tokens * 1e6;
    assert!(million > 0.0 && million <= most * 1.01, "{million} for {tokens} tokens, {most} at most");
    assert!(near(busy.sum("signalbox_fleet_usd_per_million_output_tokens", &[]), million), "{busy:?}");
    assert!(busy.sum("signalbox_cost_usd_total", &[]) < 1e-12, "no request has a price of its own");
    let line = &gateway.get_json("/admin/decisions").await[0];
    assert_eq!(line["cost_usd"], Value::Null, "{line}");
    let state = gateway.get_json("/admin/state").await;
    assert!(near(state["pools"][0]["cost"]["usd_per_hour"].as_f64().expect("a price"), 3600.0), "{state}");

    // One engine, two pools: it is paid for once.
    gateway.rewrite(&policy(&format!("  more: {{ model: other, backends: [\"{}\"] }}\n", engine.url())));
    let shared = gateway
        .wait_metrics("both pools", |it| {
            it.sum("signalbox_pool_usd_per_hour", &[r#"pool="more""#]) >= 0.0
                && it.0.keys().any(|key| key.contains(r#"usd_per_hour{pool="more""#))
        })
        .await;
    assert!(near(shared.sum("signalbox_pool_usd_per_hour", &[]), 3600.0), "{shared:?}");
    assert!(cost(&shared) >= cost(&busy), "what was paid stays paid");
}

#[tokio::test]
async fn poor_speculative_decoding_is_reported() {
    let engine = Mock::start(polite).await;
    let says = |steps: u32| {
        format!(
            "vllm:num_requests_running 1\nvllm:num_queue_tokens 800\nvllm:spec_decode_num_drafts_total {}\n\
             vllm:spec_decode_num_draft_tokens_total {}\nvllm:spec_decode_num_accepted_tokens_total {}\n",
            100 * steps,
            300 * steps,
            30 * steps
        )
    };
    engine.set_metrics(says(1));
    let gateway = Gateway::start(&format!(
        "engines: {{ e: {{ url: \"{}\", scrape: 100ms }} }}\npools: {{ p: {{ backends: [{{ engine: e }}] }} }}\n",
        engine.url()
    ))
    .await;
    let before = gateway.wait_metrics("its queue", |it| it.sum("signalbox_engine_queued_tokens", &[]) > 799.0).await;
    assert!(!before.0.keys().any(|key| key.contains("spec_accept")), "nothing was drafted yet");
    engine.set_metrics(says(2));
    let after = gateway.wait_metrics("drafts", |it| it.sum("signalbox_engine_spec_accept_ratio", &[]) > 0.0).await;
    assert!(near(after.sum("signalbox_engine_spec_accept_ratio", &[r#"engine="e""#]), 0.1), "{after:?}");
    assert!(near(after.sum("signalbox_engine_spec_accept_length_tokens", &[]), 0.3), "{after:?}");
    until("the warning", async || {
        let health = gateway.get_json("/admin/state").await["health"].take();
        health["level"] == "warn"
            && health["troubles"][0]["words"].as_str().is_some_and(|it| it.contains("draft tokens"))
    })
    .await;
}
