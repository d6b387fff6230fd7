//! Signals that are true in an outage: what could not be written, a policy that could not be loaded, pools that nobody serves.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, keys, pool, used},
    support::{
        client::{self, post},
        gateway::{Gateway, Metrics, Start},
        mock::{Mock, Plan, polite},
        until,
    },
};

/// The health problems, as text.
async fn troubles(gateway: &Gateway) -> String {
    gateway.get_json("/admin/state").await["health"]["troubles"].to_string()
}

async fn change(gateway: &Gateway, path: &str) -> Value {
    client::post(&gateway.admin(path), &json!({})).await.json()
}

fn store(metrics: &Metrics, name: &str) -> f64 {
    metrics.sum("signalbox_store_up", &[&format!("store=\"{name}\"")])
}

#[tokio::test]
async fn a_revocation_counts_as_kept_only_once_it_is_on_disk() {
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage");
    let policy = format!(
        "usage: {{ path: \"{}\" }}\n{}{}",
        path.display(),
        keys(&[("web", ""), ("other", "")]),
        pool(&mock, "")
    );
    let gateway = Gateway::start(&policy).await;
    assert_eq!(change(&gateway, "/admin/keys/other/revoke").await["kept"], true);
    let away = folder.path().join("away");
    fs::rename(&path, &away).unwrap();
    fs::write(&path, "no folder").unwrap();
    for (key, verb) in [("web", "revoke"), ("other", "restore"), ("other", "revoke"), ("other", "revoke")] {
        let answer = change(&gateway, &format!("/admin/keys/{key}/{verb}")).await;
        let remark = answer["remark"].as_str().unwrap_or_default();
        assert!(answer["kept"] == false && remark.contains("usage.path"), "{answer}");
    }
    assert_eq!(ask(&gateway, "web", &chat("auto", 5), &[]).await.status, 401, "it holds here all the same");
    let metrics = gateway.metrics().await;
    assert!(
        store(&metrics, "usage") < 0.5 && metrics.sum("signalbox_store_write_errors_total", &["store=\"usage\""]) > 0.5
    );
    let shown = troubles(&gateway).await;
    assert!(shown.contains("usage, budgets and revocations (usage.path)"), "{shown}");
    gateway.wait_metrics("the audit log to be missed", |now| store(now, "audit") < 0.5).await;
    assert_eq!(gateway.log().matches("usage: could not be written").count(), 1);
    // It is written by itself once that works again.
    fs::remove_file(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    gateway.wait_metrics("all to be written", |now| store(now, "usage") + store(now, "audit") > 1.5).await;
    assert!(!troubles(&gateway).await.contains("usage.path"));
    let mut gateway = gateway;
    gateway.kill().await;
    let gateway = Gateway::start(&policy).await;
    for key in ["web", "other"] {
        assert_eq!(ask(&gateway, key, &chat("auto", 5), &[]).await.status, 401, "{key}");
    }
}

#[tokio::test]
async fn keys_that_cannot_be_written_are_refused_and_seen() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let policy = format!("managed_keys: {{ path: \"{}/keys.json\" }}\n{}", home.display(), pool(&mock, ""));
    let gateway = Gateway::start(&policy).await;
    let volume = folder.path().join("volume");
    symlink(&volume, &home).unwrap();
    let create = async || client::post(&gateway.admin("/admin/keys"), &json!({ "id": "web" })).await.status.as_u16();
    assert_eq!(create().await, 500);
    assert!(store(&gateway.metrics().await, "keys") < 0.5 && troubles(&gateway).await.contains("managed_keys.path"));
    fs::create_dir(&volume).unwrap();
    gateway.wait_metrics("keys to be writable", |now| store(now, "keys") > 0.5).await;
    assert_eq!((create().await, troubles(&gateway).await.contains("managed_keys.path")), (201, false));
}

#[tokio::test]
async fn a_file_of_keys_that_lost_its_content_is_an_error() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let policy = format!("managed_keys: {{ path: \"{}\" }}\n{}", path.display(), pool(&mock, ""));
    for lost in ["", "{}", "null\n"] {
        fs::write(&path, lost).unwrap();
        let log = Start::with(&policy).attempt().await.err().unwrap_or_else(|| panic!("it started with {lost:?}"));
        assert!(log.contains("has no `keys`"), "{log}");
    }
    fs::write(&path, "{\"keys\": []}").unwrap();
    Gateway::start(&policy).await;
}

#[tokio::test]
async fn a_policy_that_is_not_in_force_stays_in_sight_until_it_is() {
    let mock = Mock::start(polite).await;
    let good = format!("{}{}", keys(&[("web", "")]), pool(&mock, ""));
    let gateway = Gateway::start(&good).await;
    let wait = async |up: bool| {
        let is = |now: &Metrics| (now.sum("signalbox_config_last_reload_successful", &[]) > 0.5) == up;
        gateway.wait_metrics("the last load", is).await;
        let shown = troubles(&gateway).await;
        assert_eq!(shown.contains("the policy in its file is not in force"), !up, "{shown}");
    };
    wait(true).await;
    for bad in [format!("{good}nonsense: 1\n"), format!("{good}: [\n"), pool(&mock, "")] {
        gateway.rewrite(&bad);
        wait(false).await;
        gateway.rewrite(&good);
        wait(true).await;
    }
    let text = fs::read_to_string(gateway.config()).unwrap();
    fs::remove_file(gateway.config()).unwrap();
    wait(false).await;
    fs::write(gateway.config(), text).unwrap();
    wait(true).await;
}

#[tokio::test]
async fn pools_that_nobody_serves_are_saturated() {
    let broken = Mock::start(|_| Plan::error(500, "boom")).await;
    let fine = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("endpoints.json");
    fs::write(&list, "[]").unwrap();
    let policy = format!(
        "pools:\n  zero: {{ model: m, backends: [{{ file: \"{0}\" }}] }}\n  unused: {{ model: m, backends: [{{ file: \"{0}\" }}] }}\n  \
           dead: {{ model: m, backends: [\"http://127.0.0.1:1/v1\"] }}\n  broken: {{ model: m, backends: [\"{1}\"] }}\n  \
           fine: {{ model: m, backends: [\"{2}\"] }}\nmodels:\n  zero: {{ to: zero }}\n  \
           dead: {{ to: dead, fallback: [fine] }}\n  broken: {{ to: broken }}\n  fine: {{ to: fine, fallback: [unused] }}\n",
        list.display(),
        broken.url(),
        fine.url(),
    );
    let gateway = Start::with(&policy).start().await;
    let full = |now: &Metrics, pool: &str| {
        let pool = format!("pool=\"{pool}\"");
        let unserved = now.sum("signalbox_pool_state", &[&pool, "state=\"unserved\""]) > 0.5;
        let saturation = now.sum("signalbox_pool_saturation_ratio", &[&pool]);
        assert_eq!(unserved, saturation > 0.99, "{pool}: {saturation}");
        unserved
    };
    let metrics = gateway.metrics().await;
    for pool in ["zero", "unused", "dead", "broken", "fine"] {
        assert!(!full(&metrics, pool), "{pool}: nobody asks for it");
    }
    let ask = async |model: &str| post(&gateway.at("/v1/chat/completions"), &chat(model, 5)).await.status.as_u16();
    assert_eq!((ask("zero").await, ask("fine").await), (503, 200));
    assert_eq!(ask("dead").await, 200, "another pool answers, and still nobody serves this one");
    until("the breaker to open", async || {
        ask("broken").await;
        full(&gateway.metrics().await, "broken")
    })
    .await;
    let metrics = gateway.metrics().await;
    assert!(full(&metrics, "zero") && full(&metrics, "dead"));
    assert!(!full(&metrics, "fine") && !full(&metrics, "unused"));
    // Its first engine starts.
    fs::write(&list, format!("[\"{}\"]", fine.url())).unwrap();
    gateway.wait_metrics("the pool to be served", |now| !full(now, "zero")).await;
}

#[tokio::test]
async fn every_request_for_a_pool_at_zero_is_demand() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("endpoints.json");
    fs::write(&list, "[]").unwrap();
    let list = list.display();
    let policy = format!(
        "pools:\n  chat: {{ model: m, backends: [{{ file: \"{list}\" }}] }}\n  other: {{ model: m, backends: [{{ file: \"{list}\" }}] }}\n  \
           listed: {{ backends: [{{ file: \"{list}\", serves: \"q*\" }}] }}\nmodels: {{ chat: {{ to: chat }}, other: {{ to: other }} }}\n"
    );
    let gateway = Gateway::start(&policy).await;
    let messages = json!([{ "role": "user", "content": "hi" }]);
    for (pool, path, body) in [
        ("chat", "/v1/messages", json!({ "model": "chat", "max_tokens": 5, "messages": messages })),
        ("other", "/v1/embeddings", json!({ "model": "other", "input": "hi" })),
        ("listed", "/v1/chat/completions", json!({ "model": "qwen", "messages": messages })),
    ] {
        let full = |now: &Metrics| now.sum("signalbox_pool_saturation_ratio", &[&format!("pool=\"{pool}\"")]) > 0.99;
        assert!(!full(&gateway.metrics().await));
        let refused = post(&gateway.at(path), &body).await;
        assert!(refused.status == 503 && !refused.header("retry-after").is_empty(), "{pool}: {}", refused.text());
        assert!(full(&gateway.metrics().await), "{pool}");
    }
}

#[tokio::test]
async fn the_error_that_ends_the_start_is_json_where_the_log_is() {
    let refused = |level: &'static str| {
        let start = Start::with("pools: { main: { model: m, backends: [\"http://127.0.0.1:1/v1\"] } }\n");
        start.env("SIGNALBOX_LOG", level).arg("--log-json").attempt()
    };
    let policy = Start::with("nonsense: 1\n").arg("--log-json").attempt().await;
    for (attempt, words) in [(policy, "nonsense"), (refused("wanr").await, "did you mean `warn`")] {
        let log = attempt.err().unwrap_or_else(|| panic!("it started: {words}"));
        let line: Value = serde_json::from_str(log.lines().next().unwrap_or_default()).unwrap();
        let message = line["fields"]["message"].as_str().unwrap_or_default();
        assert!(line["level"] == "ERROR" && message.contains(words), "{log}");
    }
    assert!(refused("WARNING").await.is_ok());
}
