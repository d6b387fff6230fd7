//! Arguments of `signalbox replay`.

use std::{path::PathBuf, time::Duration};

use clap::value_parser;

use crate::cli::simulate::time;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A journal, gzip or plain; its rotated files are read too. May be repeated
    #[arg(long = "journal", value_name = "FILE", required = true)]
    pub(super) journals: Vec<PathBuf>,
    /// The policy to price
    #[arg(long, value_name = "FILE")]
    pub(super) policy: PathBuf,
    /// The policy that ran; it is played too, to compare the model with what happened
    #[arg(long, value_name = "FILE")]
    pub(super) was: Option<PathBuf>,
    /// Profiles of engines that the journal does not cover, or that are to be replaced
    #[arg(long, value_name = "FILE")]
    pub(super) engines: Option<PathBuf>,
    /// Plays of each policy with the same requests and other seeds
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=1000))]
    pub(super) seeds: u64,
    /// Limit on the time to first token [default: the pool's objective; else 1s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_ttft: Option<Duration>,
    /// Limit on the time per further token [default: the pool's objective; else 50ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_tpot: Option<Duration>,
    /// Continue if the policy uses variables that the journal lacks; such conditions are then false
    #[arg(long)]
    pub(super) anyway: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Draw the distributions of latencies into this file: SVG, or HTML if its name ends in .html
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
}
