//! The complexity score on hand-written prompts, and its cost: outline of a body, features and score, for texts of
//! several kinds and lengths. Needs no sockets and no external data.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

#[path = "../decision/figures.rs"]
mod figures;
#[path = "../overhead/machine.rs"]
mod machine;
mod own;
mod words;

use std::{alloc::System, hint::black_box};

use clap::Parser;
use signalbox::{
    prompt::complexity::{Features, Learned, Linear, PLACES, PerFeature, Weights, score},
    protocol::RequestBody,
    types::{Endpoint, Outline},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use self::figures::Figures;

/// Counts allocations of the system allocator.
#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "complexity", about = "Bench of the outline and the complexity of a prompt")]
struct Args {
    /// Smoke test: a moment instead of seconds
    #[arg(long)]
    quick: bool,
    /// Fit the weights of words and write `crates/prompt/src/complexity/words.txt`
    #[arg(long)]
    fit: bool,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

const PROSE: &str = "The court held that the seller was liable because the contract, which both parties had signed before the \
    first delivery, required that every item be inspected within thirty days; whether the buyer would have noticed the defect \
    is not known. How much should he be paid if 12 of 40 items, at $3.50 each, were damaged?\n";
const CODE: &str =
    "fn total(items: &[Item]) -> f64 { items.iter().map(|item| item.price * item.count as f64).sum() }\n";
const CHINESE: &str = "请证明这个定理是正确的，并解释为什么每一步都是必要的。如果条件不成立，结论会怎样？\n";

fn main() {
    let args = Args::parse();
    if args.fit {
        let (pieces, prompts) = (words::Pieces::read(), own::prompts(own::CHOSEN));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/prompt/src/complexity/words.txt");
        std::fs::write(path, pieces.fitted(&prompts)).unwrap();
        let (mean, least) = pieces.halves(&prompts);
        println!("{path}\nAUC on the other half of the families: mean {mean:.3}, least {least:.3} of 20");
        return;
    }
    let rounds = if args.quick || !args.bench { 300 } else { 20_000 };
    println!("{}\n", machine::line(&machine::read()));
    own::print(|text| score(&Features::of(&Outline::of_text(text)), Weights::built_in()).score);
    own::print_conversations(|turns| {
        let message = |turn: &&str| serde_json::json!({ "role": "user", "content": turn });
        let messages: Vec<serde_json::Value> = turns.iter().map(message).collect();
        let body = serde_json::json!({ "model": "m", "messages": messages }).to_string();
        let mut outline = Outline::default();
        RequestBody::json(Endpoint::Chat, body.into()).unwrap().outline(&mut outline);
        score(&Features::of(&outline), Weights::built_in()).score
    });
    let learned = Weights { learned: Some(Learned { gap: ones(), quality: ones() }), ..Weights::built_in().clone() };
    println!("| text | bytes | step | p50 | p99 | allocations |\n|---|---:|---|---:|---:|---:|");
    for (name, text) in [("prose", PROSE), ("code", CODE), ("Chinese", CHINESE)] {
        for kilobytes in [1, 8, 128] {
            let content: String =
                text.chars().cycle().take((kilobytes << 10) * text.chars().count() / text.len()).collect();
            let message = serde_json::json!({ "role": "user", "content": content });
            let body = serde_json::json!({ "model": "m", "messages": [message] }).to_string();
            let body = RequestBody::json(Endpoint::Chat, body.into()).unwrap();
            let mut outline = Outline::default();
            let [mut outlining, mut reading, mut scoring, mut own, mut all] =
                [(); 5].map(|()| Figures::with_capacity(rounds));
            // Warm up until the buffer has its capacity and the automaton is built.
            for _ in 0..100 {
                body.outline(&mut outline);
                black_box(score(&Features::of(&outline), Weights::built_in()));
            }
            for _ in 0..rounds {
                outlining.measure(|| body.outline(&mut outline));
                let features = reading.measure(|| Features::of(&outline));
                scoring.measure(|| score(&features, Weights::built_in()));
                own.measure(|| score(&features, &learned));
                all.measure(|| {
                    body.outline(&mut outline);
                    score(&Features::of(&outline), Weights::built_in())
                });
            }
            let steps = [
                ("outline", outlining),
                ("features", reading),
                ("score", scoring),
                ("score, weights learned on own traffic", own),
                ("outline, features and score in one", all),
            ];
            for (step, figures) in steps {
                println!("| {name} | {kilobytes} KB | {step} | {figures} |");
            }
        }
    }
}

/// Returns learned weights of full size.
fn ones() -> Linear {
    Linear {
        offset: 0.01,
        levels: PerFeature([0.01; signalbox::prompt::complexity::FEATURES]),
        terms: vec![0.01; PLACES],
    }
}
