//! The bench of record for placement: policies side by side, against simulated engines on a virtual clock.
//!
//! The environment says what is played: `SIGNALBOX_BENCH_SEEDS` (8), `SIGNALBOX_BENCH_ONLY` and `SIGNALBOX_BENCH_POLICIES` (parts of
//! names, divided by `|`; ours is always there), `SIGNALBOX_BENCH_UPDATE` (1 writes the report into `benches/README.md`) and
//! `SIGNALBOX_DATA` (where the traces are).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench tells on stdout, and how far it is on stderr")]

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

/// Seeds of the search for goodput, which plays each of them several times.
const GOODPUT_SEEDS: u64 = 3;

/// What the environment asks for.
struct Wanted {
    seeds: u64,
    scenarios: Vec<&'static Scenario>,
    courses: Vec<&'static Course>,
    policies: Vec<&'static Policy>,
}

impl Wanted {
    /// Without the argument that `cargo bench` gives (`cargo test --all-targets`) and without a number of seeds, little: it shows
    /// that the bench works.
    fn read() -> Self {
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let seeds = text("SIGNALBOX_BENCH_SEEDS").and_then(|seeds| seeds.parse().ok());
        let quick = seeds.is_none() && !env::args().any(|argument| argument == "--bench");
        let only = text("SIGNALBOX_BENCH_ONLY").or(quick.then(|| "siblings 20/s".to_owned()));
        let among = text("SIGNALBOX_BENCH_POLICIES");
        let chosen = |parts: &Option<String>, name: &str| {
            parts.as_ref().is_none_or(|parts| parts.split('|').any(|part| name.contains(part)))
        };
        // Ours last, wherever its line is.
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
    match run(&Wanted::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scheduler: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(wanted: &Wanted) -> io::Result<()> {
    let text = report::report(&measure(wanted)?);
    println!("{text}");
    if env::var("SIGNALBOX_BENCH_UPDATE").is_ok_and(|update| update == "1") {
        report::write(&text, &Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/README.md"))?;
    }
    Ok(())
}

fn measure(wanted: &Wanted) -> io::Result<Results> {
    let Wanted { seeds, scenarios, courses, policies } = wanted;
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
        policies: policies.iter().map(|policy| (policy.name, policy.what)).collect(),
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

/// All seeds with all policies for each thing.
fn combined<T: Copy>(things: &[T], policies: &[&'static Policy], seeds: u64) -> Vec<(T, &'static Policy, u64)> {
    let mut all = Vec::new();
    for &thing in things {
        for &policy in policies {
            all.extend((0..seeds).map(|seed| (thing, policy, seed)));
        }
    }
    all
}

/// The results of one thing by policy and seed; `None` where there are none.
fn by_policy<R: Clone>(results: &[Option<R>], seeds: u64) -> Option<Vec<Vec<R>>> {
    results.chunks(seeds as usize).map(|results| results.iter().cloned().collect()).collect()
}
