//! `signalbox evaluate`: what the complexity of prompts is worth for routing, on prompts whose outcomes are known.

mod report;

use std::{io, path::PathBuf, process::ExitCode};

use super::output;
use crate::lab::evaluate::{self, Options};

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Outcomes, JSON lines, gzip or not: `{id, task, prompt, small, large}` or `{…, scores: {model: 0..1}}`
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    outcomes: Vec<PathBuf>,
    /// Of outcomes by model: the small model; of several their mean. Plain `small` and `large` count as they are
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    small: Vec<String>,
    /// Of outcomes by model: the large model; of several their mean
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    large: Vec<String>,
    /// Rank each benchmark with weights that were fitted without it
    #[arg(long)]
    leave_one_out: bool,
    /// Show what learning from feedback adds: eight replays each of 1,000 and 2,000 labels, tested on the rest
    #[arg(long)]
    learn: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn evaluate(args: &Args) -> io::Result<ExitCode> {
    let Args { outcomes, small, large, leave_one_out, learn, .. } = args;
    let options = Options { outcomes, small, large, leave_one_out: *leave_one_out, learn: *learn };
    match evaluate::evaluate(&options) {
        Ok(results) if args.json => output::json(&report::json(&results))?,
        Ok(results) => output::print(&report::text(&results))?,
        Err(problems) => {
            output::complain(&output::report(&problems));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
