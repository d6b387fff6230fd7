//! Traffic of a turn: requests with their times, drawn from a seed.

use serde_json::{Value, json};

/// Kinds of traffic.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Traffic {
    /// Three in ten prompts of 600 to 1,200 words, the others of twelve; short answers. Nothing repeats.
    Mix,
    /// Conversations of up to eight turns that grow by 30 to 150 words each.
    Chat,
}

/// A request to send.
pub(crate) struct Planned {
    /// Seconds after the turn's start.
    pub at: f64,
    /// Chat messages.
    pub messages: Vec<Value>,
    /// Tokens of the answer.
    pub tokens: u32,
}

/// Conversations open at any time.
const OPEN: usize = 16;
/// Turns of the longest conversation.
const TURNS: u32 = 8;

/// Draws `count` requests at `rate` per second. Each text begins with `mark`, so that nothing is cached from another turn of the bench.
pub(crate) fn plan(traffic: Traffic, mark: &str, seed: u64, count: usize, rate: f64) -> Vec<Planned> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut open: Vec<(u32, Vec<Value>)> = (0..OPEN).map(|_| (dice.u32(1..=TURNS), Vec::new())).collect();
    let mut at = 0.0;
    (0..count)
        .map(|number| {
            at += -(1.0 - dice.f64()).ln() / rate;
            let (messages, tokens) = match traffic {
                Traffic::Mix => {
                    let (words, tokens) = match dice.u32(0..10) {
                        0..3 => (600 + dice.usize(0..600), 4),
                        3..6 => (12, 60),
                        _ => (12, 8),
                    };
                    (vec![said("user", &format!("{mark} {number}: {}", "lamps ".repeat(words)))], tokens)
                }
                Traffic::Chat => {
                    let (left, messages) = &mut open[dice.usize(0..OPEN)];
                    if *left == 0 {
                        (*left, *messages) = (dice.u32(1..=TURNS), Vec::new());
                    }
                    *left -= 1;
                    if !messages.is_empty() {
                        messages.push(said("assistant", &"lamps ".repeat(dice.usize(8..40))));
                    }
                    let words = "lamps ".repeat(dice.usize(30..150));
                    messages.push(said("user", &format!("{mark} {number}: {words}")));
                    (messages.clone(), dice.u32(8..40))
                }
            };
            Planned { at, messages, tokens }
        })
        .collect()
}

fn said(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": text })
}
