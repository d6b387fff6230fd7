//! Placement policies compared on simulated engines on a virtual clock: drawn scenarios and recorded traces.
//!
//! Environment: `SIGNALBOX_BENCH_SEEDS` (number of draws, 40; traces take at most 3), `SIGNALBOX_BENCH_CHOOSE` (1 takes seeds to
//! choose a design by, else seeds to report it on), `SIGNALBOX_BENCH_ONLY` and `SIGNALBOX_BENCH_POLICIES` (parts of names,
//! separated by `|`; ours always takes part), `SIGNALBOX_BENCH_GATEWAYS` (gateways in every draw), `SIGNALBOX_BENCH_ROWS` (a file for the
//! figures of every play), `SIGNALBOX_BENCH_UPDATE` (1 writes `benches/results/scheduler.md`) and
//! `SIGNALBOX_DATA` (folder of the traces).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

mod account;
mod binding;
mod dice;
mod learner;
#[path = "../overhead/machine.rs"]
mod machine;
mod ours;
mod peers;
mod plays;
mod policies;
mod report;
mod results;
mod rules;
mod scenario;
mod simple;
mod traces;
mod workload;

use std::{env, io, ops::Range, path::Path, process::ExitCode};

use signalbox::sim::{parallel::parallel_map, trace::Arrival};

use self::{
    plays::play,
    policies::{OURS, PLAIN, POLICIES, Policy},
    results::{Results, Row},
    scenario::{Play, drawn, recorded},
    traces::{TRACES, Trace},
};

/// Seeds of a set: the first set is for choosing, the second for reporting.
const SET: u64 = 100_000;

/// Most seeds of a recorded trace.
const TRACE_SEEDS: u64 = 3;

/// Name that selects the drawn scenarios.
const DRAWN: &str = "drawn";

/// The parts of the bench that the environment selects.
struct Selection {
    choosing: bool,
    seeds: Range<u64>,
    draws: bool,
    /// Number of gateways in every draw; `None` for as many as are drawn.
    gateways: Option<usize>,
    traces: Vec<&'static Trace>,
    policies: Vec<&'static Policy>,
}

/// A scenario to set up: a draw, or a trace at a load.
enum Job<'a> {
    Drawn(u64, Option<usize>),
    Recorded(&'static Trace, &'a [Arrival], f64, u64),
}

impl Selection {
    /// Reads the environment. Without a number of seeds and without the argument that `cargo bench` passes (`cargo test --all-targets`),
    /// selects a smoke test.
    fn read() -> Self {
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let seeds: Option<u64> = text("SIGNALBOX_BENCH_SEEDS").and_then(|seeds| seeds.parse().ok());
        let quick = seeds.is_none() && !env::args().any(|argument| argument == "--bench");
        let only = text("SIGNALBOX_BENCH_ONLY").or(quick.then(|| DRAWN.to_owned()));
        let among = text("SIGNALBOX_BENCH_POLICIES").or(quick.then(|| PLAIN.name.to_owned()));
        let chosen = |parts: &Option<String>, name: &str| {
            parts.as_ref().is_none_or(|parts| parts.split('|').any(|part| name.contains(part)))
        };
        let choosing = quick || text("SIGNALBOX_BENCH_CHOOSE").is_some_and(|choose| choose == "1");
        let first = if choosing { 1 } else { 1 + SET };
        // Ours is last, wherever its entry is.
        let baselines = POLICIES.iter().filter(|policy| policy.name != OURS && chosen(&among, policy.name));
        let ours = POLICIES.iter().filter(|policy| policy.name == OURS);
        Self {
            choosing,
            seeds: first..first + seeds.unwrap_or(if quick { 1 } else { 40 }).clamp(1, SET),
            draws: chosen(&only, DRAWN),
            gateways: text("SIGNALBOX_BENCH_GATEWAYS").and_then(|gateways| gateways.parse().ok()),
            traces: TRACES.iter().filter(|trace| chosen(&only, trace.name)).collect(),
            policies: baselines.chain(ours).collect(),
        }
    }
}

fn main() -> ExitCode {
    match run(&Selection::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scheduler: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(selection: &Selection) -> io::Result<()> {
    let results = measure(selection)?;
    let text = report::report(&results);
    println!("{text}");
    if let Some(path) = env::var_os("SIGNALBOX_BENCH_ROWS") {
        std::fs::write(path, report::rows(&results))?;
    }
    if env::var("SIGNALBOX_BENCH_UPDATE").is_ok_and(|update| update == "1") {
        report::publish(&text, &Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/results/scheduler.md"))?;
    }
    Ok(())
}

fn measure(selection: &Selection) -> io::Result<Results> {
    let Selection { choosing, seeds, draws, gateways, traces, policies } = selection;
    let mut jobs = Vec::new();
    if *draws {
        jobs.extend(seeds.clone().map(|seed| Job::Drawn(seed, *gateways)));
    }
    let arrivals = traces.iter().map(|trace| trace.read()).collect::<io::Result<Vec<_>>>()?;
    let mut absent = Vec::new();
    for (trace, arrivals) in traces.iter().zip(&arrivals) {
        let Some(arrivals) = arrivals else {
            absent.push(trace.name);
            continue;
        };
        for &load in trace.loads {
            let seeds = seeds.clone().take(TRACE_SEEDS as usize);
            jobs.extend(seeds.map(|seed| Job::Recorded(trace, arrivals, load, seed)));
        }
    }
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} scenarios (about {eta} left)");
    let progress = indicatif::ProgressBar::new(jobs.len() as u64).with_style(style.map_err(io::Error::other)?);
    let rows = parallel_map(&jobs, || progress.inc(1), |job| job.row(policies));
    progress.finish_and_clear();
    let purpose = if *choosing { "to choose by" } else { "to report on" };
    Ok(Results {
        set: format!(
            "Seeds {purpose}, from {} to {}{}",
            seeds.start,
            seeds.end - 1,
            gateways.map_or_else(String::new, |gateways| format!(", each with {gateways} gateways"))
        ),
        policies: policies.iter().map(|policy| (policy.name, policy.description)).collect(),
        rows,
        absent,
    })
}

impl Job<'_> {
    /// Sets up the scenario and plays it with every policy.
    fn row(&self, policies: &[&'static Policy]) -> Row {
        let (scenario, trace, seed) = match *self {
            Self::Drawn(seed, gateways) => {
                let play = drawn(seed);
                (Play { gateways: gateways.unwrap_or(play.gateways), ..play }, None, seed)
            }
            Self::Recorded(trace, arrivals, load, seed) => {
                (recorded(arrivals, load, trace.length, seed), Some(trace.name), seed)
            }
        };
        let figures = policies.iter().map(|policy| play(&scenario, policy)).collect();
        Row { trace, seed, load: scenario.load, traits: scenario.traits, figures }
    }
}
