//! The `signalbox` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    signalbox::cli::run()
}
