//! Cost of a placement decision inside the gateway: hashing a prompt, choosing a backend, bookkeeping of the request. No sockets. The
//! state of the pool under load changes from one decision to the next.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

mod figures;
#[path = "../overhead/machine.rs"]
mod machine;
mod world;

use std::alloc::System;

use clap::Parser;
use signalbox::{prompt::BlockHasher, schedule::prefix::PrefixIndex, types::Prompt};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use self::{figures::Figures, world::World};

/// Counts allocations of the system allocator. The gateway uses jemalloc, so times of steps that allocate differ from the gateway's;
/// times of steps that do not allocate are the same.
#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "decision", about = "Bench of a placement decision and its bookkeeping")]
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
    let rounds = if args.quick || !args.bench { 500 } else { 20_000 };
    println!("{}\n", machine::line(&machine::read()));
    decisions(rounds);
    hashing(rounds / 20);
    prefixes(rounds / 20);
}

/// Places requests in pools of two sizes and tracks them to their ends.
fn decisions(rounds: usize) {
    println!("| backends | prompt | step | p50 | p99 | allocations |\n|---:|---:|---|---:|---:|---:|");
    for (backends, tokens) in
        [(1000, 32_000), (1000, 1_000), (256, 32_000), (64, 32_000), (64, 1_000), (8, 32_000), (8, 1_000)]
    {
        let mut world = World::new(backends, tokens);
        // Warm up until vectors have their capacity and backends their load.
        world.run(4_000);
        for (step, figures) in world.run(rounds) {
            println!("| {backends} | {}k | {step} | {figures} |", tokens / 1_000);
        }
    }
}

/// Hashes prompts of several lengths in one pass each.
fn hashing(rounds: usize) {
    println!("\n| prompt | bytes | p50 | p99 | allocations | GB/s |\n|---:|---:|---:|---:|---:|---:|");
    for kilobytes in [4, 128, 512] {
        let text = world::text(kilobytes as u64, kilobytes << 10);
        let mut figures = Figures::default();
        for _ in 0..rounds {
            figures.measure(|| {
                let mut hasher = BlockHasher::new(b"salt");
                hasher.push(std::hint::black_box(&text));
                hasher.finish()
            });
        }
        let speed = text.len() as f64 / figures.quantile(0.5);
        println!("| {}k tokens | {} KB | {figures} | {speed:.1} |", kilobytes / 4, kilobytes);
    }
}

/// Inserts prompts of 32k tokens into the prefix index, first as new ones, then as known ones.
fn prefixes(rounds: usize) {
    let index = PrefixIndex::new(64 << 20);
    // Capacity for a sixteenth of them, so that old blocks are evicted as in an index that has been in use for long.
    let holder = index.join(rounds as u64 / 16 * (128 << 10));
    let [mut new, mut known, mut confirmed] = [(); 3].map(|()| Figures::default());
    for round in 0..rounds as u64 {
        let hashes: Vec<u64> = world::hashes(round, 128 << 10);
        let prompt = Prompt { bytes: 128 << 10, blocks: &hashes, ..Prompt::default() };
        let reuse = new.measure(|| index.insert(holder, prompt));
        confirmed.measure(|| index.confirm(prompt, &reuse));
        known.measure(|| index.insert(holder, prompt));
    }
    println!("\n| prefix index, 32k tokens | p50 | p99 | allocations |\n|---|---:|---:|---:|");
    for (step, figures) in [("insert, all new", new), ("confirm", confirmed), ("insert, all known", known)] {
        println!("| {step} | {figures} |");
    }
}
