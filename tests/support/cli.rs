//! Runs the binary as a command that ends by itself.

use std::{path::Path, process::Command};

/// Result of a command.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `signalbox` in `dir`, so that printed paths are the same everywhere, with an empty environment.
pub fn run<'a>(dir: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
