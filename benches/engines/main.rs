//! Placement on real engines: two different llama.cpp servers, one of them with foreign load, and the same traffic through each policy and
//! router in turn.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

#[path = "../overhead/machine.rs"]
mod machine;
mod report;
mod routers;
#[path = "../../tests/support/mod.rs"]
mod support;
mod traffic;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use self::{
    report::{Answered, Limits, Turn},
    routers::Router,
    support::{
        client::{self, Sse},
        engine::{Engine, Model},
        gateway::Gateway,
    },
    traffic::{Planned, Traffic, plan},
};

/// Pools of the gateway: `objectives` is `least_cost` that knows the limits.
const POOLS: [&str; 4] = ["objectives", "least_cost", "least_request", "round_robin"];
/// Slots of the two engines, and context tokens per slot.
const SLOTS: [u32; 2] = [2, 4];
const CONTEXT: u32 = 4096;
/// The engine with foreign load.
const SHARED: usize = 1;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "engines", about = "Placement on real llama.cpp engines")]
struct Args {
    /// Rounds; each contender runs once per round
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Requests per turn
    #[arg(long, default_value_t = 60)]
    requests: usize,
    /// Requests per second
    #[arg(long, default_value_t = 6.0)]
    rate: f64,
    /// Kind of traffic
    #[arg(long, value_enum, default_value = "mix")]
    traffic: Traffic,
    /// Limit for the time to first token, in milliseconds
    #[arg(long, default_value_t = 450)]
    ttft: u64,
    /// Limit for the mean time per later token, in milliseconds
    #[arg(long, default_value_t = 8)]
    tpot: u64,
    /// Concurrent foreign requests at the second engine
    #[arg(long, default_value_t = 3)]
    foreign: usize,
    /// Play only contenders whose names contain one of these, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seed of the first round's traffic
    #[arg(long, default_value_t = 0)]
    seed: u64,
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
    let limits = Limits { ttft: Duration::from_millis(args.ttft), tpot: Duration::from_millis(args.tpot) };
    let [one, two] = SLOTS.map(|slots| Engine::start(Model::Chat, slots, slots * CONTEXT));
    let (Some(one), Some(two)) = (one.await, two.await) else { return };
    let engines = [one, two];
    let gateway = Gateway::start(&policy(&engines, limits, args.journal.is_some())).await;
    let routers = Router::start_all(&engines).await;
    let mut contenders: Vec<(&str, String)> = POOLS.iter().map(|pool| (*pool, gateway.url())).collect();
    contenders.extend(routers.iter().map(|router| (router.name, router.url())));
    contenders.retain(|(name, _)| args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str())));
    let received = Arc::new(AtomicU64::new(0));
    let mut foreign = JoinSet::new();
    for number in 0..args.foreign {
        foreign.spawn(foreign_load(engines[SHARED].url(), number, Arc::clone(&received)));
    }
    let mut turns: Vec<(&'static str, Vec<Turn>)> = contenders.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for round in 0..rounds {
        for place in 0..contenders.len() {
            // Alternating order, so that drift favours none.
            let at = if round % 2 == 0 { place } else { contenders.len() - 1 - place };
            let (name, url) = &contenders[at];
            let mark = format!("{at} {} {round}", args.seed);
            let planned = plan(args.traffic, &mark, args.seed + round as u64, requests, args.rate);
            let (started, before) = (Instant::now(), received.load(Ordering::Relaxed));
            let answers = play(url, name, planned).await;
            let tokens = received.load(Ordering::Relaxed) - before;
            let turn = Turn::of(&answers, limits, tokens as f64 / started.elapsed().as_secs_f64());
            eprintln!("round {round}, {name}: {:.1} % within, p50 {:.0?}, p95 {:.0?}", turn.within, turn.p50, turn.p95);
            turns[at].1.push(turn);
        }
    }
    report::print(&turns, limits);
    if let Some(kept) = args.journal {
        std::fs::copy(gateway.dir().join("journal.jsonl"), kept).expect("a copy of the journal");
    }
}

/// Returns a policy file with the same two engines in each pool.
fn policy(engines: &[Engine; 2], limits: Limits, journal: bool) -> String {
    let named: Vec<String> = engines
        .iter()
        .zip(["one", "two"])
        .map(|(engine, name)| format!("  {name}: {{ url: \"{}\" }}", engine.url()))
        .collect();
    let pools = POOLS.map(|name| {
        let how = match name {
            "objectives" => format!(
                "objectives: [{{ ttft: {{ p95: {}ms }} }}, {{ tpot: {{ p95: {}ms }} }}]",
                limits.ttft.as_millis(),
                limits.tpot.as_millis()
            ),
            balance => format!("balance: {balance}"),
        };
        format!("  {name}: {{ {how}, backends: [{{ engine: one }}, {{ engine: two }}] }}")
    });
    let models = POOLS.map(|name| format!("  {name}: {{ to: {name} }}"));
    let journal = if journal { "journal: { path: journal.jsonl }\n" } else { "" };
    format!("engines:\n{}\npools:\n{}\nmodels:\n{}\n{journal}", named.join("\n"), pools.join("\n"), models.join("\n"))
}

/// Sends the requests at their times, whatever is still being answered.
async fn play(url: &str, model: &str, planned: Vec<Planned>) -> Vec<Answered> {
    let (http, started) = (client::http(), Instant::now());
    let mut asking = JoinSet::new();
    for Planned { at, messages, tokens } in planned {
        let request = ask(&http, url, model, &json!(messages), tokens);
        sleep_until(started + Duration::from_secs_f64(at)).await;
        asking.spawn(async move {
            let sent = Instant::now();
            let mut answer = Sse::send(request).await;
            assert_eq!(answer.status, 200, "the engines answer");
            answer.chunk().await.expect("the answer has content");
            let first = Instant::now();
            let (_, end) = answer.rest().await;
            assert!(matches!(end, client::End::Clean), "answers end well: {end:?}");
            let (ttft, tpot) = (first.duration_since(sent), first.elapsed() / tokens.saturating_sub(1).max(1));
            let engine = match answer.header("x-signalbox-backend") {
                "" => None,
                name => Some(usize::from(name.starts_with("two"))),
            };
            Answered { ttft, tpot, engine }
        });
    }
    asking.join_all().await
}

/// Sends foreign requests directly to an engine, one after another without end, and counts their events in `received`.
async fn foreign_load(url: String, number: usize, received: Arc<AtomicU64>) {
    for turn in 0.. {
        // A new client each time: llama.cpp closes connections after streams without notice.
        let http = client::http();
        let text = format!("elsewhere {number} {turn}: {}", "rails ".repeat(300));
        let messages = json!([{ "role": "user", "content": text }]);
        let mut answer = Sse::send(ask(&http, &url, "any", &messages, 150)).await;
        while answer.event().await.is_ok() {
            received.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn ask(http: &reqwest::Client, url: &str, model: &str, messages: &Value, tokens: u32) -> reqwest::RequestBuilder {
    let body =
        json!({ "model": model, "stream": true, "max_tokens": tokens, "ignore_eos": true, "messages": messages });
    client::json(http.post(format!("{url}/chat/completions")), &body)
}
