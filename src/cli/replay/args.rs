//! What `signalbox replay` is told on the command line.

use std::{path::PathBuf, time::Duration};

use clap::value_parser;

use crate::cli::simulate::time;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A journal, gzip or not; the files that it was rotated to are read too. May be given more than once
    #[arg(long = "journal", value_name = "FILE", required = true)]
    pub(super) journals: Vec<PathBuf>,
    /// The policy to be priced
    #[arg(long, value_name = "FILE")]
    pub(super) policy: PathBuf,
    /// The policy that ran: it is played too, so that what the models say can be held against what happened
    #[arg(long, value_name = "FILE")]
    pub(super) was: Option<PathBuf>,
    /// What engines are that the journal never saw, and such as are to be taken for something else
    #[arg(long, value_name = "FILE")]
    pub(super) engines: Option<PathBuf>,
    /// Plays of each policy, of the same requests with other dice
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=1000))]
    pub(super) seeds: u64,
    /// The time to first token that is asked for [default: the pool's objective; else 1s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_ttft: Option<Duration>,
    /// The time per further token that is asked for [default: the pool's objective; else 50ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_tpot: Option<Duration>,
    /// Go on where the policy asks what the journal has of no request; such conditions then see nothing
    #[arg(long)]
    pub(super) anyway: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Draw how first tokens are spread into this file: SVG, or a page of HTML where its name ends in .html
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
}
