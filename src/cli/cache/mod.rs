//! `signalbox cache`: what a gateway keeps of answers.

mod eval;
mod purge;

use std::{io, process::ExitCode};

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Forget kept answers
    Purge(purge::Args),
    /// Show what answers by meaning would have been on your own prompts: how many, and how many of them false
    Eval(eval::Args),
}

pub(super) fn run(command: &Command) -> io::Result<ExitCode> {
    match command {
        Command::Purge(args) => purge::purge(args),
        Command::Eval(args) => eval::eval(args),
    }
}
