//! Writes the priors that are compiled in, `src/cache/confidence/priors.json`, from labelled pairs.
//!
//! ```sh
//! cargo run --release --example fit_cache -- 2026-11-21
//! ```
//!
//! Reads `pairs/qqp-dev.jsonl.gz` below `SIGNALBOX_DATA` (its fit half), the fit half of the adversarial set, and labels that were read again
//! (`benches/cache/fit_labels.tsv`), and takes the vectors of the built-in embedders. Nothing is drawn at random. With `--show N` it
//! prints the N most probable of the candidates that the labels call false instead, for reading.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program tells on stdout what it did")]

#[path = "../benches/cache/data.rs"]
mod data;

use std::{collections::HashMap, env, error::Error, fs, path::Path};

use signalbox::cache::{
    confidence::{FEATURES, NAMES, Prior, Provenance, SIGNS, Signals},
    guard::{Traits, compare},
    replay::{Corpus, Half, Stream, fingerprint},
    semantic::RECALL,
};

/// The share of queries with a partner that the weights stand for: low, for a budget that is kept there is kept where more repeat.
const PREVALENCE: f64 = 0.05;
/// The weight of the adversarial pairs, by that of the stream. Pairs that serve count there like those that do not: they say which
/// differences matter, and the stream alone says how probable it is.
const ADVERSARIAL: f64 = 0.03;
/// How strongly weights are held near 0.
const RIDGE: f64 = 1.0;

/// From these log odds on the slope is fitted once more.
const PROBABLE: f64 = 2.0;

type Features = [f32; FEATURES];

/// A candidate with its label, and what it counts for.
struct Row {
    features: Features,
    same: bool,
    weight: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = env::args().skip(1).collect();
    let show = match args.iter().position(|arg| arg == "--show") {
        Some(at) => args.drain(at..at + 2).nth(1).and_then(|count| count.parse::<usize>().ok()),
        None => None,
    };
    let [day] = &args[..] else { return Err("say the date, as YYYY-MM-DD".into()) };
    let store = data::Store::open()?;
    let pairs = data::question_pairs()?;
    let corrections: HashMap<(u64, u64), bool> =
        data::sheet("fit_labels.tsv")?.into_iter().map(|(pair, label)| (pair, label == "yes")).collect();
    let corpus = Corpus::of(&pairs, Half::Fit, &corrections);
    let (recall, decide) = store.vectors(&corpus.texts);
    let stream = Stream::of(&corpus, &recall, &decide, RECALL, || ());
    let adversarial = adversarial(&store)?;
    let mut weights = [0.0f64; FEATURES];
    (weights[0], weights[1]) = (-9.0, 3.0);
    let mut covariance = [[0.0; FEATURES]; FEATURES];
    let mut rows = Vec::new();
    // The candidate that a query would be served with depends on the weights.
    for _ in 0..4 {
        rows = chosen(&stream, &weights);
        rows.extend(adversarial.iter().map(|(features, same)| Row { features: *features, same: *same, weight: 0.0 }));
        weigh(&mut rows, &stream, adversarial.len());
        (weights, covariance) = solve(&rows);
    }
    sharpen(&rows[..rows.len() - adversarial.len()], &mut weights, &mut covariance);
    if let Some(most) = show {
        let shown = show_false(&corpus, &stream, &weights, most);
        println!("{shown}");
        return Ok(());
    }
    for (name, weight) in NAMES.iter().zip(weights) {
        println!("{name:>14} {weight:8.3}");
    }
    table(&rows, &weights);
    let counts = |same: bool| rows.iter().filter(|row| row.same == same).count();
    let provenance = Provenance {
        program: "examples/fit_cache.rs, no randomness".into(),
        date: day.clone(),
        data: vec![
            format!(
                "QQP dev, fit half: {} texts, {} queries over {} entries",
                corpus.texts.len(),
                stream.queries.len(),
                stream.stored
            ),
            format!("adversarial set, fit half: {} pairs that no guard keeps apart", adversarial.len()),
            format!(
                "candidates that serve: {}, that do not: {}; labels read again: {}",
                counts(true),
                counts(false),
                corrections.len()
            ),
        ],
    };
    let narrow = |wide: &[f64; FEATURES]| wide.map(|value| value as f32);
    let own = Prior::new(
        "minilm-l6-w8",
        PREVALENCE as f32,
        &narrow(&weights),
        &covariance.map(|row| narrow(&row)),
        provenance.clone(),
    );
    // Another embedder's similarities may mean less: half of what they add above .7 is taken back, and the offset is less sure.
    let mut doubted = weights;
    let level = -(0.3f64.ln());
    (doubted[0], doubted[1]) = (weights[0] + 0.5 * weights[1] * level - 0.5, 0.5 * weights[1]);
    let mut wide = covariance;
    wide[0][0] += 1.0;
    let other = Prior::new("", PREVALENCE as f32, &narrow(&doubted), &wide.map(|row| narrow(&row)), provenance);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cache/confidence/priors.json");
    fs::write(&path, serde_json::to_string_pretty(&[own, other])? + "\n")?;
    println!("{}", path.display());
    Ok(())
}

/// The adversarial pairs of the fit half, each as if the store held nothing else.
fn adversarial(store: &data::Store) -> Result<Vec<(Features, bool)>, Box<dyn Error>> {
    let pairs = data::adversarial_pairs("fit")?;
    let texts: Vec<String> = pairs.iter().flat_map(|(_, pair)| [pair.a.clone(), pair.b.clone()]).collect();
    let (recall, decide) = store.vectors(&texts);
    let rows = pairs.iter().enumerate().filter_map(|(at, (_, pair))| {
        let comparison = compare(&Traits::of(&pair.b), &Traits::of(&pair.a));
        let similarity = decide.cosine(2 * at, 2 * at + 1);
        let signals = Signals { similarity, recall: recall.cosine(2 * at, 2 * at + 1), margin: similarity };
        comparison.guard.is_none().then(|| (signals.features(&comparison.soft), pair.same))
    });
    Ok(rows.collect())
}

/// For each query the candidate with the highest log odds, of those that no guard keeps apart.
fn chosen(stream: &Stream, weights: &[f64; FEATURES]) -> Vec<Row> {
    let best = |at: usize| {
        let open = stream.queries[at].candidates.iter().filter(|candidate| candidate.comparison.guard.is_none());
        let rated = open.map(|candidate| (candidate.signals.features(&candidate.comparison.soft), candidate.same));
        rated.max_by(|one, other| log_odds(weights, &one.0).total_cmp(&log_odds(weights, &other.0)))
    };
    (0..stream.queries.len())
        .filter_map(|at| {
            best(at).map(|(features, same)| Row {
                features,
                same,
                weight: if stream.queries[at].partner { 1.0 } else { -1.0 },
            })
        })
        .collect()
}

/// Weighs rows as a stream of the prevalence would hold them, and the adversarial ones beside them; all weights sum to their number.
fn weigh(rows: &mut [Row], stream: &Stream, adversarial: usize) {
    let partners = stream.queries.iter().filter(|query| query.partner).count() as f64;
    let others = stream.queries.len() as f64 - partners;
    let all = stream.queries.len() as f64;
    for row in rows.iter_mut() {
        row.weight = match row.weight {
            weight if weight > 0.0 => PREVALENCE / partners * all,
            weight if weight < 0.0 => (1.0 - PREVALENCE) / others * all,
            _ => ADVERSARIAL * all / adversarial as f64,
        };
    }
}

fn log_odds(weights: &[f64; FEATURES], features: &Features) -> f64 {
    weights.iter().zip(features).map(|(weight, value)| weight * f64::from(*value)).sum()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Weights with the least loss, and their covariance: Newton's method (iteratively reweighted least squares) with a ridge. A weight of
/// the wrong sign is taken out, and the others are fitted anew.
fn solve(rows: &[Row]) -> ([f64; FEATURES], [[f64; FEATURES]; FEATURES]) {
    let mut active = [true; FEATURES];
    loop {
        let mut weights = [0.0; FEATURES];
        weights[0] = -4.0;
        let mut inverse = [[0.0; FEATURES]; FEATURES];
        for _ in 0..40 {
            let mut hessian = [[0.0; FEATURES]; FEATURES];
            let mut gradient = [0.0; FEATURES];
            for row in rows {
                let p = logistic(log_odds(&weights, &row.features));
                let residual = row.weight * (f64::from(u8::from(row.same)) - p);
                for (i, value) in row.features.iter().enumerate().filter(|(i, _)| active[*i]) {
                    gradient[i] += residual * f64::from(*value);
                    for (j, other) in row.features.iter().enumerate().filter(|(j, _)| active[*j]) {
                        hessian[i][j] += row.weight * p * (1.0 - p) * f64::from(*value) * f64::from(*other);
                    }
                }
            }
            for i in 0..FEATURES {
                let ridge = if i == 0 { 1e-6 } else { RIDGE };
                gradient[i] -= ridge * weights[i];
                hessian[i][i] += if active[i] { ridge } else { 1e12 };
            }
            inverse = invert(hessian);
            let steps: Vec<f64> =
                inverse.iter().map(|row| row.iter().zip(&gradient).map(|(a, b)| a * b).sum()).collect();
            let largest = steps.iter().fold(0.0f64, |most, step| most.max(step.abs()));
            let damp = (2.0 / largest).min(1.0);
            weights.iter_mut().zip(&steps).for_each(|(weight, step)| *weight += damp * step);
            if largest < 1e-9 {
                break;
            }
        }
        let wrong = (0..FEATURES).filter(|at| active[*at] && weights[*at] * f64::from(SIGNS[*at]) < 0.0);
        let Some(worst) = wrong.max_by(|one, other| weights[*one].abs().total_cmp(&weights[*other].abs())) else {
            (0..FEATURES).filter(|at| !active[*at]).for_each(|at| weights[at] = 0.0);
            return (weights, inverse);
        };
        active[worst] = false;
    }
}

/// Stretches the log odds to what is found among the more probable candidates (Platt, 1999). The labels of improbable ones are wrong
/// more often than their model could be, and hold the slope down for all. Targets are Platt's, so that no slope is without end.
fn sharpen(rows: &[Row], weights: &mut [f64; FEATURES], covariance: &mut [[f64; FEATURES]; FEATURES]) {
    let (mut offset, mut slope) = (0.0, 1.0);
    let count = |same: bool| {
        let probable = rows.iter().filter(|row| row.same == same && log_odds(weights, &row.features) > PROBABLE);
        probable.count() as f64
    };
    let targets = [1.0 / (count(false) + 2.0), (count(true) + 1.0) / (count(true) + 2.0)];
    for _ in 0..50 {
        let (mut g, mut h) = ([0.0f64; 2], [[1e-9f64, 0.0], [0.0, 1e-9]]);
        for row in rows {
            let x = log_odds(weights, &row.features);
            if x > PROBABLE {
                let p = logistic(offset + slope * x);
                let residual = row.weight * (targets[usize::from(row.same)] - p);
                let curve = row.weight * p * (1.0 - p);
                (g[0], g[1]) = (g[0] + residual, g[1] + residual * x);
                h = [[h[0][0] + curve, h[0][1] + curve * x], [h[1][0] + curve * x, h[1][1] + curve * x * x]];
            }
        }
        let determinant = h[0][0] * h[1][1] - h[0][1] * h[1][0];
        offset += (h[1][1] * g[0] - h[0][1] * g[1]) / determinant;
        slope += (h[0][0] * g[1] - h[1][0] * g[0]) / determinant;
    }
    println!("stretched by {slope:.3}, and {offset:.3} added");
    for weight in weights.iter_mut() {
        *weight *= slope;
    }
    weights[0] += offset;
    covariance.iter_mut().flatten().for_each(|entry| *entry *= slope * slope);
}

/// By Gauss and Jordan; the matrix is positive definite.
fn invert(mut matrix: [[f64; FEATURES]; FEATURES]) -> [[f64; FEATURES]; FEATURES] {
    let mut inverse = [[0.0; FEATURES]; FEATURES];
    for (at, row) in inverse.iter_mut().enumerate() {
        row[at] = 1.0;
    }
    for at in 0..FEATURES {
        let pivot = matrix[at][at];
        for column in 0..FEATURES {
            matrix[at][column] /= pivot;
            inverse[at][column] /= pivot;
        }
        for row in (0..FEATURES).filter(|row| *row != at) {
            let times = matrix[row][at];
            for column in 0..FEATURES {
                matrix[row][column] -= times * matrix[at][column];
                inverse[row][column] -= times * inverse[at][column];
            }
        }
    }
    inverse
}

/// Stated against found, by bins of the log odds, weighed.
fn table(rows: &[Row], weights: &[f64; FEATURES]) {
    println!("log odds | rows | stated | found, weighed | false rows");
    for bin in -6..8 {
        let odds = |row: &Row| log_odds(weights, &row.features);
        let own: Vec<&Row> = rows.iter().filter(|row| odds(row).floor().clamp(-6.0, 7.0) as i32 == bin).collect();
        let all: f64 = own.iter().map(|row| row.weight).sum();
        let stated: f64 = own.iter().map(|row| row.weight * logistic(odds(row))).sum::<f64>() / all.max(1e-9);
        let found: f64 = own.iter().filter(|row| row.same).map(|row| row.weight).sum::<f64>() / all.max(1e-9);
        println!(
            "{bin:>3} | {:>5} | {stated:.4} | {found:.4} | {}",
            own.len(),
            own.iter().filter(|row| !row.same).count()
        );
    }
}

/// The most probable candidates that the labels call false.
fn show_false(corpus: &Corpus, stream: &Stream, weights: &[f64; FEATURES], most: usize) -> String {
    let mut found: Vec<(f64, &str, &str)> = Vec::new();
    for query in &stream.queries {
        for candidate in
            query.candidates.iter().filter(|candidate| candidate.comparison.guard.is_none() && !candidate.same)
        {
            let odds = log_odds(weights, &candidate.signals.features(&candidate.comparison.soft));
            found.push((odds, &corpus.texts[candidate.entry], &corpus.texts[query.text]));
        }
    }
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    let lines = found
        .iter()
        .take(most)
        .map(|(odds, a, b)| format!("{:016x}\t{:016x}\t{odds:.1}\t{a}\t{b}", fingerprint(a), fingerprint(b)));
    lines.collect::<Vec<_>>().join("\n")
}
