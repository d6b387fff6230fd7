//! Configured embedders decide semantic hits: a server over real sockets, and local models if the binary has the runtime.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use signalbox::cache::{
    confidence::{Decision, Prior, Shift, Signals, decide},
    guard::{Traits, compare},
};

use crate::support::{
    client::{self, Answer},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, Seen},
    until,
};

const CAPITAL: &str = "What is the capital of France?";
const SAME: &str = "what is the capital of france";

fn policy(engine: &Mock, embedder: &str) -> String {
    format!(
        "pools:\n  p: {{ model: up, backends: [\"{}\"] }}\nmodels: {{ m: {{ to: p }} }}\n\
         cache: {{ semantic: {{ max_false_hit_rate: 5%, scope: shared, embedder: {embedder} }} }}\n",
        engine.url()
    )
}

fn backend(embeddings: &Mock, more: &str) -> String {
    format!("{{ backend: {{ url: \"{}\", model: bge{more} }} }}", embeddings.url())
}

async fn engine() -> Mock {
    Mock::start(|_| Plan::chat("It is Paris.")).await
}

/// A vector of `dimensions` for each text of a request, so that the two texts above have a similarity of 0.6.
fn vectors(seen: &Seen, dimensions: usize) -> Plan {
    let body = seen.json();
    let vector = |text: &Value| {
        let mut vector = vec![0.0; dimensions];
        if text == CAPITAL {
            vector[0] = 2.0;
        } else {
            (vector[0], vector[1]) = (3.0, 4.0);
        }
        vector
    };
    let texts = body["input"].as_array().unwrap().iter().enumerate();
    let data: Vec<Value> = texts.map(|(index, text)| json!({ "index": index, "embedding": vector(text) })).collect();
    Plan::json(200, &json!({ "object": "list", "data": data }))
}

async fn ask(gateway: &Gateway, said: &str) -> Answer {
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": said }] });
    let answer = client::post(&gateway.at("/v1/chat/completions"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

async fn cache_status(gateway: &Gateway, said: &str) -> String {
    ask(gateway, said).await.header("x-signalbox-cache").to_owned()
}

/// Sends a request and waits until its answer is stored.
async fn keep(gateway: &Gateway, said: &str) {
    ask(gateway, said).await;
    entries(gateway, 1.0).await;
}

async fn entries(gateway: &Gateway, count: f64) {
    gateway
        .wait_metrics("as many answers to be kept", |metrics| {
            (metrics.sum("signalbox_cache_entries", &["tier=\"semantic\""]) - count).abs() < 0.5
        })
        .await;
}

async fn entries_from(gateway: &Gateway, count: f64) {
    gateway
        .wait_metrics("so many answers to be kept", |metrics| {
            metrics.sum("signalbox_cache_entries", &["tier=\"semantic\""]) >= count
        })
        .await;
}

async fn embedded(gateway: &Gateway, embedder: &str, result: &str) -> f64 {
    let labels = [format!("embedder=\"{embedder}\""), format!("result=\"{result}\"")];
    gateway.metrics().await.sum("signalbox_cache_embeddings_total", &[&labels[0], &labels[1]])
}

#[tokio::test]
async fn a_server_decides() {
    let engine = engine().await;
    let embeddings = Mock::start(|seen| vectors(seen, 8)).await;
    let more = ", key: \"${EMBED_KEY}\", dimensions: 8, timeout: 10s";
    let start = Start::with(&policy(&engine, &backend(&embeddings, more))).env("EMBED_KEY", "sk-embed");
    let gateway = start.start().await;
    keep(&gateway, CAPITAL).await;
    let hit = ask(&gateway, SAME).await;
    assert_eq!(hit.header("x-signalbox-cache"), "hit-semantic", "{}", gateway.log());
    // Of the server's vectors, not of those that are compiled in.
    assert!(hit.header("x-signalbox-cache-certainty").starts_with("similarity=0.600"), "{:?}", hit.headers);
    assert_eq!(engine.seen().len(), 1);
    let seen = embeddings.seen();
    let body = seen[0].json();
    assert_eq!((seen[0].path.as_str(), seen[0].header("authorization")), ("/v1/embeddings", Some("Bearer sk-embed")));
    assert_eq!((&body["model"], &body["dimensions"], &body["input"]), (&json!("bge"), &json!(8), &json!([CAPITAL])));
    assert!(embedded(&gateway, "backend", "done").await > 1.5);
    let state = gateway.get_json("/admin/state").await;
    assert!(state["cache"]["embedder"].as_str().unwrap().starts_with("backend:bge@"), "{state}");
    assert!(!gateway.log().contains("sk-embed"));
}

#[tokio::test]
async fn a_dead_server_costs_misses_and_is_left_alone() {
    let engine = engine().await;
    let embeddings = Mock::start(|seen| vectors(seen, 2)).await;
    let gateway = Gateway::start(&policy(&engine, &backend(&embeddings, ", timeout: 10s"))).await;
    keep(&gateway, CAPITAL).await;
    embeddings.stop().await;
    until("the server to be left alone", async || {
        assert_eq!(cache_status(&gateway, SAME).await, "miss");
        embedded(&gateway, "backend", "resting").await > 0.5
    })
    .await;
    assert!(embedded(&gateway, "backend", "failed").await > 2.5);
    let log = gateway.log();
    assert_eq!(log.matches("no semantic lookup for this text").count(), 1, "{log}");
}

#[tokio::test]
async fn a_slow_server_is_not_waited_for() {
    let engine = engine().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let embeddings = {
        let asked = asked.clone();
        Mock::start(move |seen| if asked.fetch_add(1, SeqCst) == 0 { vectors(seen, 2) } else { Plan::silence() }).await
    };
    let gateway = Gateway::start(&policy(&engine, &backend(&embeddings, ", timeout: 20ms"))).await;
    keep(&gateway, CAPITAL).await;
    let answer = ask(&gateway, SAME).await;
    assert_eq!(answer.header("x-signalbox-cache"), "miss");
    assert!(answer.header("cache-status").contains("embedder_late"), "{:?}", answer.headers);
    assert!(embedded(&gateway, "backend", "late").await > 0.5);
}

/// Under load, a late embedder costs each request its timeout at most, and has four requests at a time.
#[tokio::test]
async fn a_burst_does_not_wait_for_a_late_server() {
    const BURST: usize = 120;
    let engine = engine().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let embeddings = {
        let asked = asked.clone();
        let held = move |seen: &Seen| {
            let plan = vectors(seen, 2);
            if asked.fetch_add(1, SeqCst) == 0 { plan } else { plan.behind(1) }
        };
        Mock::start(held).await
    };
    let gateway = Gateway::start(&policy(&engine, &backend(&embeddings, ", timeout: 50ms"))).await;
    keep(&gateway, CAPITAL).await;
    // Each is spelt in its own way, so that no request takes another's answer.
    let spelt = |number: usize| {
        let letters = "capital".chars().enumerate();
        letters.map(|(at, c)| if number >> at & 1 == 1 { c.to_ascii_uppercase() } else { c }).collect::<String>()
    };
    let burst = (0..BURST).map(|number| {
        let (gateway, said) = (&gateway, SAME.replace("capital", &spelt(number)));
        async move {
            let began = Instant::now();
            let answer = ask(gateway, &said).await;
            (answer.header("cache-status").to_owned(), began.elapsed())
        }
    });
    let answers = join_all(burst).await;
    for (status, took) in &answers {
        assert!(status.contains("embedder_"), "{status}");
        // The server answers none of them: whoever waited for it would wait for the 5 s that its requests may take.
        assert!(*took < Duration::from_secs(4), "{took:?}, {status}");
    }
    assert!(embeddings.under_way() <= 4, "{} requests at once", embeddings.under_way());
    let [late, full, resting] =
        ["late", "full", "resting"].map(|why| answers.iter().filter(|(status, _)| status.contains(why)).count());
    assert!(late > 0 && late + full + resting == BURST, "{late} late, {full} full, {resting} resting");
    // Three late ones in a row are enough to leave it alone.
    until("the server to be left alone", async || {
        ask(&gateway, SAME).await.header("cache-status").contains("embedder_resting")
    })
    .await;
    // What was to be stored waits for it, in a bounded queue.
    embeddings.open(1);
    entries_from(&gateway, 2.0).await;
}

#[tokio::test]
async fn vectors_of_another_length_are_never_compared() {
    let engine = engine().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let embeddings = {
        let asked = asked.clone();
        Mock::start(move |seen| vectors(seen, if asked.fetch_add(1, SeqCst) == 0 { 2 } else { 3 })).await
    };
    let gateway = Gateway::start(&policy(&engine, &backend(&embeddings, ", timeout: 10s"))).await;
    keep(&gateway, CAPITAL).await;
    let answer = ask(&gateway, SAME).await;
    assert!(answer.header("cache-status").contains("embedder_failed"), "{:?}", answer.headers);
    gateway.wait_log("should have 2 dimensions").await;
    // Nor where another length was asked for than comes.
    let gateway = Gateway::start(&policy(&engine, &backend(&embeddings, ", dimensions: 16, timeout: 10s"))).await;
    ask(&gateway, CAPITAL).await;
    gateway.wait_log("should have 16 dimensions").await;
    assert!(gateway.metrics().await.sum("signalbox_cache_entries", &["tier=\"semantic\""]) < 0.5);
}

#[tokio::test]
async fn another_embedder_begins_anew() {
    let engine = engine().await;
    let embeddings = Mock::start(|seen| vectors(seen, 2)).await;
    let with = |more: &str| policy(&engine, &backend(&embeddings, more));
    let gateway = Gateway::start(&with(", timeout: 10s")).await;
    keep(&gateway, CAPITAL).await;
    assert_eq!(cache_status(&gateway, SAME).await, "hit-semantic");
    let reload = async |policy: &str| {
        gateway.rewrite(policy);
        let reply = client::post(&gateway.admin("/admin/reload"), &json!({})).await;
        assert_eq!(reply.json()["reloaded"], true, "{}", reply.text());
    };
    reload(&with(", timeout: 10s, dimensions: 2")).await;
    entries(&gateway, 0.0).await;
    assert_eq!(cache_status(&gateway, SAME).await, "miss");
    entries(&gateway, 1.0).await;
    assert_eq!(cache_status(&gateway, CAPITAL).await, "hit-semantic");
    reload(&policy(&engine, "built-in")).await;
    entries(&gateway, 0.0).await;
    let asked = embeddings.seen().len();
    keep(&gateway, CAPITAL).await;
    assert_eq!(cache_status(&gateway, SAME).await, "hit-semantic");
    assert_eq!(embeddings.seen().len(), asked);
    let state = gateway.get_json("/admin/state").await;
    assert!(state["cache"]["embedder"].as_str().unwrap().starts_with("minilm-l6-w8@"), "{state}");
}

#[tokio::test]
async fn a_vector_that_takes_longer_than_the_answer_is_not_waited_for() {
    let engine = Mock::start(|_| Plan::chat_stream(["It", " is", " Par", "is", ",", " of", " cour", "se", "."])).await;
    let embeddings = Mock::start(|seen| vectors(seen, 2).after(Duration::from_millis(150))).await;
    let gateway = Gateway::start(&policy(&engine, &backend(&embeddings, ", timeout: 10s"))).await;
    let ask = async |said: &str, past: bool| {
        let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": said }] });
        let request = client::json(client::http().post(gateway.at("/v1/chat/completions")), &body);
        client::answer(if past { request.header("x-signalbox-cache", "off") } else { request }).await
    };
    ask(CAPITAL, false).await;
    entries(&gateway, 1.0).await;
    // The pool is seen to be quick, and the embedder to be slow.
    for _ in 0..40 {
        ask(CAPITAL, true).await;
    }
    until("the lookup not to be worth it", async || {
        let answer = ask(SAME, false).await;
        assert!(answer.text().contains("Par"), "{}", answer.text());
        answer.header("cache-status").contains("no_gain")
    })
    .await;
    let labels = ["tier=\"semantic\"", "reason=\"no_gain\""];
    assert!(gateway.metrics().await.sum("signalbox_cache_lookups_total", &labels) > 0.5);
}

/// An embedder for which all texts are alike, under the prior for unknown embedders: only equal words are served.
#[test]
fn an_embedder_that_nothing_is_known_of_serves_nothing_wrong() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cache/adversarial.jsonl");
    let (mut served, mut others) = ([0; 3], 0);
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (a, b, same) = (line["a"].as_str().unwrap(), line["b"].as_str().unwrap(), line["same"] == true);
        // Pairs that differ only in their context are separated by their keys.
        if !line["context_a"].is_null() {
            continue;
        }
        others += u32::from(!same);
        let signals = Signals { similarity: 0.99, margin: 0.99 };
        let comparison = compare(&Traits::of(b), &Traits::of(a));
        for (served, budget) in served.iter_mut().zip([0.01, 0.03, 0.05]) {
            let prior = Prior::of("backend:somebody's@0");
            if let Decision::Serve(_) = decide(prior, &Shift::scope(), &Shift::entry(), &signals, &comparison, budget) {
                assert!(same, "{a:?} is no {b:?} at {budget}");
                *served += 1;
            }
        }
    }
    assert!(others > 2_000 && served[2] > served[0], "{others} {served:?}");
}

/// Sends requests until an answer is stored: none is while an embedder loads.
#[cfg(feature = "fastembed")]
async fn keep_when_loaded(gateway: &Gateway) {
    until("an answer to be kept", async || {
        ask(gateway, CAPITAL).await;
        gateway.metrics().await.sum("signalbox_cache_entries", &["tier=\"semantic\""]) > 0.5
    })
    .await;
}

/// A folder with the names of a model's files.
#[cfg(feature = "fastembed")]
fn model_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in signalbox::config::embedder::MODEL_FILES {
        std::fs::write(folder.path().join(name), "{}").unwrap();
    }
    folder
}

#[cfg(feature = "fastembed")]
#[tokio::test]
async fn without_its_library_the_built_in_embedder_decides() {
    let (engine, folder) = (engine().await, model_folder());
    let embedder = format!("{{ onnx: \"{}\" }}", folder.path().display());
    let start = Start::with(&policy(&engine, &embedder)).env("ORT_DYLIB_PATH", "/nowhere/onnxruntime");
    let gateway = start.start().await;
    gateway.wait_log("pip install onnxruntime").await;
    keep_when_loaded(&gateway).await;
    assert_eq!(cache_status(&gateway, SAME).await, "hit-semantic");
    assert!(embedded(&gateway, "built-in", "done").await > 0.5);
}

/// With a real runtime (`ORT_DYLIB_PATH`) and a real model (the folder `SIGNALBOX_ONNX`).
#[cfg(feature = "fastembed")]
#[expect(clippy::print_stderr, reason = "skipped tests are reported")]
#[tokio::test]
async fn a_model_on_this_machine_decides() {
    let (Ok(library), Ok(folder)) = (std::env::var("ORT_DYLIB_PATH"), std::env::var("SIGNALBOX_ONNX")) else {
        return eprintln!("no ONNX Runtime or model: set ORT_DYLIB_PATH and SIGNALBOX_ONNX to see one decide");
    };
    let engine = engine().await;
    let start = Start::with(&policy(&engine, &format!("{{ onnx: \"{folder}\" }}"))).env("ORT_DYLIB_PATH", &library);
    let gateway = start.start().await;
    keep_when_loaded(&gateway).await;
    assert_eq!(cache_status(&gateway, SAME).await, "hit-semantic", "{}", gateway.log());
    assert!(embedded(&gateway, "onnx", "done").await > 0.5, "{}", gateway.log());
    let state = gateway.get_json("/admin/state").await;
    assert!(state["cache"]["embedder"].as_str().unwrap().starts_with("onnx:"), "{state}");
}

#[cfg(feature = "fastembed")]
#[tokio::test]
async fn a_missing_runtime_is_logged_and_harmless() {
    let (engine, folder) = (engine().await, model_folder());
    let library = folder.path().join("libonnxruntime.so");
    std::fs::write(&library, "no library").unwrap();
    let embedder = format!("{{ onnx: \"{}\" }}", folder.path().display());
    let start = Start::with(&policy(&engine, &embedder)).env("ORT_DYLIB_PATH", library.to_str().unwrap());
    let gateway = start.start().await;
    gateway.wait_log("no ONNX Runtime that can be used").await;
    assert_eq!(cache_status(&gateway, CAPITAL).await, "miss");
}

/// If the hub cannot be reached, the built-in embedder decides, with or without a runtime.
#[cfg(feature = "fastembed")]
#[tokio::test]
async fn an_unreachable_hub_is_logged_and_harmless() {
    let (engine, cache) = (engine().await, tempfile::tempdir().unwrap());
    let start = Start::with(&policy(&engine, "{ fastembed: BGESmallENV15 }"))
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env("HF_HOME", cache.path().to_str().unwrap());
    let gateway = start.start().await;
    gateway.wait_log("the built-in one decides in its place").await;
    keep_when_loaded(&gateway).await;
    assert_eq!(cache_status(&gateway, SAME).await, "hit-semantic");
}
