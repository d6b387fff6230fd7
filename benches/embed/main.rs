//! Cost of the built-in embedders: time per text, construction time, memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

#[path = "../overhead/machine.rs"]
mod machine;

use std::{hint::black_box, time::Instant};

use clap::Parser;
use signalbox::{cache::Embedder, embed};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "embed", about = "Bench of the built-in embedders")]
struct Args {
    /// Smoke test: a second instead of several
    #[arg(long)]
    quick: bool,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let rounds = if args.quick || !args.bench { 1 } else { 200 };
    println!("{}\n", machine::line(&machine::read()));
    println!("| embedder | cold | resident | tokens | p50 | p99 | CPU |\n|---|---:|---:|---:|---:|---:|---:|");
    measure("recall", || embed::recall().unwrap(), rounds);
    measure("decider", || embed::decider().unwrap(), rounds);
}

fn measure(name: &str, make: impl Fn() -> std::sync::Arc<dyn Embedder>, rounds: usize) {
    let (before, started) = (resident(), Instant::now());
    let embedder = make();
    black_box(embedder.embed(&["the first text"]).unwrap());
    let (cold, more) = (started.elapsed(), resident().saturating_sub(before));
    println!("| {name} | {:.0} ms | {:.1} MB | | | | |", cold.as_secs_f64() * 1e3, more as f64 / 1024.0);
    for tokens in [12, 64, 256] {
        // Common words are one token each; the sentence model adds a begin and an end token.
        let words = ["how", "can", "the", "old", "house", "by", "river", "be", "sold", "this", "year", "again"];
        let text = words.iter().cycle().take(tokens - 2).copied().collect::<Vec<_>>().join(" ");
        let begun_cpu = cpu_seconds();
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                let started = Instant::now();
                black_box(embedder.embed(&[&text]).unwrap());
                started.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        let cpu = (cpu_seconds() - begun_cpu) / rounds as f64 * 1e6;
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("| {name} | | | {tokens} | {:.0} µs | {:.0} µs | {cpu:.0} µs |", at(0.5), at(0.99));
    }
}

/// Resident memory of this process in kilobytes; 0 if `/proc` is not available.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Processor time of this thread in seconds; 0 if `/proc` is not available.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
