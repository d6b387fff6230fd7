//! Traffic whose scores shift once: synthetic with known gaps, and recorded outcomes with the prompt's length as score.

use std::{collections::HashSet, fs::File, io::Read, path::PathBuf};

use fastrand::Rng;
use flate2::read::GzDecoder;
use serde_json::Value;

/// Requests before the shift, and as many after it.
pub(crate) const REGIME: usize = 5_000;

/// One request.
#[derive(Copy, Clone)]
pub(crate) struct Ask {
    pub(crate) score: f64,
    /// Quality of the small model's answer.
    pub(crate) quality: f64,
    /// Gain of the large model; may be negative with recorded outcomes.
    pub(crate) gap: f64,
    pub(crate) session: Option<u64>,
    pub(crate) tool_loop: bool,
}

/// Source of the scores.
pub(crate) enum Shape {
    /// A score from the regime and the dice.
    Scores(fn(bool, &mut Rng) -> f64),
    /// Runs of geometric length with this mean: consecutive requests are alike.
    Runs(f64),
    Sessions(Sessions),
    /// Recorded outcomes of the two regimes.
    Outcomes([Vec<Ask>; 2]),
}

/// Concurrent sessions of geometric length: mean length and difficulty before and after the shift, and the scatter of turns around the
/// difficulty. Some are agents with tools.
#[derive(Copy, Clone)]
pub(crate) struct Sessions {
    at_once: usize,
    turns: [f64; 2],
    difficulty: [f64; 2],
    scatter: f64,
}

/// Returns all traffic by name, with `at_once` concurrent sessions.
pub(crate) fn shapes(at_once: usize) -> Vec<(&'static str, Shape)> {
    let scores = |draw| Shape::Scores(draw);
    let usual = Sessions { at_once, turns: [3.0; 2], difficulty: [0.4, 0.6], scatter: 0.1 };
    let mut shapes = vec![
        (
            "gaussian mix",
            scores(|late, dice| {
                let (mean, spread) = match (late, dice.f64() < 0.3) {
                    (false, false) => (0.35, 0.12),
                    (false, true) => (0.7, 0.1),
                    (true, false) => (0.6, 0.1),
                    (true, true) => (0.85, 0.05),
                };
                mean + spread * normal(dice)
            }),
        ),
        ("all harder", scores(|late, dice| if late { 0.5 } else { 0.0 } + 0.5 * dice.f64())),
        ("all easier", scores(|late, dice| if late { 0.0 } else { 0.5 } + 0.5 * dice.f64())),
        (
            "bimodal, 10 → 60 % hard",
            scores(|late, dice| {
                let hard = dice.f64() < if late { 0.6 } else { 0.1 };
                if hard { 0.9 + 0.03 * normal(dice) } else { 0.1 + 0.03 * normal(dice) }
            }),
        ),
        ("constant", scores(|late, _| if late { 0.7 } else { 0.4 })),
        (
            "five values",
            scores(|late, dice| {
                let weights = if late { [0.2, 0.1, 0.1, 0.4, 0.2] } else { [0.5, 0.2, 0.15, 0.1, 0.05] };
                let mut left = dice.f64();
                let place = weights.iter().position(|weight| {
                    left -= weight;
                    left < 0.0
                });
                [0.0, 0.3, 0.5, 0.8, 1.0][place.unwrap_or(4)]
            }),
        ),
        ("in runs of 20", Shape::Runs(20.0)),
        ("sessions, 2 turns", Shape::Sessions(Sessions { turns: [2.0; 2], ..usual })),
        ("sessions, 3 turns", Shape::Sessions(usual)),
        ("sessions, 8 turns", Shape::Sessions(Sessions { turns: [8.0; 2], ..usual })),
        ("8 turns, scattered", Shape::Sessions(Sessions { turns: [8.0; 2], scatter: 0.2, ..usual })),
        ("8 turns, then 1", Shape::Sessions(Sessions { turns: [8.0, 1.0], difficulty: [0.5; 2], ..usual })),
        ("1 turn, then 8", Shape::Sessions(Sessions { turns: [1.0, 8.0], difficulty: [0.5; 2], ..usual })),
    ];
    shapes.extend(outcomes("routellm-mmlu-dev.jsonl.gz", "small", "large").map(|asks| ("MMLU, by length", asks)));
    let (small, large) = ("qwen2.5-7b-instruct", "llama-3.1-nemotron-51b-instruct");
    shapes.extend(outcomes("llmrouter-mix.jsonl.gz", small, large).map(|asks| ("14 tasks, by length", asks)));
    shapes
}

impl Shape {
    /// Draws the requests of both regimes.
    pub(crate) fn requests(&self, seed: u64) -> Vec<Ask> {
        let mut dice = Rng::with_seed(seed);
        match self {
            Self::Scores(draw) => {
                (0..2 * REGIME).map(|n| synthetic(draw(n >= REGIME, &mut dice), None, false)).collect()
            }
            Self::Runs(length) => runs(*length, &mut dice),
            Self::Sessions(kind) => sessions(*kind, &mut dice),
            Self::Outcomes(regimes) => {
                let regimes = regimes.iter().flat_map(|asks| std::iter::repeat_n(asks, REGIME));
                regimes.map(|asks| asks[dice.usize(..asks.len())]).collect()
            }
        }
    }
}

/// Makes a request whose gap grows and whose quality falls with its score.
fn synthetic(score: f64, session: Option<u64>, tool_loop: bool) -> Ask {
    let score = score.clamp(0.0, 1.0);
    Ask { score, quality: 0.9 - 0.6 * score, gap: 0.5 * score * score, session, tool_loop }
}

/// Draws runs: each has a difficulty, around which its requests scatter.
fn runs(length: f64, dice: &mut Rng) -> Vec<Ask> {
    let mut difficulty = 0.0;
    (0..2 * REGIME)
        .map(|n| {
            if n % REGIME == 0 || dice.f64() < 1.0 / length {
                difficulty = if n < REGIME { 0.1 } else { 0.3 } + 0.6 * dice.f64();
            }
            synthetic(difficulty + 0.08 * normal(dice), None, false)
        })
        .collect()
}

/// Draws sessions that take turns at random. A session has a difficulty, around which its turns scatter; three in ten are agents, whose
/// turns after the first carry tool results. Later turns are shorter and score lower.
fn sessions(kind: Sessions, dice: &mut Rng) -> Vec<Ask> {
    let begin = |dice: &mut Rng, late: bool| {
        let difficulty = kind.difficulty[usize::from(late)] + 0.15 * normal(dice);
        (dice.u64(..), difficulty, dice.f64() < 0.3, 0)
    };
    let mut open: Vec<_> = (0..kind.at_once).map(|_| begin(dice, false)).collect();
    (0..2 * REGIME)
        .map(|n| {
            let (place, late) = (dice.usize(..kind.at_once), n >= REGIME);
            let (session, difficulty, agent, turn) = &mut open[place];
            let later = if *turn > 0 { 0.1 } else { 0.0 };
            let ask = synthetic(*difficulty - later + kind.scatter * normal(dice), Some(*session), *agent && *turn > 0);
            *turn += 1;
            if dice.f64() < 1.0 / kind.turns[usize::from(late)] {
                open[place] = begin(dice, late);
            }
            ask
        })
        .collect()
}

/// Reads recorded outcomes, split by task: every second task comes after the shift. `None` if the file is missing.
fn outcomes(file: &str, small: &str, large: &str) -> Option<Shape> {
    let folder = std::env::var_os("SIGNALBOX_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let path = folder.join("outcomes").join(file);
    let Ok(opened) = File::open(&path) else {
        println!("Left out: {} is missing (see SIGNALBOX_DATA).", path.display());
        return None;
    };
    let mut text = String::new();
    GzDecoder::new(opened).read_to_string(&mut text).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tasks: HashSet<&str> = rows.iter().filter_map(|row| row["task"].as_str()).collect();
    let mut tasks: Vec<&str> = tasks.into_iter().collect();
    tasks.sort_unstable();
    let mut regimes = [Vec::new(), Vec::new()];
    for row in &rows {
        let of = |model: &str| row["scores"].get(model).or_else(|| row.get(model)).and_then(Value::as_f64).unwrap();
        let task = tasks.iter().position(|task| row["task"] == **task).unwrap();
        let length = row["prompt"].as_str().unwrap().len() as f64;
        let (quality, gap) = (of(small), of(large) - of(small));
        let score = ((length.ln() - 3.0) / 6.0).clamp(0.0, 1.0);
        regimes[task % 2].push(Ask { score, quality, gap, session: None, tool_loop: false });
    }
    Some(Shape::Outcomes(regimes))
}

/// Approximately normal: the sum of twelve uniform draws.
pub(crate) fn normal(dice: &mut Rng) -> f64 {
    (0..12).map(|_| dice.f64()).sum::<f64>() - 6.0
}
