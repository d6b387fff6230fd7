//! Prices a policy with `signalbox replay`, then runs it on the same traffic.

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use super::{
    client::{self, End, Sse},
    gateway::Gateway,
    until,
};

/// A planned request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Seconds after the first.
    pub at: f64,
    /// Words of its prompt, and tokens of its answer.
    pub words: usize,
    pub tokens: u32,
}

/// Draws `count` requests, `per_second` on average; six in ten are short, the others up to `longest` words long.
pub fn traffic(count: usize, per_second: f64, longest: usize, seed: u64) -> Vec<Asked> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut at = 0.0;
    (0..count)
        .map(|_| {
            at -= (1.0 - dice.f64()).ln() / per_second;
            let words = if dice.f64() < 0.6 { dice.usize(10..longest / 5) } else { dice.usize(longest / 5..longest) };
            Asked { at, words, tokens: dice.u32(6..40) }
        })
        .collect()
}

/// Runs `policy`, which writes `journal.jsonl`, under `traffic` for the model `auto`, and returns its journal. Prompts of another run have the
/// same lengths and other beginnings, so engines have no prefix of them cached.
pub async fn run(policy: &str, traffic: &[Asked]) -> String {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let turn = RUNS.fetch_add(1, Relaxed);
    let gateway = Gateway::start(policy).await;
    let (http, started) = (client::http(), Instant::now());
    let mut asking = JoinSet::new();
    for (number, asked) in traffic.iter().enumerate() {
        tokio::time::sleep_until(started + Duration::from_secs_f64(asked.at)).await;
        let body = json!({
            "model": "auto", "stream": true, "max_tokens": asked.tokens, "ignore_eos": true,
            "messages": [{ "role": "user", "content": text(turn, number, asked.words) }],
        });
        let request = client::json(http.post(gateway.at("/v1/chat/completions")), &body);
        let request = request.header("x-sim-output-tokens", asked.tokens);
        asking.spawn(async move {
            let mut answer = Sse::send(request).await;
            assert_eq!(answer.status, 200, "the engines answer");
            let (_, end) = answer.rest().await;
            assert!(matches!(end, End::Clean), "{end:?}");
        });
    }
    asking.join_all().await;
    let path = gateway.dir().join("journal.jsonl");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    let whole = || read().split_inclusive('\n').filter(|line| line.ends_with('\n')).count();
    until("every request to be in the journal", async || whole() >= traffic.len()).await;
    read()
}

/// Makes a text that no two requests have in common, so that no prefix of it is cached.
fn text(turn: usize, number: usize, words: usize) -> String {
    const WORDS: [&str; 8] = ["signal ", "lamp ", "track ", "the ", "lever ", "of a ", "points ", "block, "];
    let mut dice = fastrand::Rng::with_seed(number as u64);
    let mut text = format!("{turn:03} {number:05} ");
    text.extend((0..words).map(|_| WORDS[dice.usize(0..WORDS.len())]));
    text
}

/// Runs `signalbox replay` and returns its JSON.
pub fn replay(dir: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .arg("replay")
        .args(arguments)
        .arg("--json")
        .current_dir(dir)
        .output()
        .expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A policy priced from the journal of another one, and its actual results.
#[derive(Debug)]
pub struct Compared {
    /// Prices of the new policy and of the previous one.
    pub priced: Value,
    /// Results of the run.
    pub happened: Value,
}

/// Runs `was` under `traffic`, prices `new` from its journal alone, and runs `new` under the same traffic.
pub async fn compare(was: &str, new: &str, traffic: &[Asked], seeds: &str) -> Compared {
    let dir = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a file");
    put("was.yaml", was);
    put("new.yaml", new);
    put("was.jsonl", &run(was, traffic).await);
    let priced = ["--journal", "was.jsonl", "--was", "was.yaml", "--policy", "new.yaml", "--seeds", seeds];
    let priced = replay(dir.path(), &priced);
    put("new.jsonl", &run(new, traffic).await);
    // Only the results are needed here, so engines need not be learned.
    put("any.yaml", "engines: { default: small }\n");
    let happened = ["--journal", "new.jsonl", "--policy", "new.yaml", "--engines", "any.yaml", "--seeds", "1"];
    let happened = replay(dir.path(), &happened);
    if let Some(kept) = std::env::var_os("SIGNALBOX_KEEP") {
        // Keeps the inputs for inspection.
        for name in ["was.yaml", "new.yaml", "was.jsonl", "new.jsonl"] {
            std::fs::copy(dir.path().join(name), Path::new(&kept).join(name)).expect("a copy");
        }
    }
    Compared { priced, happened: happened["happened"].clone() }
}

impl Compared {
    /// Returns a figure as priced and as measured, by its path.
    pub fn both(&self, path: &str) -> (f64, f64) {
        let priced = self.priced["policies"].as_array().and_then(|all| all.last()).expect("policies");
        let mean = priced["figures"].pointer(&format!("{path}/mean")).and_then(Value::as_f64);
        let happened = self.happened.pointer(path).and_then(Value::as_f64);
        (mean.unwrap_or(f64::NAN), happened.unwrap_or(f64::NAN))
    }

    /// Relative error of a priced figure.
    pub fn off(&self, path: &str) -> f64 {
        let (priced, happened) = self.both(path);
        (priced / happened - 1.0).abs()
    }

    /// Error of a pool's share, in points.
    pub fn share_off(&self, pool: &str) -> f64 {
        let (priced, happened) = self.both(&format!("/shares/{pool}"));
        let known = |share: f64| if share.is_nan() { 0.0 } else { share };
        (known(priced) - known(happened)).abs() * 100.0
    }
}
