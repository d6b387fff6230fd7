//! `signalbox usage`: what was used, as a running gateway has it.

use std::{io, process::ExitCode};

use http::Method;

use super::{operator::Gateway, output};

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    gateway: Gateway,
    /// How it is written
    #[arg(long, value_parser = ["csv", "jsonl"], default_value = "csv")]
    format: String,
    /// The first day, in UTC, such as 2026-11-01
    #[arg(long)]
    from: Option<String>,
    /// The last day, in UTC
    #[arg(long)]
    to: Option<String>,
    /// Only what this key used, by its id
    #[arg(long)]
    key: Option<String>,
    /// Only what this team used
    #[arg(long)]
    team: Option<String>,
}

pub(super) fn usage(args: &Args) -> io::Result<ExitCode> {
    let named = [("from", &args.from), ("to", &args.to), ("key", &args.key), ("team", &args.team)];
    let named = named.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let query: Vec<_> = [("format", args.format.as_str())].into_iter().chain(named).collect();
    let Some(body) = args.gateway.ask(Method::GET, "/admin/usage", &query)? else { return Ok(ExitCode::FAILURE) };
    output::print(&String::from_utf8_lossy(&body)).map(|()| ExitCode::SUCCESS)
}
