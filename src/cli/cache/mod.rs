//! `signalbox cache`: purges and evaluates cached answers.

mod eval;
mod purge;

use std::{io, process::ExitCode};

use clap::Subcommand;

use super::examples;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Remove cached answers of a running gateway
    #[command(after_help = examples::CACHE_PURGE)]
    Purge(purge::Args),
    /// Evaluate the semantic cache on your own labelled prompts: hit rate and false hits
    #[command(after_help = examples::CACHE_EVAL)]
    Eval(eval::Args),
}

pub(super) fn run(command: &Command) -> io::Result<ExitCode> {
    match command {
        Command::Purge(args) => purge::purge(args),
        Command::Eval(args) => eval::eval(args),
    }
}
