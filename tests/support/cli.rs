//! The real binary as a command that ends by itself.

use std::{path::Path, process::Command};

/// What a command came to.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `signalbox` with these arguments inside `dir`, so that paths print the same everywhere, and with nothing in its environment.
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
