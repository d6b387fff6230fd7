//! Placement over real HTTP: the gateway's binary in front of simulated engines that are slow, stall, or get traffic with shared prefixes.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::json;
use signalbox::sim::{Profile, Running, start};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::support::{
    client::{self, Sse},
    gateway::{Gateway, Metrics},
    replay::quantile,
    until, untried, within,
};

/// A small engine, some times faster than real ones: 0.05 ms for a prompt token, 2 ms for a step.
fn quick() -> Profile {
    Profile { step_ms: 2.0, prompt_ms: 1.0, prefill_ms: 0.05, sequence_ms: 0.01, ..Profile::small() }
}

/// Starts this many engines.
async fn engines(count: usize, profile: Profile) -> Vec<Running> {
    let mut engines = Vec::with_capacity(count);
    for _ in 0..count {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        engines.push(start(profile, "sim", listen).await.expect("an engine that listens"));
    }
    engines
}

/// A gateway with one pool for each balancing policy, named like it and used as the model.
async fn gateway(pools: &[(&str, &[Running])]) -> Gateway {
    let (mut named, mut text, mut models) = (Vec::new(), Vec::new(), Vec::new());
    for (balance, engines) in pools {
        let name = |number| format!("{balance}-{number}");
        let of = engines.iter().enumerate();
        named.extend(of.map(|(number, engine)| format!("  {}: {{ url: \"{}/v1\" }}", name(number), engine.url())));
        let backends: Vec<String> =
            (0..engines.len()).map(|number| format!("{{ engine: {}, model: sim }}", name(number))).collect();
        text.push(format!("  {balance}: {{ balance: {balance}, backends: [{}] }}", backends.join(", ")));
        models.push(format!("  {balance}: {{ to: {balance} }}"));
    }
    let [named, text, models] = [named, text, models].map(|lines| lines.join("\n"));
    Gateway::start(&format!("engines:\n{named}\npools:\n{text}\nmodels:\n{models}\n")).await
}

/// One request.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// Prefix shared with others.
    family: u64,
    number: u64,
    prompt_tokens: usize,
    output_tokens: u32,
    whole: bool,
}

impl Asked {
    /// A prompt nine tenths of which are its family's prefix.
    fn text(self) -> String {
        let bytes = self.prompt_tokens * 4;
        let shared = bytes * 9 / 10;
        let mut text = format!("family {} ", self.family).repeat(bytes / 9 + 1);
        text.truncate(shared);
        text += &format!("number {} ", self.number).repeat(bytes / 9 + 1);
        text.truncate(bytes);
        text
    }

    fn request(self, http: &reqwest::Client, gateway: &Gateway, model: &str) -> reqwest::RequestBuilder {
        let body = json!({
            "model": model,
            "stream": !self.whole,
            "messages": [{ "role": "user", "content": self.text() }],
        });
        client::json(http.post(format!("{}/chat/completions", gateway.url())), &body)
            .header("x-sim-output-tokens", self.output_tokens)
    }

    /// Reads the whole answer; returns its backend and the time to the first token (without streaming, to the end).
    async fn ask(self, request: reqwest::RequestBuilder) -> (String, Duration) {
        let sent = Instant::now();
        let mut answer = Sse::send(request).await;
        assert_eq!(answer.status, 200);
        answer.chunk().await.expect("an answer with something in it");
        let took = sent.elapsed();
        answer.rest().await;
        (answer.header("x-signalbox-backend").to_owned(), took)
    }
}

/// Clients that send one request after another, and the backends of the last answers.
struct Crowd {
    asking: JoinSet<(String, Duration)>,
    http: reqwest::Client,
    last: VecDeque<String>,
    asked: u64,
}

/// Number of answers over which shares are taken.
const WINDOW: usize = 60;

impl Crowd {
    /// This many clients of `gateway`.
    fn new(clients: usize, gateway: &Gateway) -> Self {
        let mut crowd = Self { asking: JoinSet::new(), http: client::http(), last: VecDeque::new(), asked: 0 };
        for _ in 0..clients {
            crowd.send(gateway);
        }
        crowd
    }

    fn send(&mut self, gateway: &Gateway) {
        self.asked += 1;
        let asked = Asked { family: self.asked, number: 0, prompt_tokens: 1_000, output_tokens: 5, whole: false };
        self.asking.spawn(asked.ask(asked.request(&self.http, gateway, "least_cost")));
    }

    /// Waits for one answer and starts the client's next request.
    async fn next(&mut self, gateway: &Gateway) {
        let (backend, _) = within("an answer", self.asking.join_next()).await.expect("clients").expect("no panic");
        self.last.push_back(backend);
        if self.last.len() > WINDOW {
            self.last.pop_front();
        }
        self.send(gateway);
    }

    /// Share of the last answers from `backend`, relative to a fair share among `backends`.
    fn share(&self, backend: &str, backends: usize) -> f64 {
        let there = self.last.iter().filter(|name| *name == backend).count();
        (there * backends) as f64 / self.last.len().max(1) as f64
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slowed_backend_loses_its_share_within_5_s_and_has_it_back_within_60() {
    let engines = engines(4, quick()).await;
    let gateway = gateway(&[("least_cost", &engines)]).await;
    let mut crowd = Crowd::new(12, &gateway);
    for _ in 0..200 {
        crowd.next(&gateway).await;
    }
    let name = "least_cost-1";
    let before = crowd.share(name, 4);
    engines[1].slow_down(4.0);
    let slowed = Instant::now();
    crowd.last.clear();
    while crowd.last.len() < WINDOW || crowd.share(name, 4) >= 1.0 / 3.0 {
        assert!(slowed.elapsed() < Duration::from_secs(5), "{} of its fair share after 5 s", crowd.share(name, 4));
        crowd.next(&gateway).await;
    }
    assert!(before > 0.5, "{before} of its fair share before");
    engines[1].slow_down(1.0);
    let recovered = Instant::now();
    crowd.last.clear();
    while crowd.last.len() < WINDOW || crowd.share(name, 4) < 2.0 / 3.0 {
        assert!(recovered.elapsed() < Duration::from_mins(1), "{} of its fair share after 60 s", crowd.share(name, 4));
        crowd.next(&gateway).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_backend_gets_nothing_more_before_its_first_request_ends() {
    let engines = engines(3, quick()).await;
    let gateway = gateway(&[("least_cost", &engines)]).await;
    let mut crowd = Crowd::new(9, &gateway);
    for _ in 0..150 {
        crowd.next(&gateway).await;
    }
    engines[2].slow_down(1e6);
    let stalled = Instant::now();
    // Those that have ended there were hedged, and let go.
    let label = [r#"backend="least_cost-2""#];
    let sent = async || {
        let metrics = gateway.metrics().await;
        metrics.sum("signalbox_backend_in_flight", &label) + metrics.sum("signalbox_backend_attempts_total", &label)
    };
    let before = sent().await;
    for _ in 0..150 {
        crowd.next(&gateway).await;
    }
    let noticed = sent().await;
    let waiting = gateway.metrics().await.sum("signalbox_backend_in_flight", &label);
    crowd.last.clear();
    for _ in 0..150 {
        crowd.next(&gateway).await;
    }
    assert!(noticed - before < 9.0, "{} of nine clients went there before it showed", noticed - before);
    // It is tried again where 10 s have passed without a sign of life; by more than one, should they come at the same moment.
    let tries = 3.0 * (stalled.elapsed().as_secs_f64() / 10.0).floor();
    assert!(sent().await <= noticed + tries, "{} were sent there since", sent().await - noticed);
    // Those that wait there are continued elsewhere after 10 s, under the name of the engine that began them.
    let ended = crowd.last.iter().filter(|name| *name == "least_cost-2").count();
    assert!(ended as f64 <= waiting, "{ended} have ended there, of {waiting} that had begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_knows_in_tokens_what_another_one_put_on_its_engines() {
    // Two milliseconds for a token: the other one's prompts take half a minute.
    let engines = engines(2, Profile { prefill_ms: 2.0, chunk_tokens: 64, ..quick() }).await;
    let (other, gateway) =
        (gateway(&[("least_cost", &engines[..1])]).await, gateway(&[("least_cost", &engines)]).await);
    gateway
        .wait_metrics("a reading of both engines", |metrics| {
            metrics.sum("signalbox_engine_scrape_age_seconds", &[]) > 0.0
                && metrics.sum("signalbox_engine_up", &[]) >= 2.0
        })
        .await;
    let http = client::http();
    let mut theirs = JoinSet::new();
    for number in 0..4 {
        let asked = Asked { family: 100 + number, number, prompt_tokens: 4_000, output_tokens: 2, whole: false };
        theirs.spawn(asked.request(&http, &other, "least_cost").send());
    }
    let url = gateway.at("/v1/route/explain");
    let small = json!({ "model": "least_cost", "messages": [{ "role": "user", "content": "short" }] });
    let mut seen = json!(null);
    until("their tokens", async || {
        seen = client::post(&url, &small).await.json()["pools"][0]["candidates"].clone();
        seen[0]["foreign"].as_u64() >= Some(2) && seen[0]["queued_tokens"].as_u64() > Some(500)
    })
    .await;
    assert_eq!((&seen[1]["foreign"], &seen[1]["queued_tokens"]), (&json!(0), &json!(0)));
    assert!(seen[0]["cost"].as_f64() > seen[1]["cost"].as_f64(), "{seen}");
}

/// Traffic for each policy: a fifth has a long prompt, and some have long answers, which are many requests and little work.
fn skewed(count: u64, whole: f64) -> Vec<(Duration, Asked)> {
    let mut dice = fastrand::Rng::with_seed(11);
    let mut at = 0.0;
    let asked = (0..count).map(|number| {
        at += -(1.0 - dice.f64()).ln() / 26.0;
        let (prompt_tokens, output_tokens) = match dice.u32(0..10) {
            0 | 1 => (3_000, 2),
            2..5 => (60, 25),
            _ => (60, 3),
        };
        // Long prompts begin with one of some documents.
        let family = if prompt_tokens > 100 { dice.u64(0..16) } else { 100 + number };
        let whole = dice.f64() < whole;
        (Duration::from_secs_f64(at), Asked { family, number, prompt_tokens, output_tokens, whole })
    });
    asked.collect()
}

/// Mean and 95th percentile of TTFT over the streams.
async fn play(gateway: &Gateway, balance: &str, all: &[(Duration, Asked)]) -> [f64; 2] {
    let (http, begun) = (client::http(), Instant::now());
    let mut asking = JoinSet::new();
    for &(at, asked) in all {
        let request = asked.request(&http, gateway, balance);
        sleep_until(begun + at).await;
        asking.spawn(async move { (asked, asked.ask(request).await.1) });
    }
    let reported = asking.join_all().await;
    let mut times: Vec<Duration> =
        reported.into_iter().filter(|(asked, _)| !asked.whole).map(|(_, took)| took).collect();
    let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len() as f64;
    [mean, quantile(&mut times, 0.95).as_secs_f64()]
}

/// Mean TTFT by the engines' own account, on the model's clock. A busy machine adds to the clients' times, equally for every policy; to this
/// it adds little.
async fn mean_ttft(engines: &[Running]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for engine in engines {
        let metrics = Metrics::parse(&client::get(&format!("{}/metrics", engine.url())).await.text());
        sum += metrics.sum("vllm:time_to_first_token_seconds_sum", &[]);
        count += metrics.sum("vllm:time_to_first_token_seconds_count", &[]);
    }
    assert!(count > 0.0, "engines tell of their times");
    sum / count
}

const POLICIES: [&str; 3] = ["least_cost", "least_request", "round_robin"];

#[tokio::test(flavor = "multi_thread")]
async fn least_cost_answers_sooner_where_prompts_differ_whether_streamed_or_whole() {
    for whole in [0.0, 0.5] {
        // The model's clock is the machine's: where that stands still for a while, predictions of all are worth nothing.
        let mut plays = Vec::new();
        while plays.last().is_none_or(|means: &[f64; 3]| means[0] >= 0.9 * means[1].min(means[2])) {
            assert!(plays.len() < 3, "{whole} whole: {POLICIES:?}, three plays: {plays:.3?} s at the engines");
            plays.push(played(whole).await);
        }
    }
}

/// Runs the same traffic through each policy at once, each on engines of its own; mean TTFT at the engines.
async fn played(whole: f64) -> [f64; 3] {
    let profile = Profile { step_ms: 10.0, prefill_ms: 0.1, ..quick() };
    let sets = [engines(3, profile).await, engines(3, profile).await, engines(3, profile).await];
    let pools: Vec<(&str, &[Running])> = POLICIES.into_iter().zip(sets.iter().map(Vec::as_slice)).collect();
    let gateway = gateway(&pools).await;
    let all = skewed(140, whole);
    let play = |name| play(&gateway, name, &all);
    let (ours, fewest, turns) = tokio::join!(play(POLICIES[0]), play(POLICIES[1]), play(POLICIES[2]));
    untried(&format!("{whole} whole, mean and p95 of TTFT in s: {ours:.3?}, {fewest:.3?}, {turns:.3?}"));
    [mean_ttft(&sets[0]).await, mean_ttft(&sets[1]).await, mean_ttft(&sets[2]).await]
}
