//! The cache on disk: over the real binary, killed and restarted on the same folder.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{fs, path::Path};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    client::{self, Answer, http},
    gateway::{Gateway, Metrics, Start},
    mock::{Mock, Plan, Seen},
    until,
};

const PURGE: &str = "/admin/cache/purge";

/// An engine whose answers name the prompt.
async fn engine() -> Mock {
    Mock::start(|seen: &Seen| Plan::chat(&answer_to(&said(&seen.json())))).await
}

fn said(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

/// Long enough that the process is often killed in the middle of it.
fn answer_to(prompt: &str) -> String {
    format!("{prompt}: {}", prompt.repeat(100))
}

fn policy(mock: &Mock, folder: &Path, models: &str) -> String {
    format!(
        "pools:\n  p: {{ model: up, backends: [\"{}\"] }}\nmodels: {{ m: {{ to: p }}, other: {{ to: p }}{models} }}\n\
         cache: {{ exact: {{}}, semantic: {{ max_false_hit_rate: 5%, scope: shared }}, persist: {{ path: \"{}\" }} }}\n",
        mock.url(),
        folder.display()
    )
}

/// A request with only an exact key: it has no text for the semantic cache.
fn exactly(model: &str, prompt: &str) -> Value {
    json!({ "model": model, "temperature": 0, "tools": [{ "type": "function", "function": { "name": "f" } }],
            "messages": [{ "role": "user", "content": prompt }] })
}

fn meaning(prompt: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": prompt }] })
}

async fn send(gateway: &Gateway, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let request = client::json(http().post(gateway.at("/v1/chat/completions")), body);
    client::answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

fn text(answer: &Answer) -> String {
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

/// Cache status of a request, whose answer has to be the right one.
async fn cache_status(gateway: &Gateway, body: &Value) -> String {
    let answer = send(gateway, body, &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(text(&answer), answer_to(&said(body)));
    answer.header("x-signalbox-cache").to_owned()
}

/// Number of these answers that are cached; each has to be the right one.
async fn hits(gateway: &Gateway, prompts: &[String]) -> usize {
    let mut hits = 0;
    for prompt in prompts {
        hits += usize::from(cache_status(gateway, &exactly("m", prompt)).await == "hit-exact");
    }
    hits
}

async fn written(gateway: &Gateway, records: usize) {
    let enough = |metrics: &Metrics| on_disk(metrics) >= records;
    gateway.wait_metrics("answers on disk", enough).await;
}

fn on_disk(metrics: &Metrics) -> usize {
    metrics.sum("signalbox_cache_log_records", &[]) as usize
}

/// Number of answers of each tier that were read back.
async fn read_back(gateway: &Gateway) -> (usize, usize) {
    gateway.wait_log("kept answers: read from disk").await;
    let metrics = gateway.metrics().await;
    let of = |tier| metrics.sum("signalbox_cache_loaded_total", &[tier]) as usize;
    (of("tier=\"exact\""), of("tier=\"semantic\""))
}

fn holds(folder: &Path, text: &str) -> bool {
    let bytes = fs::read(folder.join("log")).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_killed_gateway_is_warm_when_it_comes_back() {
    let (mock, folder) = (engine().await, TempDir::new().unwrap());
    let kept = folder.path().join("kept");
    let policy = policy(&mock, &kept, "");
    let mut gateway = Gateway::start(&policy).await;
    let capital = "What is the capital of France?";
    assert_eq!(cache_status(&gateway, &exactly("m", "one")).await, "miss");
    assert_eq!(cache_status(&gateway, &meaning(capital)).await, "miss");
    written(&gateway, 2).await;
    #[cfg(unix)]
    for (path, mode) in [(kept.clone(), 0o700), (kept.join("log"), 0o600)] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    gateway.kill().await;

    let mut gateway = Gateway::start(&policy).await;
    assert_eq!(read_back(&gateway).await, (1, 1));
    assert!(gateway.metrics().await.sum("signalbox_cache_log_up", &[]) > 0.5);
    assert_eq!(cache_status(&gateway, &exactly("m", "one")).await, "hit-exact");
    assert_eq!(mock.seen().len(), 2, "nobody was asked again");
    // On a busy machine a lookup may be given up for being late: then it is asked again, and what comes instead is not kept.
    until("the same question to be answered", async || {
        let same = meaning("what is the capital of france");
        let answer = send(&gateway, &same, &[("cache-control", "no-store")]).await;
        answer.header("x-signalbox-cache") == "hit-semantic" && text(&answer) == answer_to(capital)
    })
    .await;
    // An orderly end leaves the same.
    gateway.sigterm();
    assert_eq!(gateway.wait_exit().await.code(), Some(0), "{}", gateway.log());
    let gateway = Gateway::start(&policy).await;
    assert_eq!(read_back(&gateway).await, (1, 1));
}

/// Requests `prompts` concurrently, each by its exact key and by its meaning, until the gateway is killed or all are answered; checks each
/// answer.
async fn flood(gateway: &Gateway, prompts: &[String]) {
    let url = gateway.at("/v1/chat/completions");
    let both = prompts.iter().flat_map(|prompt| [(prompt, exactly("m", prompt)), (prompt, meaning(prompt))]);
    join_all(both.map(async |(prompt, body)| {
        let Ok(reply) = client::json(http().post(&url), &body).send().await else { return };
        let Ok(bytes) = reply.bytes().await else { return };
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(body["choices"][0]["message"]["content"], answer_to(prompt));
    }))
    .await;
}

#[tokio::test]
async fn killed_in_the_middle_of_writes_no_answer_is_wrong_and_none_that_was_written_is_lost() {
    let (mock, folder) = (engine().await, TempDir::new().unwrap());
    let policy = policy(&mock, folder.path(), "");
    let (mut prompts, mut before): (Vec<String>, usize) = (Vec::new(), 0);
    for round in 0..5 {
        let mut gateway = Gateway::start(&policy).await;
        let (exact, semantic) = read_back(&gateway).await;
        assert!(exact + semantic >= before, "{exact} + {semantic} of {before} that were written");
        let asked = &prompts[..prompts.len().min(20)];
        let cold = prompts.len() - exact;
        assert!(hits(&gateway, asked).await >= asked.len().saturating_sub(cold));
        let new: Vec<String> = (0..40).map(|number| format!("Which is prompt {number} of round {round}?")).collect();
        let kill = async {
            // At another place each time.
            mock.wait_seen(mock.seen().len() + 15 * (round + 1)).await;
            let written = on_disk(&gateway.metrics().await);
            gateway.sigkill();
            written
        };
        (before, ()) = tokio::join!(kill, flood(&gateway, &new));
        gateway.wait_exit().await;
        prompts.extend(new);
    }
    let gateway = Gateway::start(&policy).await;
    let (exact, semantic) = read_back(&gateway).await;
    assert!(exact + semantic >= before && before > 50, "{exact} + {semantic} of {before}");
    assert!(semantic > 0, "none by meaning");
    assert_eq!(hits(&gateway, &prompts).await, exact);
    for prompt in &prompts {
        cache_status(&gateway, &meaning(prompt)).await;
    }
}

#[tokio::test]
async fn damage_leads_to_fewer_answers_and_never_to_others() {
    let (mock, folder) = (engine().await, TempDir::new().unwrap());
    let policy = policy(&mock, folder.path(), "");
    let mut gateway = Gateway::start(&policy).await;
    let prompts: Vec<String> = (0..12).map(|number| format!("number {number}")).collect();
    hits(&gateway, &prompts).await;
    written(&gateway, 12).await;
    gateway.kill().await;
    let (file, whole) = (folder.path().join("log"), fs::read(folder.path().join("log")).unwrap());
    let length = whole.len();
    let flipped = |places: &[usize]| {
        let mut bytes = whole.clone();
        for at in places {
            bytes[*at] ^= 0x10;
        }
        bytes
    };
    for (bytes, least) in [
        (whole[..length - 1].to_vec(), 11),
        (whole[..length / 2].to_vec(), 4),
        (flipped(&[length / 3]), 11),
        (flipped(&[length / 4, length / 2, length - 40]), 9),
        ([&whole[..], &[0xf5; 300]].concat(), 12),
        (flipped(&[20]), 0),
        (b"something else".to_vec(), 0),
    ] {
        fs::write(&file, bytes).unwrap();
        let mut gateway = Gateway::start(&policy).await;
        let warm = read_back(&gateway).await.0;
        assert!(warm >= least, "{warm} of {least}");
        assert_eq!(hits(&gateway, &prompts).await, warm);
        gateway.kill().await;
    }
}

#[tokio::test]
async fn a_folder_has_one_gateway_and_the_next_takes_it_over() {
    let (mock, folder) = (engine().await, TempDir::new().unwrap());
    let policy = policy(&mock, folder.path(), "");
    let mut first = Gateway::start(&policy).await;
    cache_status(&first, &exactly("m", "one")).await;
    written(&first, 1).await;
    let second = Gateway::start(&policy).await;
    second.wait_log("is in use by another process").await;
    assert_eq!(cache_status(&second, &exactly("m", "two")).await, "miss");
    assert_eq!(cache_status(&second, &exactly("m", "two")).await, "hit-exact", "in memory it is kept");
    assert!(second.metrics().await.sum("signalbox_cache_log_up", &[]) < 0.5);
    first.kill().await;
    assert_eq!(client::post(&second.admin("/admin/reload"), &json!({})).await.status, 200);
    assert_eq!(read_back(&second).await.0, 1);
    assert_eq!(cache_status(&second, &exactly("m", "one")).await, "hit-exact");
    // Without it in the policy the folder is free again, and nothing more goes there.
    let plain = policy.replace(&format!(", persist: {{ path: \"{}\" }}", folder.path().display()), "");
    assert_ne!(plain, policy);
    second.rewrite(&plain);
    second.wait_log("reload: policy loaded").await;
    until("the folder to be free", async || {
        let third = Gateway::start(&policy).await;
        third.metrics().await.sum("signalbox_cache_log_up", &[]) > 0.5
    })
    .await;
    assert_eq!(cache_status(&second, &exactly("m", "one")).await, "hit-exact", "in memory it stays");
    // And a folder that others may write to is refused.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let Err(log) = Start::with(&policy).attempt().await else { panic!("it started") };
        assert!(log.contains("is writable by other users") && log.contains("cache.persist.path"), "{log}");
    }
}

#[tokio::test]
async fn purged_answers_leave_the_disk() {
    let (mock, folder) = (engine().await, TempDir::new().unwrap());
    let policy = policy(&mock, folder.path(), "");
    let mut gateway = Gateway::start(&policy).await;
    for (model, prompt) in [("m", "alpha one"), ("m", "beta two"), ("other", "gamma three")] {
        cache_status(&gateway, &exactly(model, prompt)).await;
    }
    cache_status(&gateway, &meaning("What is the capital of Peru?")).await;
    written(&gateway, 4).await;
    let hit = send(&gateway, &exactly("m", "alpha one"), &[("x-request-id", "alpha")]).await;
    assert_eq!(hit.header("x-signalbox-cache"), "hit-exact");
    let entry = gateway.get_json("/admin/decisions/alpha").await["reused"]["entry"].as_str().unwrap().to_owned();
    for purge in [format!("entry={entry}"), "route=other".to_owned()] {
        let purged = client::post(&gateway.admin(&format!("{PURGE}?{purge}")), &json!({})).await;
        assert_eq!(purged.json()["purged"], 1, "{}", purged.text());
    }
    // Killed at once: it is gone when the answer says so.
    gateway.kill().await;
    let mut gateway = Gateway::start(&policy).await;
    assert_eq!(read_back(&gateway).await, (1, 1));
    until("its bytes to be gone", async || !holds(folder.path(), "alpha one") && !holds(folder.path(), "gamma")).await;
    assert!(holds(folder.path(), "beta two") && holds(folder.path(), "capital of Peru"));
    assert_eq!(cache_status(&gateway, &exactly("m", "beta two")).await, "hit-exact");
    assert_eq!(client::post(&gateway.admin(PURGE), &json!({})).await.json()["purged"], 2);
    gateway.kill().await;
    let gateway = Gateway::start(&policy).await;
    assert_eq!(read_back(&gateway).await, (0, 0));
    until("everything to be gone", async || !holds(folder.path(), "beta") && !holds(folder.path(), "Peru")).await;
}

#[tokio::test]
async fn routes_and_keys_can_stay_off_the_disk() {
    let (mock, folder) = (engine().await, TempDir::new().unwrap());
    let hash = |secret: &str| blake3::hash(secret.as_bytes()).to_hex().to_string();
    let keys = |more: &str| {
        format!(
            "{}keys:\n  - {{ id: one, hash: \"blake3:{}\"{more} }}\n  - {{ id: two, hash: \"blake3:{}\", cache: {{ persist: off }} }}\n",
            policy(&mock, folder.path(), ", quiet: { to: p, cache: { persist: off } }"),
            hash("k1"),
            hash("k2")
        )
    };
    let gateway = Gateway::start(&keys("")).await;
    let (one, two) = (("authorization", "Bearer k1"), ("authorization", "Bearer k2"));
    for (model, prompt, key) in [("quiet", "secret of one", one), ("m", "secret of two", two), ("m", "open", one)] {
        for expected in ["miss", "hit-exact"] {
            let answer = send(&gateway, &exactly(model, prompt), &[key]).await;
            assert_eq!(answer.header("x-signalbox-cache"), expected, "{prompt}");
        }
    }
    // By meaning all share, but only what one of them asked may be on disk.
    send(&gateway, &meaning("What is the capital of Chile?"), &[two]).await;
    gateway
        .wait_metrics("it to be kept", |metrics| metrics.sum("signalbox_cache_entries", &["tier=\"semantic\""]) >= 1.0)
        .await;
    send(&gateway, &meaning("What is the capital of Kenya?"), &[one]).await;
    written(&gateway, 2).await;
    assert!(holds(folder.path(), "open") && holds(folder.path(), "Kenya"));
    assert!(!holds(folder.path(), "secret") && !holds(folder.path(), "Chile"));
    // Whoever is taken off later is deleted.
    gateway.rewrite(&keys(", cache: { persist: off }"));
    until("the rest to be gone", async || !holds(folder.path(), "open") && !holds(folder.path(), "Kenya")).await;
    let answer = send(&gateway, &exactly("m", "open"), &[one]).await;
    assert_eq!(answer.header("x-signalbox-cache"), "hit-exact", "in memory it stays");
}
