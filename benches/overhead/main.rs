//! What the gateway adds, as a user feels it: the same requests straight to an engine and through the gateway, by turns.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench tells on stdout, and how far it is on stderr")]

mod client;
mod engine;
mod machine;
mod paths;
mod plan;
mod report;
mod told;

use std::{io, process::ExitCode};

use clap::Parser;

use self::{paths::Way, plan::Measured, report::Report, told::Noted};

/// What the command line says.
#[derive(clap::Parser)]
#[command(name = "overhead", about = "End-to-end bench of what the gateway adds")]
struct Args {
    /// Some seconds instead of some minutes: shows that it works, measures little
    #[arg(long)]
    quick: bool,
    /// Print a JSON document instead of the table
    #[arg(long)]
    json: bool,
    /// Rounds of each scenario
    #[arg(long)]
    rounds: Option<usize>,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Given by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ran = tokio::select! {
        ran = run(Args::parse()) => ran,
        // The processes end as they go out of scope.
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
    let mut ways = vec![
        Way::direct(engines),
        Way::gateway(engines, dir.path())?,
        Way::telling(engines, dir.path(), false)?,
        Way::telling(engines, dir.path(), true)?,
    ];
    let others = [
        ("the other build", Way::other(engines, dir.path())),
        ("nginx", Way::nginx(engines, dir.path())),
        ("litellm", Way::litellm(engines, dir.path())),
    ];
    for (name, peer) in others {
        match peer {
            Ok(way) => ways.push(way),
            Err(why) => eprintln!("{name} is left out: {why}"),
        }
    }
    for way in &ways {
        way.check().await?;
    }
    let scenarios = plan::scenarios(args.quick || !args.bench, args.rounds);
    let chosen: Vec<_> = scenarios.into_iter().filter(|scenario| scenario.name.contains(&args.only)).collect();
    let progress = indicatif::ProgressBar::new(chosen.iter().map(|scenario| scenario.rounds as u64).sum());
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} rounds, {msg} (about {eta} left)");
    progress.set_style(style.map_err(io::Error::other)?);
    let mut measured: Vec<Measured> = Vec::new();
    for scenario in chosen {
        progress.set_message(scenario.name);
        measured.push(plan::measure(scenario, &ways, &progress).await?);
    }
    progress.finish_and_clear();
    let report = Report::of(&measured);
    let noted = ways.iter().map(noted).collect::<io::Result<Vec<_>>>()?.concat();
    if args.json {
        let mut document = report.json(&machine::read());
        document["noting"] = serde_json::json!(noted);
        println!("{document:#}");
    } else {
        println!("{}\n\n{}\n\n{}", machine::line(&machine::read()), report.table(), report.notes());
        for Noted { way, model, answers, mean, p50, p99 } in noted {
            println!(
                "noting an answer, {way}, {model}: mean {mean:.1} µs, p50 ≤ {p50:.0} µs, p99 ≤ {p99:.0} µs ({answers} answers)"
            );
        }
    }
    Ok(())
}

/// What a gateway's metrics say of the time that noting answers took; nothing of other ways.
fn noted(way: &Way) -> io::Result<Vec<Noted>> {
    way.admin.map_or(Ok(Vec::new()), |admin| told::read(admin, way.name))
}
