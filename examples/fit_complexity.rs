//! Fits the compiled-in weights, `crates/prompt/src/complexity/weights.json`, to prompts with known outcomes.
//!
//! ```sh
//! cargo run --release --example fit_complexity -- 2026-11-21
//! ```
//!
//! Reads `outcomes/` below `SIGNALBOX_DATA` (or `../shared/data`). Nothing is random, and the date is an argument, so that equal data give
//! an equal table.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program reports on stdout")]

use std::{env, fs, path::PathBuf, process::ExitCode};

/// Models of about 8B and of about 50B parameters whose scores are plausible on every task.
const SMALL: [&str; 4] = ["mistral-7b-instruct-v0.3", "qwen2.5-7b-instruct", "llama-3.1-8b-instruct", "gemma-2-9b-it"];
const LARGE: [&str; 2] = ["llama-3.1-nemotron-51b-instruct", "llama-3.3-nemotron-super-49b-v1"];

fn main() -> ExitCode {
    let data = env::var_os("SIGNALBOX_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let files = ["llmrouter-mix", "routellm-mmlu-dev"].map(|name| data.join(format!("outcomes/{name}.jsonl.gz")));
    let Some(day) = env::args().nth(1) else {
        eprintln!("missing argument: the date as YYYY-MM-DD");
        return ExitCode::FAILURE;
    };
    let mut weights =
        match signalbox::lab::evaluate::fit_files(&files, &SMALL.map(str::to_owned), &LARGE.map(str::to_owned)) {
            Ok(weights) => weights,
            Err(problems) => {
                for (_, _, problem) in problems.iter() {
                    eprintln!("{}: {problem}", problems.file());
                }
                return ExitCode::FAILURE;
            }
        };
    weights.version = format!("stage0-{day}");
    weights.provenance.program = "examples/fit_complexity.rs, no randomness".into();
    weights.provenance.date = day;
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crates/prompt/src/complexity/weights.json");
    let written =
        serde_json::to_string_pretty(&weights).map_err(Into::into).and_then(|text| fs::write(&path, text + "\n"));
    match written {
        Ok(()) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{} cannot be written: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
