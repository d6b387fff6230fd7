//! The command line: one module per command.

mod bench;
mod cache;
mod calibrate;
mod check;
mod evaluate;
mod examples;
mod explain;
mod key;
mod operator;
mod output;
mod plot;
mod probe;
mod progress;
mod replay;
mod serve;
mod share;
mod simulate;
mod top;
mod usage;

use std::{io, process::ExitCode};

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
    #[command(after_help = examples::SERVE)]
    Serve(serve::Args),
    /// Validate a policy file and show what it configures
    #[command(after_help = examples::CHECK)]
    Check(check::Args),
    /// Show how a policy would route a request, and why
    #[command(after_help = examples::EXPLAIN)]
    Explain(explain::Args),
    /// Show where the shares of tiers would split your own prompts
    #[command(after_help = examples::CALIBRATE)]
    Calibrate(calibrate::Args),
    /// Compare policies on recorded traffic over simulated engines
    #[command(after_help = examples::SIMULATE)]
    Simulate(simulate::Args),
    /// Price a policy before it ships: replay a journal under it, on engines fitted to that journal
    #[command(after_help = examples::REPLAY)]
    Replay(replay::Args),
    /// Load-test a running server: latencies as callers see them, rates, goodput, and the gap to a gateway's own figures
    #[command(after_help = examples::BENCH)]
    Bench(bench::Args),
    /// Evaluate the complexity ranking on prompts with known outcomes
    #[command(after_help = examples::EVALUATE)]
    Evaluate(evaluate::Args),
    /// Purge or evaluate cached answers
    #[command(after_help = examples::CACHE)]
    Cache {
        #[command(subcommand)]
        command: cache::Command,
    },
    /// Create keys for callers, and list, revoke and restore those of a running gateway
    #[command(after_help = examples::KEY)]
    Key {
        #[command(subcommand)]
        command: key::Command,
    },
    /// Watch a running gateway in the terminal: health, latencies and decisions
    #[command(after_help = examples::TOP)]
    Top(top::Args),
    /// Export usage by day, key and model
    #[command(after_help = examples::USAGE)]
    Usage(usage::Args),
    /// Print the JSON schema of policy files, for editors
    #[command(after_help = examples::SCHEMA)]
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
        Command::Check(args) => check::check(&args),
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
        // The reader closed the pipe (`signalbox check … | head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&format!("signalbox: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with every command that runs something.
    fn visit(command: &clap::Command, see: &mut impl FnMut(&clap::Command)) {
        see(command);
        command.get_subcommands().for_each(|below| visit(below, see));
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let mut count = 0;
        for below in command().get_subcommands() {
            visit(below, &mut |command| {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                let examples: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("  signalbox ")).collect();
                assert!(!examples.is_empty(), "{} has no example", command.get_name());
                for example in examples {
                    // A remark follows after several spaces, a redirection after its sign.
                    let typed = example.split("   ").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
                    let arguments = ["signalbox"].into_iter().chain(typed.split_whitespace());
                    if let Err(error) = Cli::try_parse_from(arguments) {
                        panic!("{example}: {error}");
                    }
                    count += 1;
                }
            });
        }
        assert!(count > 20, "{count}");
    }
}
