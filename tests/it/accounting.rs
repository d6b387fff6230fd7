//! In-flight accounting: after every request, however it ended and wherever its client left, nothing is counted as in flight.

use std::{cell::Cell, sync::Arc};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use signalbox::{
    config::Config,
    fleet::{Engine, Registry, Snapshot},
    gateway::{Live, Parts, walk},
    policy::compile,
    types::Clock,
    upstream::Client,
};
use tower::ServiceExt;

use crate::support::{
    client::{Sse, answer, http, json},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, chat_events},
    until, within,
};

/// Behaviour of the engine, selected by the header `x-fate`.
const FATES: [&str; 14] = [
    "whole",
    "stream",
    "400",
    "429",
    "500",
    "cut-head",
    "reset",
    "garbage",
    "cut",
    "reset-late",
    "in-band",
    "silent",
    "prefill",
    "answer",
];
/// Behaviours that end only when the client leaves.
const ENDLESS: [&str; 4] = ["silent", "prefill", "answer", "half"];

pub(crate) fn fate(seen: &Seen) -> Plan {
    let begun = || Plan::stream().events(&chat_events(["a", "b"])[..2]);
    match seen.header("x-fate").unwrap_or_default() {
        "whole" => Plan::chat("whole"),
        "400" => Plan::error(400, "no"),
        "429" => Plan::error(429, "later"),
        "500" => Plan::error(500, "broken"),
        "cut-head" => Plan::close(),
        "reset" => Plan::reset_at_once(),
        "garbage" => Plan::garbage("no http\r\n\r\n"),
        "cut" => begun().cut(),
        "reset-late" => begun().reset(),
        "in-band" => begun().event(r#"{"error":{"message":"broken"}}"#),
        "silent" => Plan::silence(),
        "prefill" => Plan::stream().events(&chat_events(["a"])[..1]).hang(),
        "answer" => begun().hang(),
        "half" => Plan::text(200, "application/json", "{\"id\":").hang().body("1}"),
        "declines" => Plan::stream().events(chat_events(["I'm sorry, but I can't help with that."])).done(),
        "declines-on" => Plan::stream().events(&chat_events(["I'm sorry, but I can't help with that."])[..2]).hang(),
        "declines-whole" => Plan::chat("I'm sorry, but I can't help with that."),
        "held" => begun().gate(1).events(&chat_events(["b"])[1..]).done(),
        _ => Plan::chat_stream(["a", "b"]),
    }
}

/// A deterministic random number generator.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

fn chat(model: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": "count me in" }] })
}

fn policy(a: &Mock, b: &Mock, more: &str) -> String {
    format!(
        "engines:\n  a: {{ url: \"{}\", scrape: false }}\n  b: {{ url: \"{}\", scrape: false }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}, {{ engine: b }}] }}\n  \
         spare: {{ model: n, backends: [{{ engine: b }}] }}\n\
         models:\n  auto: {{ to: main, fallback: [spare] }}\n  \
         careful: {{ to: main, cascade: {{ to: spare, hold: 2, within: 100ms }} }}\n  \
         late: {{ to: main, timeouts: {{ total: 150ms }} }}\n  \
         slow: {{ to: main, fallback: [spare], timeouts: {{ first_token: 100ms, idle: 100ms, total: 2s }} }}\n{more}",
        a.url(),
        b.url()
    )
}

fn idle(now: &Metrics) -> bool {
    let gauges = [
        "signalbox_in_flight",
        "signalbox_backend_in_flight",
        "signalbox_backend_queued_prompt_tokens",
        "signalbox_backend_decoding",
        "signalbox_backend_context_tokens",
    ];
    gauges.iter().all(|name| now.sum(name, &[]) < 0.5)
}

#[tokio::test]
async fn after_a_storm_every_counter_is_zero_and_every_place_free() {
    const PLACES: usize = 30;
    const ROUNDS: usize = 4;
    let (a, b) = (Arc::new(Mock::start(fate).await), Arc::new(Mock::start(fate).await));
    let gateway = Gateway::start(&policy(&a, &b, &format!("limits: {{ in_flight: {PLACES} }}\n"))).await;
    let url = gateway.at("/v1/chat/completions");
    let mut dice = Dice(0x5eed);
    let (mut sent, mut left) = (0, 0);
    for _ in 0..ROUNDS {
        let storm: Vec<_> = (0..PLACES)
            .map(|_| {
                let fate = [&FATES[..], &["half"]].concat()[dice.roll(FATES.len() + 1)];
                // An endless answer ends by a deadline, or by its client.
                let endless = ENDLESS.contains(&fate);
                let model = if endless { ["late", "slow", "auto", "auto"][dice.roll(4)] } else { "auto" };
                let leaves = endless && (model == "auto" || fate == "half" && model == "slow");
                let stream = !["whole", "half"].contains(&fate) && (dice.roll(4) > 0 || endless);
                let id = format!("storm-{sent}");
                sent += 1;
                left += usize::from(leaves);
                let request =
                    json(http().post(&url), &chat(model, stream)).header("x-fate", fate).header("x-request-id", &id);
                let (a, b) = (a.clone(), b.clone());
                tokio::spawn(async move {
                    if !leaves {
                        let answered = answer(request).await;
                        assert!(!answered.text().contains("overloaded"), "{}", answered.text());
                        return;
                    }
                    let asking = tokio::spawn(async move {
                        let mut stream = Sse::send(request).await;
                        while stream.event().await.is_ok() {}
                    });
                    let arrived = |seen: &Seen| seen.header("x-request-id") == Some(&id);
                    within("the request to arrive", async {
                        tokio::select! {
                            () = a.wait_for("it", arrived) => {}
                            () = b.wait_for("it", arrived) => {}
                        }
                    })
                    .await;
                    asking.abort();
                })
            })
            .collect();
        for one in storm {
            one.await.unwrap();
        }
        gateway.wait_metrics("everything to be over", idle).await;
    }
    let metrics = gateway.metrics().await;
    let sum = |name: &str, labels: &[&str]| metrics.sum(name, labels) as usize;
    let gone = &[r#"outcome="client_gone""#][..];
    assert_eq!(sum("signalbox_requests_total", &[]), sent, "{metrics:?}");
    assert_eq!(sum("signalbox_requests_total", gone), left, "{metrics:?}");
    assert_eq!(sum("signalbox_client_gone_total", &[]), left);
    // Of some, more than one attempt was under way.
    assert!(sum("signalbox_backend_attempts_total", gone) >= left, "{metrics:?}");
    let attempts = sum("signalbox_backend_attempts_total", &[]);
    assert!(attempts >= sent && attempts <= a.seen().len() + b.seen().len(), "{attempts} attempts at {sent}");
    assert_eq!(a.under_way() + b.under_way(), 0);

    // Every place is free, and there is not one more than there should be.
    let held = || json(http().post(&url), &chat("auto", true)).header("x-fate", "held");
    let mut streams = Vec::new();
    for number in 0..PLACES {
        let stream = Sse::send(held()).await;
        assert_eq!(stream.status, 200, "request {number}");
        streams.push(stream);
    }
    let refused = answer(held()).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, "1"));
    assert_eq!(refused.json()["error"]["code"], "overloaded");
    drop(streams.pop());
    until("one place to be free", async || Sse::send(held()).await.status == 200).await;
    a.open(1);
    b.open(1);
    for mut stream in streams {
        stream.rest().await;
    }
    gateway.wait_metrics("everything to be over", idle).await;
}

#[tokio::test]
async fn uploads_that_break_off_are_counted_and_forgotten() {
    let (a, b) = (Mock::start(fate).await, Mock::start(fate).await);
    let gateway = Gateway::start(&policy(&a, &b, "")).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"model\"";
    for number in 1..=5 {
        let mut stream = tokio::net::TcpStream::connect(gateway.listen()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
        gateway.wait_metrics("the upload to begin", |now| now.sum("signalbox_in_flight", &[]) > 0.5).await;
        drop(stream);
        gateway.wait_metrics("the upload to be over", idle).await;
        let total = gateway.metrics().await.sum("signalbox_requests_total", &[]) as usize;
        assert_eq!(total, number);
    }
    assert_eq!(a.seen().len() + b.seen().len(), 0);
}

/// The gateway in this process: a dropped request ends at once, without a network in between.
pub(crate) struct House {
    pub(crate) walk:
        Box<dyn Fn(Request<Body>) -> futures_util::future::BoxFuture<'static, http::Response<Body>> + Send + Sync>,
    pub(crate) parts: Arc<Parts>,
    pub(crate) engines: Vec<Arc<Engine>>,
}

impl House {
    pub(crate) fn new(text: &str) -> Self {
        let missing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let config = Config::parse("test.yaml", text, &|_| None, &missing).unwrap_or_else(|it| panic!("{it:?}"));
        let policy = compile(&config).unwrap_or_else(|problems| panic!("{problems:?}"));
        let client = Client::new(policy.timeouts.connect).expect("a client");
        let (parts, registry) = (Arc::new(Parts::new(Clock::start())), Registry::default());
        let serving = parts.serving(Snapshot::new(policy, &registry), |_| Arc::default());
        let edge = walk(Arc::new(Live::new(serving)), &parts, &client);
        let walk = move |request| -> futures_util::future::BoxFuture<'static, _> {
            let answering = edge.clone().oneshot(request);
            Box::pin(async move { answering.await.unwrap_or_else(|never| match never {}) })
        };
        Self { walk: Box::new(walk), parts, engines: registry.engines() }
    }

    /// In-flight counts: requests, attempts, queued tokens, decoding, context.
    pub(crate) fn under_way(&self) -> [u64; 5] {
        let now = self.parts.clock.now();
        let sum = |count: &dyn Fn(&Engine) -> u64| self.engines.iter().map(|engine| count(engine)).sum();
        [
            self.parts.metrics.in_flight(),
            sum(&|engine| engine.load.in_flight().into()),
            sum(&|engine| engine.load.view(now).queued_tokens),
            sum(&|engine| engine.load.view(now).decoding.into()),
            sum(&|engine| engine.load.view(now).context_tokens),
        ]
    }
}

/// One request: behaviour of the engine, and how much of the answer the client reads.
#[derive(Clone, Debug)]
struct Step {
    model: &'static str,
    fate: &'static str,
    stream: bool,
    /// Frames of the answer that are read; `None`: the client leaves as soon as the engine has the request.
    frames: Option<usize>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fates = prop::sample::select([&FATES[..], &["half", "declines", "declines-on", "declines-whole"]].concat());
    let model = prop::sample::select(vec!["auto", "careful"]);
    let frames = prop::option::weighted(0.7, 0usize..6);
    let step = (model, fates, any::<bool>(), frames).prop_map(|(model, fate, stream, frames)| {
        let stream = (stream || ["prefill", "answer", "declines-on"].contains(&fate))
            && !["half", "declines-whole"].contains(&fate);
        // Nothing waits for a request that never begins.
        let begins = !ENDLESS.contains(&fate) || fate == "answer";
        let most = if ["answer", "declines-on"].contains(&fate) { 2 } else { 9 };
        Step { model, fate, stream, frames: frames.filter(|_| begins).map(|frames| frames.min(most)) }
    });
    prop::collection::vec(step, 1..8)
}

async fn carry_out(house: &House, mocks: &[Mock; 2], step: &Step, id: String) {
    let request = Request::post("/v1/chat/completions")
        .header("x-fate", step.fate)
        .header("x-request-id", &id)
        .body(Body::from(chat(step.model, step.stream).to_string()))
        .expect("a request");
    let mut answering = (house.walk)(request);
    let Some(frames) = step.frames else {
        let arrived = |seen: &Seen| seen.header("x-request-id") == Some(&id);
        tokio::select! {
            _ = &mut answering => {}
            () = mocks[0].wait_for("it", arrived) => {}
            () = mocks[1].wait_for("it", arrived) => {}
        }
        return;
    };
    let mut body = within("an answer", answering).await.into_body();
    for _ in 0..frames {
        if within("a frame", body.frame()).await.is_none() {
            break;
        }
    }
}

#[test]
fn nothing_is_left_over_whatever_is_begun_failed_or_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mocks, house) = runtime.block_on(async {
        let mocks = [Mock::start(fate).await, Mock::start(fate).await];
        let house = House::new(&policy(&mocks[0], &mocks[1], ""));
        (mocks, house)
    });
    let (begun, over) = (Cell::new(0), Cell::new(0));
    // The same cases in every run.
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let property = |steps: Vec<Step>| {
        runtime.block_on(async {
            let all = steps.iter().map(|step| {
                begun.set(begun.get() + 1);
                carry_out(&house, &mocks, step, format!("step-{}", begun.get()))
            });
            futures_util::future::join_all(all.collect::<Vec<_>>()).await;
        });
        over.set(over.get() + steps.len() as u64);
        // Dropped is over: there is nothing to wait for.
        prop_assert_eq!(house.under_way(), [0; 5]);
        prop_assert_eq!(house.parts.metrics.requests_total(), over.get());
        Ok(())
    };
    runner.run(&steps(), property).unwrap();
}
