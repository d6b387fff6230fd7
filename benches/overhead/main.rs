//! End-to-end overhead of the gateway: the same requests directly to an engine and through the gateway, in alternating blocks.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

mod client;
mod engine;
mod machine;
mod plan;
mod report;
mod settle;
mod targets;

use std::{io, process::ExitCode};

use clap::Parser;

use self::{plan::Measured, report::Report, settle::Settled, targets::Target};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "overhead", about = "End-to-end bench of the gateway's overhead")]
struct Args {
    /// Smoke test: some seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Print a JSON document instead of the table
    #[arg(long)]
    json: bool,
    /// Rounds per scenario
    #[arg(long)]
    rounds: Option<usize>,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ran = tokio::select! {
        ran = run(Args::parse()) => ran,
        // The processes end when they go out of scope.
        _ = tokio::signal::ctrl_c() => Err(io::Error::other("interrupted")),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overhead: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let engines = engine::start();
    let mut targets = vec![
        Target::direct(engines),
        Target::gateway(engines, dir.path())?,
        Target::journaling(engines, dir.path(), false)?,
        Target::journaling(engines, dir.path(), true)?,
    ];
    let others = [
        ("the other build", Target::other(engines, dir.path())),
        ("nginx", Target::nginx(engines, dir.path())),
        ("haproxy", Target::haproxy(engines, dir.path())),
        ("sglang-router", Target::sglang_router(engines, dir.path())),
        ("vllm-router", Target::vllm_router(engines, dir.path())),
        ("litellm", Target::litellm(engines, dir.path())),
    ];
    for (name, peer) in others {
        match peer {
            Ok(target) => targets.push(target),
            Err(reason) => eprintln!("{name} is left out: {reason}"),
        }
    }
    for target in &targets {
        target.check().await?;
    }
    let scenarios = plan::scenarios(args.quick || !args.bench, args.rounds);
    let chosen: Vec<_> = scenarios.into_iter().filter(|scenario| scenario.name.contains(&args.only)).collect();
    let progress = indicatif::ProgressBar::new(chosen.iter().map(|scenario| scenario.rounds as u64).sum());
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} rounds, {msg} (about {eta} left)");
    progress.set_style(style.map_err(io::Error::other)?);
    let mut measured: Vec<Measured> = Vec::new();
    for scenario in chosen {
        progress.set_message(scenario.name);
        measured.push(plan::measure(scenario, &targets, &progress).await?);
    }
    progress.finish_and_clear();
    let report = Report::of(&measured);
    let settled = targets.iter().map(settled).collect::<io::Result<Vec<_>>>()?.concat();
    if args.json {
        let mut document = report.json(&machine::read());
        document["noting"] = serde_json::json!(settled);
        println!("{document:#}");
    } else {
        println!("{}\n\n{}\n\n{}", machine::line(&machine::read()), report.table(), report.notes());
        for Settled { target, model, answers, mean, p50, p99 } in settled {
            println!(
                "settling an answer, {target}, {model}: mean {mean:.1} µs, p50 ≤ {p50:.0} µs, p99 ≤ {p99:.0} µs ({answers} answers)"
            );
        }
    }
    Ok(())
}

/// Reads a gateway's settle times from its metrics; empty for other targets.
fn settled(target: &Target) -> io::Result<Vec<Settled>> {
    target.admin.map_or(Ok(Vec::new()), |admin| settle::read(admin, target.name))
}
