//! The gateway's cost as its settings grow: processor time and latency of a request, memory, and the page of metrics, by prompt size and by
//! the numbers of backends, routes, keys, prefix blocks, cached answers, open streams and processors.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

mod chart;
#[path = "../overhead/client.rs"]
#[expect(dead_code, reason = "the bench of the overhead reads more of an answer")]
mod client;
mod dimensions;
#[path = "../overhead/engine.rs"]
#[expect(dead_code, reason = "only whole answers are asked for")]
mod engine;
mod gateway;
mod load;
#[path = "../overhead/machine.rs"]
mod machine;
mod prefixes;
mod report;
#[path = "../soak/engine.rs"]
#[expect(dead_code, reason = "the soak test counts its requests, and has engines that fail")]
mod slow_engine;
mod streams;

use std::{error::Error, fs, path::PathBuf, process::Command};

use clap::Parser;

use self::{dimensions::dimensions, report::Table};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "scale", about = "The gateway's cost as its settings grow")]
struct Args {
    /// Smoke test: some seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Only dimensions whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Write a chart of the figures to this file (SVG)
    #[arg(long)]
    chart: Option<PathBuf>,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

/// Processor of the clients and the engine; the gateway has the first.
const CLIENTS: &str = "1";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let quick = args.quick || !args.bench;
    let machine = machine::line(&machine::read());
    if std::thread::available_parallelism()?.get() > 1 {
        let own = std::process::id().to_string();
        Command::new("taskset").args(["-acp", CLIENTS, &own]).output().ok();
    }
    let descriptors = rlimit::increase_nofile_limit(u64::MAX)?;
    let [engine, ..] = engine::start();
    println!("{machine}");
    let mut tables = Vec::new();
    for dimension in dimensions(engine, quick).into_iter().filter(|it| it.name.contains(&args.only)) {
        let mut table = Table::new(dimension.name);
        for point in dimension.points {
            eprintln!("{}: {}", dimension.name, point.value);
            table.rows.push(load::measure(&point, engine, quick).await?);
        }
        println!("\n{table}");
        tables.push(table);
    }
    if let Some(path) = args.chart {
        fs::write(path, chart::draw(&tables)?)?;
    }
    if prefixes::NAME.contains(&args.only) {
        println!("\n{}", prefixes::measure(quick));
    }
    if streams::NAME.contains(&args.only) {
        println!("\n{}", streams::measure(descriptors, quick).await?);
    }
    Ok(())
}
