//! `signalbox replay`: replays the traffic of a journal under another policy, to price the policy before it ships.

mod args;
mod draw;
mod engines;
mod json;
mod report;
mod results;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) use self::args::Args;
use self::{
    engines::{Fleet, learn_all},
    results::{Column, Results},
};
use super::{output, progress, sources};
use signalbox_config::{Config, Problem, Problems};
use signalbox_journal_replay::{Entries, Journal, Missing, Play, Played, Tally, recorded, unrecorded, watch};
use signalbox_policy::{Policy, compile};
use signalbox_sim::{engines_file::EnginesFile, parallel::parallel_map};

pub(super) fn replay(args: &Args) -> io::Result<ExitCode> {
    let results = match price(args) {
        Ok(results) => results,
        Err(problems) => {
            output::complain(&output::report(&problems));
            return Ok(ExitCode::FAILURE);
        }
    };
    if let Some(file) = &args.plot
        && let Err(problem) = draw::write(&results, file)
    {
        output::complain(&format!("signalbox: {problem}\n"));
        return Ok(ExitCode::FAILURE);
    }
    if args.json {
        output::json(&json::json(&results))?;
    } else {
        output::print(&report::text(&results))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn price(args: &Args) -> Result<Results, Problems> {
    let policy = Config::load(&args.policy).and_then(|config| compile(&config))?;
    let was = args.was.as_deref().map(|file| Config::load(file).and_then(|config| compile(&config))).transpose()?;
    let journal = Journal::open(&args.journals)?;
    let recorded_backends = watch(&journal);
    let found = |policy: &Policy| sources::replayed(policy, &recorded_backends.keys().map(String::as_str));
    let (policy, was) = (found(&policy), was.as_ref().map(found));
    let policies: Vec<&Policy> = was.iter().chain([&policy]).collect();
    let engines_file = match &args.engines {
        Some(file) => EnginesFile::load(file, &policies)?,
        None => EnginesFile::default(),
    };
    let entries = Entries::of(&journal);
    if entries.all.is_empty() {
        return Err(nothing(&args.journals, &journal, &entries));
    }
    if !args.anyway {
        known(&args.policy, &policy, &entries)?;
        if let (Some(file), Some(was)) = (&args.was, &was) {
            known(file, was, &entries)?;
        }
    }
    let fleets = learn_all(&journal, &policies, &engines_file);
    for (fleet, file) in fleets.iter().zip(args.was.iter().chain([&args.policy])) {
        fleet.check(file)?;
    }
    let play = |policy: &Policy, fleet: &Fleet| Play {
        policy: policy.clone(),
        profiles: fleet.profiles(),
        failing: fleet.failing(),
        ttft: args.slo_ttft,
        tpot: args.slo_tpot,
    };
    let plays: Vec<Play> = policies.iter().zip(&fleets).map(|(policy, fleet)| play(policy, fleet)).collect();
    let jobs: Vec<(&Play, u64)> =
        plays.iter().flat_map(|play| (1..=args.seeds).map(move |seed| (play, seed))).collect();
    let bar = progress::bar(jobs.len() as u64, "plays");
    let played = parallel_map(&jobs, || bar.inc(1), |(play, seed)| play.run(&entries, *seed));
    bar.finish_and_clear();
    let happened = Tally::of(&recorded(&entries, &plays[0]));
    let mut columns: Vec<Column> = Vec::new();
    let files = args.was.iter().map(|file| ("was", file)).chain([("new", &args.policy)]);
    let mut played = played.into_iter();
    for ((name, file), play) in files.zip(&plays) {
        let (tallies, missing, busiest) = gather(played.by_ref().take(args.seeds as usize));
        let (file, hash) = (file.clone(), play.policy.hash.clone());
        columns.push(Column { name, file, hash, tallies, missing, busiest });
    }
    let caveats = results::caveats(&policy, &entries);
    Ok(Results { journal, entries, fleets, happened, columns, caveats, seeds: args.seeds })
}

/// Metrics of each seed, missing variables, and the most concurrent requests of each engine.
fn gather(played: impl Iterator<Item = Played>) -> (Vec<Tally>, Missing, Vec<u32>) {
    let (mut tallies, mut missing, mut busiest) = (Vec::new(), Missing::new(), Vec::new());
    for one in played {
        tallies.push(Tally::of(&one.ended));
        for (what, times) in one.missing {
            // Counts hardly differ between seeds: keep the highest.
            let most = missing.entry(what).or_default();
            *most = times.max(*most);
        }
        busiest.resize(one.busiest.len(), 0);
        for (most, own) in busiest.iter_mut().zip(one.busiest) {
            *most = own.max(*most);
        }
    }
    (tallies, missing, busiest)
}

/// Rejects a policy that uses variables which the journal lacks.
fn known(file: &Path, policy: &Policy, entries: &Entries) -> Result<(), Problems> {
    let problems: Vec<Problem> = unrecorded(policy, entries)
        .into_iter()
        .map(|unrecorded| {
            let message = format!(
                "the rule `{}` uses `{}`, which the journal has for no request",
                unrecorded.rule, unrecorded.variable
            );
            Problem::whole(message)
                .help(format!("{}; or treat such conditions as false with `--anyway`", unrecorded.help))
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(problem(file, problems)) }
}

fn nothing(files: &[PathBuf], journal: &Journal, entries: &Entries) -> Problems {
    let file = files.first().map_or(Path::new("journal"), |file| file);
    let why: Vec<String> = entries.left_out.iter().map(|(why, count)| format!("{count} {why}")).collect();
    let message = match &journal.first_damage {
        _ if !why.is_empty() => format!("this journal has no request that could be played again: {}", why.join("; ")),
        Some(damage) => format!("this is no journal: {} lines cannot be read, such as {damage}", journal.damaged),
        None => "this journal is empty".to_owned(),
    };
    let help = "a policy writes one with `journal: { path: journal.jsonl }`";
    problem(file, vec![Problem::whole(message).help(help)])
}

fn problem(file: &Path, problems: Vec<Problem>) -> Problems {
    Problems::new(&file.display().to_string(), "".into(), problems)
}
