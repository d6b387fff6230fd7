//! `signalbox evaluate`: evaluates the complexity ranking on prompts with known outcomes.

mod report;

use std::{io, path::PathBuf, process::ExitCode};

use super::output;
use signalbox_lab::evaluate::{self, Options};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Outcomes, JSON lines, gzip or plain: `{id, task, prompt, small, large}` or `{…, scores: {model: 0..1}}`
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    outcomes: Vec<PathBuf>,
    /// Small model, for outcomes with scores by model; several are averaged. Plain `small` and `large` are used as they are
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    small: Vec<String>,
    /// Large model, for outcomes with scores by model; several are averaged
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    large: Vec<String>,
    /// Rank each benchmark with weights fitted without it
    #[arg(long)]
    leave_one_out: bool,
    /// Measure the gain of learning from feedback: eight replays each of 1,000 and 2,000 labels, tested on the rest
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
