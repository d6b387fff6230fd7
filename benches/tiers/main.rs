//! How well the tiers' shares, quality and spend are held when traffic shifts, beside simpler rules, and what a decision costs.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench tells on stdout, and ends where it cannot go on")]

mod aims;
mod judge;
#[path = "../overhead/machine.rs"]
mod machine;
mod players;
mod prices;
mod traffic;

use std::{alloc::System, ops::Range};

use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use self::{judge::SPANS, players::Player, traffic::Shape};

/// Counts what is asked of the system's allocator.
#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What the command line says.
#[derive(clap::Parser)]
#[command(name = "tiers", about = "Bench of the choice of tier")]
struct Args {
    /// Two seeds instead of twenty: shows that it works, measures little
    #[arg(long)]
    quick: bool,
    /// The share of the large model, in per cent
    #[arg(long, default_value_t = 25.0)]
    share: f64,
    /// The first seed: others than 0 show what the ones in the tables owe to chance
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Sessions that go on at the same time
    #[arg(long, default_value_t = 60)]
    sessions: usize,
    /// Given by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let quick = args.quick || !args.bench;
    let seeds = args.seed..args.seed + if quick { 2 } else { 20 };
    println!("{}; seeds {seeds:?}\n", machine::line(&machine::read()));
    let shapes = traffic::shapes(args.sessions);
    shares(&shapes, args.share / 100.0, &seeds);
    losses(&shapes, &seeds);
    aims::run(&shapes, &seeds);
    prices::run(if quick { 20_000 } else { 2_000_000 });
}

/// The share after a shift, its price in quality, and flips.
fn shares(shapes: &[(&str, Shape)], share: f64, seeds: &Range<u64>) {
    println!("### A share of {:.0} %\n", share * 100.0);
    let spans: Vec<&str> = SPANS.iter().map(|span| span.0).collect();
    println!("| traffic | rule | error at {} | loss | flips |", spans.join(" | "));
    println!("|---|---|{}---:|---:|", "---:|".repeat(SPANS.len()));
    for (traffic, shape) in shapes {
        for (name, player) in Player::ALL {
            let (mut errors, mut losses, mut flips) = (vec![Vec::new(); SPANS.len()], Vec::new(), None);
            for seed in seeds.clone() {
                let asks = shape.requests(seed);
                let large = player.play(&asks, share, seed);
                for (all, error) in errors.iter_mut().zip(judge::errors(&large, share)) {
                    all.push(error * 100.0);
                }
                losses.push(judge::loss(&asks, &large));
                flips = flips.max(judge::flips(&asks, &large).map(|(_, most)| most));
                // The mean of the last seed stands for all: it hardly differs.
                if seed + 1 == seeds.end
                    && let Some((mean, _)) = judge::flips(&asks, &large)
                {
                    let most = flips.unwrap_or_default();
                    row(traffic, name, &errors, &losses, &format!("{mean:.2}, most {most}"));
                }
            }
            if flips.is_none() {
                row(traffic, name, &errors, &losses, "");
            }
        }
    }
    println!();
}

/// What ours loses at ten shares, whose mean is what it costs in APGR, and how far it is off them at most; beside it the best threshold,
/// where even that loses something when it is played over the shift.
fn losses(shapes: &[(&str, Shape)], seeds: &Range<u64>) {
    const SHARES: [f64; 10] = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];
    let rules = Player::ALL.into_iter().filter(|(_, player)| matches!(player, Player::Ours | Player::Hindsight));
    println!("### What is lost at every share\n");
    println!(
        "| traffic | rule | {} | mean | most off |",
        SHARES.map(|share| format!("{:.0} %", share * 100.0)).join(" | ")
    );
    println!("|---|---|{}---:|---:|", "---:|".repeat(SHARES.len()));
    for (traffic, shape) in shapes {
        for (name, player) in rules.clone() {
            let found = SHARES.map(|share| {
                let of = |seed| {
                    let asks = shape.requests(seed);
                    let large = player.play(&asks, share, seed);
                    (judge::loss(&asks, &large), judge::errors(&large, share)[2] * 100.0)
                };
                let (losses, errors): (Vec<f64>, Vec<f64>) = seeds.clone().map(of).unzip();
                (mean(&losses), mean(&errors))
            });
            let (losses, errors) = (found.map(|of| of.0), found.map(|of| of.1));
            if matches!(player, Player::Ours) || mean(&losses) > 5e-4 {
                let columns = losses.map(|loss| format!("{loss:.4}")).join(" | ");
                let most = errors.into_iter().fold(0.0, f64::max);
                println!("| {traffic} | {name} | {columns} | {:.4} | {most:.2} |", mean(&losses));
            }
        }
    }
    println!();
}

fn row(traffic: &str, rule: &str, errors: &[Vec<f64>], losses: &[f64], flips: &str) {
    let errors: Vec<String> =
        errors.iter().map(|all| format!("{:.2} ({:.2})", mean(all), all.iter().copied().fold(0.0, f64::max))).collect();
    println!("| {traffic} | {rule} | {} | {:.4} | {flips} |", errors.join(" | "), mean(losses));
}

/// The mean of some numbers, without what is less than nothing by rounding alone.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    if mean.abs() < 5e-5 { 0.0 } else { mean }
}
