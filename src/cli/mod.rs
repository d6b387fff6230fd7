//! The command line: one module per command.

mod backend;
mod bench;
mod cache;
mod calibrate;
mod check;
mod evaluate;
mod explain;
mod key;
mod notify;
mod operator;
mod output;
mod plot;
mod progress;
mod replay;
mod serve;
mod share;
mod simulate;
mod sources;
mod top;
mod usage;

use std::{io, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// A latency-aware model router and gateway that speaks the OpenAI API.
#[derive(Debug, Parser)]
#[command(name = "signalbox", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway
    Serve(serve::Args),
    /// Validate a policy file and show what it configures
    Check {
        /// The policy file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how a policy would route a request, and why
    Explain(explain::Args),
    /// Show where the shares of tiers would split your own prompts
    Calibrate(calibrate::Args),
    /// Compare policies on recorded traffic over simulated engines
    Simulate(simulate::Args),
    /// Price a policy before it ships: replay a journal under it, on engines fitted to that journal
    Replay(replay::Args),
    /// Load-test a running server: latencies as callers see them, rates, goodput, and the gap to a gateway's own figures
    Bench(bench::Args),
    /// Evaluate the complexity ranking on prompts with known outcomes
    Evaluate(evaluate::Args),
    /// Purge or evaluate cached answers
    Cache {
        #[command(subcommand)]
        command: cache::Command,
    },
    /// List the backends of a running gateway, and add, remove and drain them
    Backend {
        #[command(subcommand)]
        command: backend::Command,
    },
    /// Create keys for callers, and list, revoke and restore those of a running gateway
    Key {
        #[command(subcommand)]
        command: key::Command,
    },
    /// Send a test to every receiver of a policy's notifications
    #[command(after_help = "Example:\n  signalbox notify policy.yaml")]
    Notify {
        /// The policy file
        file: PathBuf,
    },
    /// Watch a running gateway in the terminal: health, latencies and decisions
    Top(top::Args),
    /// Export usage by day, key and model
    Usage(usage::Args),
    /// Print the JSON schema of policy files, for editors
    Schema,
}

/// The definition of the command line, for its reference page.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Runs the command line.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::serve(args),
        Command::Check { file, json } => check::check(&file, json),
        Command::Explain(args) => explain::explain(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Cache { command } => cache::run(&command),
        Command::Backend { command } => backend::run(&command),
        Command::Key { command } => key::run(&command),
        Command::Notify { file } => notify::notify(&file),
        Command::Top(args) => top::top(args),
        Command::Usage(args) => usage::usage(&args),
        Command::Schema => output::print(&crate::config::schema()).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        // The reader closed the pipe (`signalbox check … | head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&format!("signalbox: {error}\n"));
            ExitCode::FAILURE
        }
    }
}
