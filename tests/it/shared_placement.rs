//! Placement shared by several gateways: over the real binary, scripted engines and a real Redis that comes and goes.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use futures_util::future::join_all;
use redis::cmd;
use serde_json::{Value, json};

use crate::support::{
    client::{self, Sse},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen},
    redis::Redis,
    until,
};

/// Conversations of a test. That all find their engine by chance has a probability of a quarter to this power.
const CONVERSATIONS: usize = 12;

async fn engines() -> Vec<Mock> {
    join_all((0..4).map(|_| Mock::start(|_: &Seen| Plan::chat("Well.")))).await
}

async fn gateway(engines: &[Mock], redis: &Redis, key: &str) -> Gateway {
    let urls: Vec<String> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    let policy = format!(
        "pools:\n  p: {{ model: up, backends: [{}] }}\nplacement: {{ shared: {{ url: \"{}\", key: {key} }} }}\n",
        urls.join(", "),
        redis.url()
    );
    let gateway = Gateway::start(&policy).await;
    is_up(&gateway, true).await;
    gateway
}

async fn is_up(gateway: &Gateway, up: bool) {
    let what = if up { "the server to be there" } else { "the server to be away" };
    gateway.wait_metrics(what, |metrics| (metrics.sum("signalbox_placement_shared_up", &[]) > 0.5) == up).await;
}

fn prompts(metrics: &Metrics, what: &str, result: &str) -> f64 {
    let labels = [format!("what=\"{what}\""), format!("result=\"{result}\"")];
    metrics.sum("signalbox_placement_shared_total", &labels.each_ref().map(|label| &**label))
}

async fn received(gateway: &Gateway, result: &str, count: usize) {
    let ready = |metrics: &Metrics| prompts(metrics, "receive", result) >= count as f64;
    gateway.wait_metrics(&format!("{count} {result}"), ready).await;
}

/// A turn of a conversation with long instructions of its own.
fn turn(conversation: &str, turns: usize) -> Value {
    let instructions = format!("{conversation} knows this by heart. ").repeat(400);
    let mut messages = vec![json!({ "role": "system", "content": instructions })];
    for turn in 0..turns {
        messages.push(json!({ "role": "user", "content": format!("And the point number {turn}?") }));
    }
    json!({ "model": "auto", "messages": messages })
}

/// Sends one turn of each conversation. Returns the backend of each.
async fn sent(gateway: &Gateway, name: &str, turns: usize) -> Vec<String> {
    let mut backends = Vec::new();
    for conversation in 0..CONVERSATIONS {
        let body = turn(&format!("{name} {conversation}"), turns);
        let answer = client::post(&gateway.at("/v1/chat/completions"), &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        backends.push(answer.header("x-signalbox-backend").to_owned());
    }
    backends
}

#[tokio::test]
async fn a_conversation_finds_its_engine_through_another_gateway() {
    let Some(redis) = Redis::start().await else { return };
    let engines = engines().await;
    let key = "what-we-have-in-common";
    let (one, two) = tokio::join!(gateway(&engines, &redis, key), gateway(&engines, &redis, key));
    let stranger = gateway(&engines, &redis, "something-else-entirely").await;
    let first = sent(&one, "Ada", 1).await;
    received(&two, "ok", CONVERSATIONS).await;
    assert_eq!(sent(&two, "Ada", 2).await, first);
    // One that comes later reads what there is, and skips what it has no engine for.
    let late = gateway(&engines[..2], &redis, key).await;
    let lacking = 2 * first.iter().filter(|name| matches!(&***name, "p-3" | "p-4")).count();
    received(&late, "ok", 2 * CONVERSATIONS - lacking).await;
    received(&late, "unknown", lacking).await;
    let metrics =
        one.wait_metrics("all published", |metrics| prompts(metrics, "publish", "ok") >= CONVERSATIONS as f64).await;
    assert!(prompts(&metrics, "publish", "dropped") < 0.5);
    let metrics = stranger.metrics().await;
    let received = prompts(&metrics, "receive", "ok") + prompts(&metrics, "receive", "refused");
    assert!(received < 0.5, "it reads another stream");
}

/// These engines report no load, so that only the other gateway can say which of them is busy.
#[tokio::test]
async fn requests_of_another_gateway_are_load() {
    let Some(redis) = Redis::start().await else { return };
    let engines = join_all((0..2).map(|_| {
        let delta = json!({ "choices": [{ "index": 0, "delta": { "content": "Well" } }] }).to_string();
        Mock::start(
            move |seen: &Seen| if seen.streams() { Plan::stream().event(&delta).gate(0) } else { Plan::chat("Well.") },
        )
    }))
    .await;
    let key = "what-we-have-in-common";
    let (one, two) = tokio::join!(gateway(&engines, &redis, key), gateway(&engines, &redis, key));
    let body = json!({ "model": "auto", "stream": true, "messages": [{ "role": "user", "content": "for long" }] });
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(Sse::post(&one.at("/v1/chat/completions"), &body).await);
    }
    streams.retain(|stream| stream.header("x-signalbox-backend") == "p-1");
    assert!(!streams.is_empty(), "both engines had some");
    let question = json!({ "model": "auto", "messages": [{ "role": "user", "content": "now" }] });
    let asked = async || {
        let answer = client::post(&two.at("/v1/chat/completions"), &question).await;
        answer.header("x-signalbox-backend").to_owned()
    };
    until("the idle engine to be known", async || {
        let mut all = true;
        for _ in 0..10 {
            all &= asked().await == "p-2";
        }
        all
    })
    .await;
}

#[tokio::test]
async fn gateways_live_without_the_server_and_ignore_what_is_not_theirs() {
    let Some(mut redis) = Redis::start().await else { return };
    let engines = engines().await;
    let key = "what-we-have-in-common";
    let (one, two) = tokio::join!(gateway(&engines, &redis, key), gateway(&engines, &redis, key));
    sent(&one, "Ada", 1).await;
    received(&two, "ok", CONVERSATIONS).await;
    let streams: Vec<String> = redis.ask(cmd("KEYS").arg("signalbox:*:placement:prompts"));
    assert_eq!(streams.len(), 1);
    for garbage in [&b"garbage"[..], &[1; 200], b""] {
        let _: String = redis.ask(cmd("XADD").arg(&streams[0]).arg("*").arg("m").arg(garbage));
    }
    received(&two, "refused", 3).await;
    redis.kill().await;
    tokio::join!(is_up(&one, false), is_up(&two, false));
    sent(&one, "Bob", 1).await;
    redis.again().await;
    tokio::join!(is_up(&one, true), is_up(&two, true));
    let first = sent(&one, "Cid", 1).await;
    received(&two, "ok", 2 * CONVERSATIONS).await;
    assert_eq!(sent(&two, "Cid", 2).await, first);
}
