//! `signalbox cache eval`: evaluates the semantic cache on labelled pairs of prompts.

mod report;

use std::{io, path::PathBuf, process::ExitCode};

use clap::value_parser;

use crate::cli::{output, progress, share::share};
use signalbox_lab::cache_eval::{self, Options};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Pairs of prompts, JSON lines, gzip or plain: `{a, b, same}`, with an optional `family` for separate rows
    #[arg(long, value_name = "FILE")]
    pairs: PathBuf,
    /// Allowed shares of false hits
    #[arg(long, value_delimiter = ',', default_values = ["1%", "2%", "3%", "5%"], value_parser = share)]
    budget: Vec<f64>,
    /// Shares of requests that repeat a stored prompt in other words
    #[arg(long, value_delimiter = ',', default_values = ["1%", "5%", "20%"], value_parser = share)]
    prevalence: Vec<f64>,
    /// Look up volatile and personal prompts too, as with `volatile` in a policy
    #[arg(long)]
    volatile: bool,
    /// Read at most this many pairs
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn eval(args: &Args) -> io::Result<ExitCode> {
    let most = args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let Args { pairs, budget, prevalence, volatile, .. } = args;
    let options = Options { pairs, most, budgets: budget, prevalences: prevalence, volatile: *volatile };
    match cache_eval::evaluate(&options, progress::bar) {
        Ok(results) if args.json => output::json(&report::json(&results))?,
        Ok(results) => output::print(&report::text(&results))?,
        Err(problems) => {
            output::complain(&output::report(&problems));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
