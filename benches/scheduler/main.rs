//! Placement policies compared on simulated engines on a virtual clock.
//!
//! Environment: `SIGNALBOX_BENCH_SEEDS` (8), `SIGNALBOX_BENCH_ONLY` and `SIGNALBOX_BENCH_POLICIES` (parts of
//! names, separated by `|`; ours always takes part), `SIGNALBOX_BENCH_UPDATE` (1 writes `benches/results/scheduler.md`) and
//! `SIGNALBOX_DATA` (folder of the traces).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

mod account;
mod goodput;
#[path = "../overhead/machine.rs"]
mod machine;
mod plays;
mod policies;
mod report;
mod results;
mod rules;
mod scenario;
mod workload;

use std::{env, io, path::Path, process::ExitCode};

use signalbox::sim::parallel::parallel_map;

use self::{
    goodput::{COURSES, Course, goodput},
    plays::play,
    policies::{OURS, POLICIES, Policy},
    results::{Carried, Results, Row},
    scenario::{ALL, Scenario, Traces},
};

/// Seeds of the search for goodput, which runs each of them several times.
const GOODPUT_SEEDS: u64 = 3;

/// The parts of the bench that the environment selects.
struct Selection {
    seeds: u64,
    scenarios: Vec<&'static Scenario>,
    courses: Vec<&'static Course>,
    policies: Vec<&'static Policy>,
}

impl Selection {
    /// Reads the environment. Without a number of seeds and without the argument that `cargo bench` passes (`cargo test --all-targets`),
    /// selects a smoke test.
    fn read() -> Self {
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let seeds = text("SIGNALBOX_BENCH_SEEDS").and_then(|seeds| seeds.parse().ok());
        let quick = seeds.is_none() && !env::args().any(|argument| argument == "--bench");
        let only = text("SIGNALBOX_BENCH_ONLY").or(quick.then(|| "siblings 20/s".to_owned()));
        let among = text("SIGNALBOX_BENCH_POLICIES");
        let chosen = |parts: &Option<String>, name: &str| {
            parts.as_ref().is_none_or(|parts| parts.split('|').any(|part| name.contains(part)))
        };
        // Ours is last, wherever its entry is.
        let baselines = POLICIES.iter().filter(|policy| policy.name != OURS && chosen(&among, policy.name));
        let ours = POLICIES.iter().filter(|policy| policy.name == OURS);
        Self {
            seeds: seeds.unwrap_or(if quick { 1 } else { 8 }).max(1),
            scenarios: ALL.iter().filter(|scenario| chosen(&only, scenario.name)).collect(),
            courses: COURSES.iter().filter(|course| chosen(&only, course.name)).collect(),
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
    let text = report::report(&measure(selection)?);
    println!("{text}");
    if env::var("SIGNALBOX_BENCH_UPDATE").is_ok_and(|update| update == "1") {
        report::publish(&text, &Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/results/scheduler.md"))?;
    }
    Ok(())
}

fn measure(selection: &Selection) -> io::Result<Results> {
    let Selection { seeds, scenarios, courses, policies } = selection;
    let traces = Traces::load();
    let tries = GOODPUT_SEEDS.min(*seeds);
    let plays = combined(scenarios, policies, *seeds);
    let searches = combined(courses, policies, tries);
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)");
    let progress = indicatif::ProgressBar::new(plays.len() as u64);
    progress.set_style(style.map_err(io::Error::other)?);
    progress.set_message("plays");
    let played =
        parallel_map(&plays, || progress.inc(1), |&(scenario, policy, seed)| play(scenario, policy, &traces, seed));
    progress.set_length(searches.len() as u64);
    progress.reset();
    progress.set_message("searches for goodput");
    let found =
        parallel_map(&searches, || progress.inc(1), |&(course, policy, seed)| goodput(course, policy, &traces, seed));
    progress.finish_and_clear();

    let mut results = Results {
        seeds: *seeds,
        policies: policies.iter().map(|policy| (policy.name, policy.description)).collect(),
        rows: Vec::new(),
        goodput: Vec::new(),
        absent: Vec::new(),
    };
    for (scenario, played) in scenarios.iter().zip(played.chunks(policies.len() * *seeds as usize)) {
        match by_policy(played, *seeds) {
            Some(plays) => results.rows.push(Row { scenario: scenario.name, plays }),
            None => results.absent.push(scenario.name),
        }
    }
    for (course, found) in courses.iter().zip(found.chunks(policies.len() * tries as usize)) {
        match by_policy(found, tries) {
            Some(loads) => results.goodput.push(Carried { course: course.name, unit: course.unit, loads }),
            None => results.absent.push(course.name),
        }
    }
    Ok(results)
}

/// Combines each item with all policies and all seeds.
fn combined<T: Copy>(items: &[T], policies: &[&'static Policy], seeds: u64) -> Vec<(T, &'static Policy, u64)> {
    let mut all = Vec::new();
    for &item in items {
        for &policy in policies {
            all.extend((0..seeds).map(|seed| (item, policy, seed)));
        }
    }
    all
}

/// Groups the results of one item by policy and seed. `None` if there are none.
fn by_policy<R: Clone>(results: &[Option<R>], seeds: u64) -> Option<Vec<Vec<R>>> {
    results.chunks(seeds as usize).map(|results| results.iter().cloned().collect()).collect()
}
