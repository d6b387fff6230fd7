//! Fits the compiled-in priors, `crates/cache/src/confidence/priors.json`, to labelled pairs.
//!
//! ```sh
//! cargo run --release --example fit_cache -- 2026-11-21
//! ```
//!
//! Reads the fit half of `pairs/qqp-dev.jsonl.gz` below `SIGNALBOX_DATA`, the fit half of the adversarial set, and corrected labels
//! (`benches/cache/fit_labels.tsv`), with vectors of the built-in embedders. Settings of the fit are chosen by cross-validation: of those
//! that keep all budgets on the held-out folds, the one that serves most. Nothing is random. With `--show N` it prints the N most probable
//! candidates without a corrected label instead, for reading.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program reports on stdout")]

#[path = "../../benches/cache/data.rs"]
mod data;
mod folds;
mod model;

use std::{collections::HashMap, env, error::Error, fs, path::Path};

use signalbox::{
    cache::confidence::{FEATURES, NAMES, Prior, Provenance},
    embed,
    lab::cache_replay::{Corpus, Half, Query, Stream, fingerprint},
};

use crate::{
    folds::{Found, Part},
    model::{Fit, PREVALENCE, Row, Setting, fit, log_odds, logistic, sharpen},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = env::args().skip(1).collect();
    let show = match args.iter().position(|arg| arg == "--show") {
        Some(at) => args.drain(at..at + 2).nth(1).and_then(|count| count.parse::<usize>().ok()),
        None => None,
    };
    let [day] = &args[..] else { return Err("missing argument: the date as YYYY-MM-DD".into()) };
    let store = data::Store::open()?;
    let pairs = data::question_pairs()?;
    let corrections: HashMap<(u64, u64), bool> =
        data::sheet("fit_labels.tsv")?.into_iter().map(|(pair, label)| (pair, label == "yes")).collect();
    let corpus = Corpus::of(&pairs, Half::Fit, &corrections);
    let (_, decide) = store.vectors(&corpus.texts);
    let Stream { stored, queries } = Stream::of(&corpus, &decide, &*embed::recall()?, || ());
    let stream: Vec<Part> = queries
        .into_iter()
        .map(|query| {
            let mark = fingerprint(&corpus.texts[query.text]);
            Part::new(query, mark)
        })
        .collect();
    let adversarial = adversarial(&store)?;
    let setting = choose(&folds::all(&stream, &adversarial))?;
    let [own, beside] = [&stream, &adversarial].map(|parts| parts.iter().map(|part| &part.rated).collect::<Vec<_>>());
    let (base, rows) = fit(&own, &beside, setting);
    let found = setting.probable.map_or_else(|| base.clone(), |probable| sharpen(&rows, &base, probable));
    if let Some(most) = show {
        println!("{}", unread(&corpus, &stream, &corrections, &found, most));
        return Ok(());
    }
    for (name, weight) in NAMES.iter().zip(found.weights) {
        println!("{name:>14} {weight:8.3}");
    }
    table(&rows, &found);
    let counts = |same: bool| rows.iter().filter(|row| row.same == same).count();
    let data = vec![
        format!("QQP dev, fit half: {} texts, {} queries over {stored} entries", corpus.texts.len(), stream.len()),
        format!("adversarial set, fit half: {} pairs", adversarial.len()),
        format!(
            "candidates that serve: {}, that do not: {}; labels read again: {}",
            counts(true),
            counts(false),
            corrections.len()
        ),
        format!("{setting:?}, chosen by parts left out"),
    ];
    write(&found, &Provenance { program: "examples/fit_cache, no randomness".into(), date: day.clone(), data })
}

/// Reads the adversarial pairs of the fit half, each as if the store held nothing else. Pairs of one template share a fold.
fn adversarial(store: &data::Store) -> Result<Vec<Part>, Box<dyn Error>> {
    let pairs = data::adversarial_pairs("fit")?;
    let texts: Vec<String> = pairs.iter().flat_map(|(.., pair)| [pair.a.clone(), pair.b.clone()]).collect();
    let (_, decide) = store.vectors(&texts);
    let parts = pairs.iter().enumerate().map(|(at, (family, template, pair))| {
        let query = Query::alone(pair, decide.cosine(2 * at, 2 * at + 1));
        Part::new(query, fingerprint(&format!("{family} {template}")))
    });
    Ok(parts.collect())
}

/// Returns the setting that serves most among those that keep all budgets.
fn choose(found: &[Found]) -> Result<Setting, Box<dyn Error>> {
    let budgets = folds::BUDGETS.map(|budget| format!("{:.0} %: right, false % (to), adversarial", 100.0 * budget));
    println!("| ridge | adversarial | slope from | {} | served |", budgets.join(" | "));
    for found in found {
        println!("{}{}", found.line(), if found.keeps() { "" } else { " no" });
    }
    let best = found.iter().filter(|found| found.keeps()).max_by(|one, other| one.served().total_cmp(&other.served()));
    let best = best.ok_or("no setting keeps the budgets")?;
    println!("\n{}\n", best.line());
    Ok(best.setting)
}

/// Writes the prior of the built-in embedder and one for all others.
fn write(found: &Fit, provenance: &Provenance) -> Result<(), Box<dyn Error>> {
    let narrow = |wide: &[f64; FEATURES]| wide.map(|value| value as f32);
    let prior = |name: &str, weights: &[f64; FEATURES], covariance: &[[f64; FEATURES]; FEATURES]| {
        let covariance = covariance.map(|row| narrow(&row));
        Prior::new(name, PREVALENCE as f32, &narrow(weights), &covariance, provenance.clone())
    };
    // Similarities of other embedders may mean less: their gain above .7 is halved, and the offset is less certain.
    let mut doubted = found.weights;
    let level = -(0.3f64.ln());
    (doubted[0], doubted[1]) = (doubted[0] + 0.5 * doubted[1] * level - 0.5, 0.5 * doubted[1]);
    let mut wide = found.covariance;
    wide[0][0] += 1.0;
    let priors = [prior("minilm-l6-w8", &found.weights, &found.covariance), prior("", &doubted, &wide)];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/cache/src/confidence/priors.json");
    fs::write(&path, serde_json::to_string_pretty(&priors)? + "\n")?;
    println!("{}", path.display());
    Ok(())
}

/// Prints stated against measured probability by bins of the log odds, weighted.
fn table(rows: &[Row], found: &Fit) {
    println!("log odds | rows | stated | found, weighted | false rows");
    for bin in -6..8 {
        let odds = |row: &Row| log_odds(&found.weights, &row.features);
        let own: Vec<&Row> = rows.iter().filter(|row| odds(row).floor().clamp(-6.0, 7.0) as i32 == bin).collect();
        let all: f64 = own.iter().map(|row| row.weight).sum();
        let stated: f64 = own.iter().map(|row| row.weight * logistic(odds(row))).sum::<f64>() / all.max(1e-9);
        let same: f64 = own.iter().filter(|row| row.same).map(|row| row.weight).sum::<f64>() / all.max(1e-9);
        println!(
            "{bin:>3} | {:>5} | {stated:.4} | {same:.4} | {}",
            own.len(),
            own.iter().filter(|row| !row.same).count()
        );
    }
}

/// Lists the most probable candidates without a corrected label: fingerprints, log odds, label, texts.
fn unread(corpus: &Corpus, stream: &[Part], read: &HashMap<(u64, u64), bool>, found: &Fit, most: usize) -> String {
    let best = stream.iter().filter_map(|Part { query, .. }| {
        let open = query.candidates.iter().filter(|candidate| candidate.comparison.guard.is_none());
        let rated = open.map(|it| (log_odds(&found.weights, &it.signals.features(&it.comparison.soft)), it));
        let (odds, best) = rated.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some((odds, best.same, &corpus.texts[best.entry], &corpus.texts[query.text]))
    });
    let mut left: Vec<_> = best.filter(|(_, _, a, b)| !read.contains_key(&(fingerprint(a), fingerprint(b)))).collect();
    left.sort_by(|one, other| other.0.total_cmp(&one.0));
    let lines = left.iter().take(most).map(|(odds, same, a, b)| {
        format!("{:016x}\t{:016x}\t{odds:.2}\t{same}\t{a}\t{b}", fingerprint(a), fingerprint(b))
    });
    lines.collect::<Vec<_>>().join("\n")
}
