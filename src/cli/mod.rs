//! The command line: one module per command.

mod backend;
mod bench;
mod cache;
mod calibrate;
mod check;
mod evaluate;
mod examples;
mod explain;
mod generated;
mod health;
mod import;
mod key;
mod key_hash;
mod loaded_texts;
mod log_filter;
mod notify;
mod operator;
mod output;
mod plot;
mod prices;
mod probe;
mod progress;
mod replay;
mod rules;
mod serve;
mod share;
mod simulate;
mod sources;
mod top;
mod usage;

use std::{io, path::PathBuf, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

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
    /// List the backends of a running gateway, and add, remove and drain them
    #[command(after_help = examples::BACKEND)]
    Backend {
        #[command(subcommand)]
        command: backend::Command,
    },
    /// Create keys for callers, and list, revoke and restore those of a running gateway
    #[command(after_help = examples::KEY)]
    Key {
        #[command(subcommand)]
        command: key::Command,
    },
    /// Send a test to every receiver of a policy's notifications
    #[command(after_help = examples::NOTIFY)]
    Notify {
        /// The policy file
        file: PathBuf,
    },
    /// Print the rules for Prometheus that follow from a policy's objectives: burn rates and alerts
    #[command(after_help = examples::RULES)]
    Rules {
        /// The policy file
        file: PathBuf,
    },
    /// Watch a running gateway in the terminal: health, latencies and decisions
    #[command(after_help = examples::TOP)]
    Top(top::Args),
    /// Export usage by day, key and model
    #[command(after_help = examples::USAGE)]
    Usage(usage::Args),
    /// Ask a running gateway if it serves: for health checks of containers and probes
    Health(health::Args),
    /// Translate the configuration of another gateway into a policy
    #[command(after_help = examples::IMPORT)]
    Import {
        #[command(subcommand)]
        command: import::Command,
    },
    /// List the built-in prices and context sizes of hosted models (`prices: builtin`), with their date
    #[command(after_help = examples::PRICES)]
    Prices {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of policy files, for editors
    #[command(after_help = examples::SCHEMA)]
    Schema,
    /// Print the completions of a shell
    #[command(after_help = "Examples:
  signalbox completions bash > ~/.local/share/bash-completion/completions/signalbox
  signalbox completions zsh > ~/.zfunc/_signalbox
  signalbox completions fish > ~/.config/fish/completions/signalbox.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder
    #[command(after_help = examples::MAN)]
    Man {
        /// The folder, created if it is missing
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
}

/// The definition of the command line, for texts about it.
pub fn command() -> clap::Command {
    Cli::command()
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
        Command::Backend { command } => backend::run(&command),
        Command::Key { command } => key::run(&command),
        Command::Notify { file } => notify::notify(&file),
        Command::Rules { file } => rules::print(&file),
        Command::Top(args) => top::top(args),
        Command::Usage(args) => usage::usage(&args),
        Command::Health(args) => health::health(&args),
        Command::Completions { shell } => generated::completions(command(), shell),
        Command::Man { out } => generated::man(command(), out.as_deref()),
        Command::Import { command } => import::run(&command),
        Command::Prices { json } => prices::prices(json),
        Command::Schema => output::print(&signalbox_config::schema()).map(|()| ExitCode::SUCCESS),
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
