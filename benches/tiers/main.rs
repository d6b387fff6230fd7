//! Accuracy of shares, quality and spend of tiers when traffic shifts, compared with simpler rules, and the cost of a decision.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

mod aims;
mod cost;
mod judge;
#[path = "../overhead/machine.rs"]
mod machine;
mod rules;
mod traffic;

use std::{alloc::System, ops::Range};

use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use self::{judge::SPANS, rules::Rule, traffic::Shape};

/// Counts allocations of the system allocator.
#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "tiers", about = "Bench of the choice of tier")]
struct Args {
    /// Smoke test: two seeds instead of twenty
    #[arg(long)]
    quick: bool,
    /// Share of the large model, in per cent
    #[arg(long, default_value_t = 25.0)]
    share: f64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Concurrent sessions
    #[arg(long, default_value_t = 60)]
    sessions: usize,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
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
    cost::run(if quick { 20_000 } else { 2_000_000 });
}

/// Prints the error of the share after a shift, the loss of quality, and model changes.
fn shares(shapes: &[(&str, Shape)], share: f64, seeds: &Range<u64>) {
    println!("## A share of {:.0} %\n", share * 100.0);
    let spans: Vec<&str> = SPANS.iter().map(|span| span.0).collect();
    println!("| traffic | rule | error at {} | loss | flips |", spans.join(" | "));
    println!("|---|---|{}---:|---:|", "---:|".repeat(SPANS.len()));
    for (traffic, shape) in shapes {
        for (name, rule) in Rule::ALL {
            let (mut errors, mut losses, mut flips) = (vec![Vec::new(); SPANS.len()], Vec::new(), None);
            for seed in seeds.clone() {
                let asks = shape.requests(seed);
                let large = rule.run(&asks, share, seed);
                for (all, error) in errors.iter_mut().zip(judge::errors(&large, share)) {
                    all.push(error * 100.0);
                }
                losses.push(judge::loss(&asks, &large));
                flips = flips.max(judge::flips(&asks, &large).map(|(_, most)| most));
                // The mean of the last seed is representative.
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

/// Prints the loss of ours at ten shares, their mean (the loss in APGR) and the largest error, and the best threshold if it loses
/// anything when it runs over the shift.
fn losses(shapes: &[(&str, Shape)], seeds: &Range<u64>) {
    const SHARES: [f64; 10] = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];
    let rules = Rule::ALL.into_iter().filter(|(_, rule)| matches!(rule, Rule::Ours | Rule::Hindsight));
    println!("## Loss at every share\n");
    println!(
        "| traffic | rule | {} | mean | most off |",
        SHARES.map(|share| format!("{:.0} %", share * 100.0)).join(" | ")
    );
    println!("|---|---|{}---:|---:|", "---:|".repeat(SHARES.len()));
    for (traffic, shape) in shapes {
        for (name, rule) in rules.clone() {
            let found = SHARES.map(|share| {
                let of = |seed| {
                    let asks = shape.requests(seed);
                    let large = rule.run(&asks, share, seed);
                    (judge::loss(&asks, &large), judge::errors(&large, share)[2] * 100.0)
                };
                let (losses, errors): (Vec<f64>, Vec<f64>) = seeds.clone().map(of).unzip();
                (mean(&losses), mean(&errors))
            });
            let (losses, errors) = (found.map(|of| of.0), found.map(|of| of.1));
            if matches!(rule, Rule::Ours) || mean(&losses) > 5e-4 {
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

/// Mean of some numbers; 0 if it differs from 0 by rounding only.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    if mean.abs() < 5e-5 { 0.0 } else { mean }
}
