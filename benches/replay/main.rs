//! Policies priced by `signalbox replay` and then run: error of each figure, on engines that are not `replay`'s own models: simulated ones
//! with other constants behind real HTTP, and llama.cpp servers.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

#[path = "../overhead/machine.rs"]
mod machine;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::net::{Ipv4Addr, SocketAddr};

use clap::Parser;
use signalbox::sim::{Profile, Running, start};

use self::support::{
    engine::{Engine, Model},
    journal_replay::{Asked, Compared, compare, traffic},
};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "replay", about = "Prices of signalbox replay against real runs")]
struct Args {
    /// Requests per run
    #[arg(long, default_value_t = 600)]
    requests: usize,
    /// Requests per second for llama.cpp
    #[arg(long, default_value_t = 3.0)]
    rate: f64,
    /// Only cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) nothing is run
    #[arg(long, hide = true)]
    bench: bool,
}

/// A change of a policy, and its traffic.
struct Case {
    name: &'static str,
    was: String,
    new: String,
    traffic: Vec<Asked>,
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    if !args.bench {
        return;
    }
    println!("{}\n", machine::line(&machine::read()));
    println!(
        "| engines | change | share off, points | TTFT p50 priced / was, ms | off | p95 priced / was, ms | TPOT p50 priced / was, ms | off | cost priced / was, USD | off |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    let simulated = simulated().await;
    let cases = cases(&simulated.each_ref().map(|engine| format!("{}/v1", engine.url())), args.requests, 6.0, 1200);
    play("simulated", cases, &args.only).await;
    let real = [2, 2, 4].map(|slots| Engine::start(Model::Chat, slots, slots * 4096));
    let [one, two, big] = real;
    let (Some(one), Some(two), Some(big)) = (one.await, two.await, big.await) else { return };
    let urls = [&one, &two, &big].map(Engine::url);
    play("llama.cpp", self::cases(&urls, args.requests, args.rate, 900), &args.only).await;
}

/// Starts two different small engines and a large one; each deviates from its formula by more than usual.
async fn simulated() -> [Running; 3] {
    let small = Profile {
        step_ms: 9.0,
        sequence_ms: 0.5,
        context_ms_per_1k: 0.3,
        prompt_ms: 11.0,
        prefill_ms: 0.13,
        slowdown_tokens: 9_000.0,
        chunk_tokens: 512,
        jitter: 0.15,
        ..Profile::small()
    };
    let slower = Profile { step_ms: 13.0, prefill_ms: 0.2, ..small };
    let large =
        Profile { step_ms: 17.0, sequence_ms: 0.9, prompt_ms: 21.0, prefill_ms: 0.16, jitter: 0.1, ..Profile::large() };
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let begin = async |profile| start(profile, "sim", at).await.expect("an engine");
    [begin(small).await, begin(slower).await, begin(large).await]
}

fn cases(urls: &[String; 3], requests: usize, per_second: f64, longest: usize) -> Vec<Case> {
    let traffic = || traffic(requests, per_second, longest, 11);
    let rules = |long: u64| {
        format!("[{{ name: long, when: \"prompt.tokens > {long}\", to: large }}, {{ name: short, to: small }}]")
    };
    let (two, one) = ("{ engine: one }, { engine: two }", "{ engine: one }");
    let was = || policy(urls, two, "", &rules(250));
    let case = |name, new| Case { name, was: was(), new, traffic: traffic() };
    vec![
        case("long from 700 tokens on, not 250", policy(urls, two, "", &rules(700))),
        case("one small engine, not two", policy(urls, one, "", &rules(250))),
        case("all to the small pool", policy(urls, two, "", "[{ name: all, to: small }]")),
        case("in turn, not by cost", policy(urls, two, "balance: round_robin, ", &rules(250))),
        case(
            "two at once on each small engine, the rest spills",
            policy(urls, two, "", "[{ name: all, to: small, fallback: [large] }]").replacen(
                "/v1\" }",
                "/v1\", max_concurrency: 2 }",
                2,
            ),
        ),
    ]
}

fn policy(urls: &[String; 3], small: &str, balance: &str, rules: &str) -> String {
    let [one, two, big] = urls;
    format!(
        "engines:\n  one: {{ url: \"{one}\" }}\n  two: {{ url: \"{two}\" }}\n  big: {{ url: \"{big}\" }}\n\
         pools:\n  small: {{ {balance}model: sim, price: {{ input: 0.2, cached_input: 0.1, output: 0.6 }}, backends: [{small}] }}\n\
         \x20 large: {{ model: sim, price: {{ input: 2, cached_input: 1, output: 8 }}, backends: [{{ engine: big }}] }}\n\
         models:\n  auto: {{ routes: {rules} }}\njournal: {{ path: journal.jsonl, facts: on }}\n"
    )
}

async fn play(engines: &str, cases: Vec<Case>, only: &str) {
    for Case { name, was, new, traffic } in cases {
        if !name.contains(only) && !engines.contains(only) {
            continue;
        }
        eprintln!("{engines}: {name}");
        report(engines, name, &compare(&was, &new, &traffic, "5").await);
    }
}

fn report(engines: &str, name: &str, compared: &Compared) {
    let both = |path: &str, scale: f64, digits: usize| {
        let (priced, happened) = compared.both(path);
        format!("{:.digits$} / {:.digits$}", priced * scale, happened * scale)
    };
    let off = |path: &str| {
        let (priced, happened) = compared.both(path);
        format!("{:+.1} %", (priced / happened - 1.0) * 100.0)
    };
    let shares = compared.share_off("small").max(compared.share_off("large"));
    println!(
        "| {engines} | {name} | {shares:.1} | {} | {} | {} | {} | {} | {} | {} |",
        both("/ttft_s/p50", 1e3, 0),
        off("/ttft_s/p50"),
        both("/ttft_s/p95", 1e3, 0),
        both("/tpot_s/p50", 1e3, 1),
        off("/tpot_s/p50"),
        both("/cost_usd", 1.0, 4),
        off("/cost_usd"),
    );
}
