//! The command line: one file a command.

mod bench;
mod cache;
mod calibrate;
mod check;
mod evaluate;
mod explain;
mod key;
mod operator;
mod output;
mod plot;
mod progress;
mod replay;
mod serve;
mod share;
mod simulate;
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
    /// Check a policy file, and show what it sets up
    Check {
        /// The policy file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a policy would make of a request, and why
    Explain(explain::Args),
    /// Show what shares of tiers mean on your own prompts
    Calibrate(calibrate::Args),
    /// Compare policies: replay recorded traffic on simulated engines
    Simulate(simulate::Args),
    /// Price a policy before it ships: play a journal's requests by it, on engines learned from that journal
    Replay(replay::Args),
    /// Measure a running server as its callers see it: latencies, rates, goodput, and the gap to a gateway's own figures
    Bench(bench::Args),
    /// Show what the complexity of prompts is worth for routing, on prompts with known outcomes
    Evaluate(evaluate::Args),
    /// Look after the answers that a gateway keeps
    Cache {
        #[command(subcommand)]
        command: cache::Command,
    },
    /// Make keys for callers, and look after those of a running gateway
    Key {
        #[command(subcommand)]
        command: key::Command,
    },
    /// Watch a running gateway in the terminal: is it well, how fast, and what was decided
    Top(top::Args),
    /// Show what was used, by day, key and model
    Usage(usage::Args),
    /// Print the JSON schema of policy files, for editors
    Schema,
}

/// Runs the command that the process was started with.
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
        Command::Key { command } => key::run(&command),
        Command::Top(args) => top::top(args),
        Command::Usage(args) => usage::usage(&args),
        Command::Schema => output::print(&crate::config::schema()).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        // Whoever read our output has seen enough (`signalbox check … | head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&format!("signalbox: {error}\n"));
            ExitCode::FAILURE
        }
    }
}
