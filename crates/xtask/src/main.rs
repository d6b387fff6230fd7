//! Tasks for those who work on Signalbox, run as `cargo xtask`: they write what is generated from the code.

#![forbid(unsafe_code)]

mod reference;
mod workspace;

use std::{fs, io, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use self::workspace::root;

/// Writes what is generated from the code
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated pages of docs/reference: after a change to policy keys, metrics, commands, conditions or errors
    Reference,
    /// Write policies/policy.schema.json: after a change to policy keys
    Schema,
}

#[expect(clippy::print_stderr, reason = "the report of a task is for whoever runs it")]
fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Reference => reference::write(),
        Task::Schema => write_schema().map(|written| written.into_iter().collect()),
    };
    match done {
        Ok(written) if written.is_empty() => eprintln!("all is current"),
        Ok(written) => written.iter().for_each(|path| eprintln!("written: {}", path.display())),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Writes the schema of policy files, and returns its path if it was not current.
fn write_schema() -> io::Result<Option<PathBuf>> {
    let (path, wanted) = (root().join("policies/policy.schema.json"), signalbox_config::schema());
    if fs::read_to_string(&path).is_ok_and(|kept| kept == wanted) {
        return Ok(None);
    }
    fs::write(&path, wanted).map(|()| Some(path))
}
