//! Cost of counting a prompt's tokens: estimates, exact counts, and comparisons with near and far limits.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

#[path = "../overhead/machine.rs"]
mod machine;

use std::{hint::black_box, sync::Arc, time::Instant};

use clap::Parser;
use signalbox::{
    prompt::tokens::{Counter, ModelTokenizer, Rendered, TokenizerSlot},
    types::Encoding,
};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "tokens", about = "Bench of counting a prompt's tokens")]
struct Args {
    /// Smoke test: a second instead of several
    #[arg(long)]
    quick: bool,
    /// A tokenizer.json to measure too
    #[arg(long)]
    tokenizer: Option<std::path::PathBuf>,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let rounds = if args.quick || !args.bench { 3 } else { 200 };
    println!("{}\n", machine::line(&machine::read()));
    println!("| tokenizer | prompt | tokens | step | p50 | p99 |\n|---|---:|---:|---|---:|---:|");
    measure("none", &Counter::new(Arc::default()), rounds);
    measure("o200k", &Counter::new(Arc::new(TokenizerSlot::open_ai(Encoding::O200k))), rounds);
    measure("cl100k", &Counter::new(Arc::new(TokenizerSlot::open_ai(Encoding::Cl100k))), rounds);
    match &args.tokenizer {
        Some(path) => {
            let own = ModelTokenizer::read(&std::fs::read(path).unwrap()).unwrap();
            measure("own", &Counter::new(Arc::new(TokenizerSlot::own(own))), rounds);
        }
        None => println!("\n`--tokenizer FILE` measures a tokenizer.json as well."),
    }
}

/// Returns prose and code of this package, repeated to `bytes`.
fn text(bytes: usize) -> String {
    let sources = [include_str!("../../README.md"), include_str!("../../crates/protocol/src/request.rs")];
    let mut text = sources.concat().repeat(bytes / 20_000 + 1);
    text.truncate(text.floor_char_boundary(bytes));
    text
}

fn measure(name: &str, counter: &Counter, rounds: usize) {
    for kilobytes in [8, 128] {
        let messages = serde_json::json!([{ "role": "user", "content": text(kilobytes << 10) }]).to_string();
        let body = Rendered { messages: &messages, ..Rendered::default() };
        let tokens = counter.count(&body).tokens;
        let row = |step: &str, work: &dyn Fn()| {
            let mut times: Vec<f64> = (0..rounds)
                .map(|_| {
                    let started = Instant::now();
                    work();
                    started.elapsed().as_secs_f64() * 1e6
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            println!("| {name} | {kilobytes} KB | {tokens} | {step} | {:.1} µs | {:.1} µs |", at(0.5), at(0.99));
        };
        row("estimate", &|| {
            black_box(counter.estimate(&body));
        });
        row("count", &|| {
            black_box(counter.count(&body));
        });
        for (step, limit) in [
            ("exceeds ⅒ of it", tokens / 10),
            ("exceeds ½ of it", tokens / 2),
            ("exceeds 0.95 of it", tokens * 95 / 100),
            ("exceeds 1.05 of it", tokens * 105 / 100),
            ("exceeds 8 times it", tokens * 8),
        ] {
            row(step, &|| {
                black_box(counter.exceeds(&body, limit));
            });
        }
    }
}
