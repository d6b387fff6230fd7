//! Placement on real engines: two different llama.cpp servers, one of them with foreign load, and the same traffic through each policy in
//! turn.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

#[path = "../overhead/machine.rs"]
mod machine;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use self::support::{
    client::{self, Sse},
    engine::{Engine, Model},
    gateway::Gateway,
    replay::quantile,
};

/// Policies, ours first.
const POLICIES: [&str; 3] = ["least_cost", "least_request", "round_robin"];
/// Slots of the two engines, and context tokens per slot.
const SLOTS: [u32; 2] = [2, 4];
const CONTEXT: u32 = 4096;
/// The engine with foreign load, and its number of concurrent foreign requests.
const SHARED: usize = 1;
const FOREIGN: usize = 3;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "engines", about = "Placement on real llama.cpp engines")]
struct Args {
    /// Rounds; each policy runs once per round
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Requests per turn
    #[arg(long, default_value_t = 60)]
    requests: usize,
    /// Requests per second
    #[arg(long, default_value_t = 6.0)]
    rate: f64,
    /// Copy the gateway's journal to this file
    #[arg(long)]
    journal: Option<PathBuf>,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is one short round
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let (rounds, requests) = if args.bench { (args.rounds, args.requests) } else { (1, 6) };
    let [one, two] = SLOTS.map(|slots| Engine::start(Model::Chat, slots, slots * CONTEXT));
    let (Some(one), Some(two)) = (one.await, two.await) else { return };
    let engines = [one, two];
    let gateway = Gateway::start(&policy(&engines, args.journal.is_some())).await;
    let mut foreign = JoinSet::new();
    for number in 0..FOREIGN {
        foreign.spawn(foreign_load(engines[SHARED].url(), number));
    }
    let mut turns: [Vec<Turn>; 3] = Default::default();
    for round in 0..rounds {
        for place in 0..POLICIES.len() {
            // Alternating order, so that drift favours no policy.
            let at = if round % 2 == 0 { place } else { POLICIES.len() - 1 - place };
            let turn = play(&gateway, at, round, requests, args.rate).await;
            eprintln!(
                "round {round}, {}: p50 {:.0?}, p95 {:.0?}, at {:?}",
                POLICIES[at], turn.p50, turn.p95, turn.answers
            );
            turns[at].push(turn);
        }
    }
    report(&turns);
    if let Some(kept) = args.journal {
        std::fs::copy(gateway.dir().join("journal.jsonl"), kept).expect("a copy of the journal");
    }
}

/// Returns a policy file with the same two engines in a pool per policy.
fn policy(engines: &[Engine; 2], journal: bool) -> String {
    let named: Vec<String> = engines
        .iter()
        .zip(["one", "two"])
        .map(|(engine, name)| format!("  {name}: {{ url: \"{}\" }}", engine.url()))
        .collect();
    let pools = POLICIES
        .map(|name| format!("  {name}: {{ balance: {name}, backends: [{{ engine: one }}, {{ engine: two }}] }}"));
    let models = POLICIES.map(|name| format!("  {name}: {{ to: {name} }}"));
    let journal = if journal { "journal: { path: journal.jsonl }\n" } else { "" };
    format!("engines:\n{}\npools:\n{}\nmodels:\n{}\n{journal}", named.join("\n"), pools.join("\n"), models.join("\n"))
}

/// Results of a policy's turn.
struct Turn {
    p50: Duration,
    p95: Duration,
    mean: Duration,
    /// Number of answers by engine.
    answers: [usize; 2],
}

/// Sends the round's requests at their times. They are the same for each policy except for a few words at the beginning, so that no
/// policy finds prefixes cached that another one computed.
async fn play(gateway: &Gateway, policy: usize, round: usize, requests: usize, rate: f64) -> Turn {
    let mut dice = fastrand::Rng::with_seed(round as u64);
    let (http, started) = (client::http(), Instant::now());
    let (mut asking, mut at) = (JoinSet::new(), 0.0);
    for number in 0..requests {
        at += -(1.0 - dice.f64()).ln() / rate;
        let (words, tokens) = match dice.u32(0..10) {
            0..3 => (600 + dice.usize(0..600), 4),
            3..6 => (12, 60),
            _ => (12, 8),
        };
        let text = format!("{policy} {round} {number}: {}", "lamps ".repeat(words));
        let request = ask(&http, &gateway.url(), POLICIES[policy], &text, tokens);
        sleep_until(started + Duration::from_secs_f64(at)).await;
        asking.spawn(async move {
            let sent = Instant::now();
            let mut answer = Sse::send(request).await;
            assert_eq!(answer.status, 200, "the engines answer");
            answer.chunk().await.expect("the answer has content");
            let took = sent.elapsed();
            answer.rest().await;
            (took, usize::from(answer.header("x-signalbox-backend").starts_with("two")))
        });
    }
    let answers = asking.join_all().await;
    let mut times: Vec<Duration> = answers.iter().map(|(took, _)| *took).collect();
    let second = answers.iter().filter(|(_, engine)| *engine == 1).count();
    Turn {
        p50: quantile(&mut times, 0.5),
        p95: quantile(&mut times, 0.95),
        mean: times.iter().sum::<Duration>() / times.len().max(1) as u32,
        answers: [answers.len() - second, second],
    }
}

/// Sends foreign requests directly to an engine, one after another without end.
async fn foreign_load(url: String, number: usize) {
    for turn in 0.. {
        // A new client each time: llama.cpp closes connections after streams without notice.
        let http = client::http();
        let text = format!("elsewhere {number} {turn}: {}", "rails ".repeat(300));
        Sse::send(ask(&http, &url, "any", &text, 150)).await.rest().await;
    }
}

fn ask(http: &reqwest::Client, url: &str, model: &str, text: &str, tokens: u32) -> reqwest::RequestBuilder {
    let body: Value = json!({
        "model": model, "stream": true, "max_tokens": tokens, "ignore_eos": true,
        "messages": [{ "role": "user", "content": text }],
    });
    client::json(http.post(format!("{url}/chat/completions")), &body)
}

/// Prints medians over rounds with their ranges, and the ratios of ours to each policy, round by round.
fn report(turns: &[Vec<Turn>; 3]) {
    println!("{}\n", machine::line(&machine::read()));
    println!(
        "| policy | TTFT mean | p50 | p95 | ours ÷ it, mean | p50 | p95 | answers by engine |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    let figures: [fn(&Turn) -> f64; 3] =
        [|turn| turn.mean.as_secs_f64(), |turn| turn.p50.as_secs_f64(), |turn| turn.p95.as_secs_f64()];
    for (name, of) in POLICIES.iter().zip(turns) {
        let times = figures.map(|figure| spread(of.iter().map(|turn| figure(turn) * 1e3), "ms"));
        let ratios =
            figures.map(|figure| spread(turns[0].iter().zip(of).map(|(ours, its)| figure(ours) / figure(its)), ""));
        let answers = [0, 1].map(|engine| of.iter().map(|turn| turn.answers[engine]).sum::<usize>());
        println!("| {name} | {} | {} | {} : {} |", times.join(" | "), ratios.join(" | "), answers[0], answers[1]);
    }
}

/// Formats the median and range of some figures.
fn spread(figures: impl Iterator<Item = f64>, unit: &str) -> String {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let digits = if unit.is_empty() { 2 } else { 0 };
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    format!("{:.digits$} {unit} ({least:.digits$} to {most:.digits$})", sorted[sorted.len() / 2])
}
