//! Evaluation of the complexity ranking on prompts whose outcomes with a small and a large model are known.

mod baselines;
mod learn;
mod outcomes;
mod results;

use std::{collections::BTreeMap, path::PathBuf};

use self::outcomes::{Outcome, Outcomes};
pub use self::{
    learn::MIN_REPLAY_PROMPTS,
    results::{DRAWS, NOTHING, Results, Row, Set},
};
use signalbox_config::{Problem, Problems};
use signalbox_prompt::complexity::{
    Features, Weights,
    curve::{Interval, Ranking, bootstrap},
    fit::{Sample, fit},
    ranking,
};
use signalbox_types::Outline;

/// Seed of the bootstrap samples.
const SEED: u64 = 1;

/// Input of an evaluation.
pub struct Options<'a> {
    /// Files of outcomes.
    pub outcomes: &'a [PathBuf],
    /// The small models: a prompt counts with their mean quality.
    pub small: &'a [String],
    /// The large models, likewise.
    pub large: &'a [String],
    /// Rank each benchmark with weights that were fitted without it.
    pub leave_one_out: bool,
    /// Replay learning from feedback too.
    pub learn: bool,
}

/// Reads the outcomes and measures how well the ranking separates prompts by the gain of the large model.
pub fn evaluate(options: &Options<'_>) -> Result<Results, Problems> {
    measure(options, &Outcomes::open(options.outcomes, options.small, options.large)?)
}

fn measure(options: &Options<'_>, outcomes: &Outcomes) -> Result<Results, Problems> {
    let features: Vec<Features> =
        outcomes.rows.iter().map(|row| Features::of(&Outline::of_text(&row.prompt))).collect();
    let built_in = Weights::built_in();
    let ours: Vec<f64> = if options.leave_one_out {
        left_out(outcomes, &features).map_err(|error| {
            let help = "without `--leave-one-out` the weights that are compiled in are evaluated";
            Problems::new(&options.outcomes[0].display().to_string(), "".into(), vec![Problem::whole(error).help(help)])
        })?
    } else {
        features.iter().map(|features| f64::from(ranking(features, built_in))).collect()
    };
    let all: Vec<usize> = (0..outcomes.rows.len()).collect();
    let mut groups: Vec<(String, Vec<usize>)> = vec![("all".to_owned(), all)];
    for (key, of) in [(0, outcomes.files.as_slice()), (1, outcomes.benchmarks.as_slice())] {
        for (number, name) in of.iter().enumerate() {
            let own = |row: &Outcome| if key == 0 { row.file == number } else { row.benchmark == number };
            let rows: Vec<usize> = (0..outcomes.rows.len()).filter(|at| own(&outcomes.rows[*at])).collect();
            if groups.iter().all(|(_, known)| *known != rows) {
                groups.push((name.clone(), rows));
            }
        }
    }
    let sets = groups.into_iter().map(|(name, rows)| set(name, &rows, outcomes, &ours)).collect();
    let pairs = outcomes.pairs.iter().map(|pair| {
        let scores: Vec<f64> = pair.rows.iter().map(|(at, ..)| ours[*at]).collect();
        let gaps: Vec<f64> = pair.rows.iter().map(|(_, small, large)| large - small).collect();
        let gap = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
        (pair.small.clone(), pair.large.clone(), gap, Ranking::new(&scores).worth(&gaps, |_| 1.0).apgr)
    });
    let learned = options.learn.then(|| learn::replays(outcomes, &features));
    let unnamed = if options.small.is_empty() { Vec::new() } else { outcomes.unnamed.clone() };
    Ok(Results {
        weights: built_in.version.clone(),
        left_out: options.leave_one_out,
        sets,
        pairs: pairs.collect(),
        learned,
        unnamed,
    })
}

fn set(name: String, rows: &[usize], outcomes: &Outcomes, ours: &[f64]) -> Set {
    let of = |value: &dyn Fn(usize) -> f64| rows.iter().map(|at| value(*at)).collect::<Vec<f64>>();
    let row = |at: usize| &outcomes.rows[at];
    let gaps = of(&|at| row(at).large - row(at).small);
    let scores = [
        ("signalbox", of(&|at| ours[at])),
        ("length only", of(&|at| row(at).prompt.len() as f64)),
        ("keywords", of(&|at| baselines::keywords(&row(at).prompt))),
        ("random", vec![0.0; rows.len()]),
        ("oracle", gaps.clone()),
    ];
    let rankings: Vec<Ranking> = scores.iter().map(|(_, scores)| Ranking::new(scores)).collect();
    let drawn = bootstrap(&rankings, &gaps, DRAWS, SEED);
    let rows_of = scores.iter().zip(&rankings).zip(&drawn).map(|(((name, _), ranking), draws)| {
        let differences = drawn[0].iter().zip(draws).map(|(ours, other)| ours.apgr - other.apgr).collect();
        let apgr = Interval::of(draws.iter().map(|worth| worth.apgr).collect());
        Row { name, worth: ranking.worth(&gaps, |_| 1.0), apgr, ahead: Interval::of(differences) }
    });
    let rows_of: Vec<Row> = rows_of.collect();
    let note = match rows {
        [_] => Some("there is one prompt only: nothing to rank"),
        _ if rows_of[0].worth.apgr.is_nan() => Some(NOTHING),
        _ if scores[0].1.windows(2).all(|two| two[0].total_cmp(&two[1]).is_eq()) => {
            Some("signalbox scores all prompts here alike: its ranking is no better than chance")
        }
        _ => None,
    };
    let mean = |value: &dyn Fn(usize) -> f64| of(value).iter().sum::<f64>() / rows.len().max(1) as f64;
    let (small, large) = (mean(&|at| row(at).small), mean(&|at| row(at).large));
    Set { name, prompts: rows.len(), small, large, rows: rows_of, note }
}

/// Scores each benchmark with weights fitted on the others. Scores of different weights have no common scale; their quantiles among the fitted
/// prompts do.
fn left_out(outcomes: &Outcomes, features: &[Features]) -> Result<Vec<f64>, String> {
    let samples = outcomes.samples(features);
    let mut ours = vec![0.0; features.len()];
    for set in 0..outcomes.benchmarks.len() {
        let others: Vec<Sample> = samples.iter().filter(|sample| sample.set != set).cloned().collect();
        let weights = fit(&others, &outcomes.benchmarks)
            .map_err(|error| format!("without {}: {error}", outcomes.benchmarks[set]))?;
        for (at, _) in outcomes.rows.iter().enumerate().filter(|(_, row)| row.benchmark == set) {
            ours[at] = f64::from(weights.quantile(ranking(&features[at], &weights)));
        }
    }
    Ok(ours)
}

/// Fits weights to outcomes without tasks whose scoring is faulty. `examples/fit_complexity.rs` writes the result.
///
/// # Errors
/// If a file cannot be read or has too little data.
pub fn fit_files(files: &[PathBuf], small: &[String], large: &[String]) -> Result<Weights, Problems> {
    let outcomes = Outcomes::open(files, small, large)?;
    let features: Vec<Features> =
        outcomes.rows.iter().map(|row| Features::of(&Outline::of_text(&row.prompt))).collect();
    let mut weights = fit(&outcomes.samples(&features), &outcomes.benchmarks)
        .map_err(|error| Problems::new("outcomes", "".into(), vec![Problem::whole(error.to_string())]))?;
    let broken: BTreeMap<&str, String> = outcomes.broken();
    weights.provenance.left_out = broken.into_values().collect();
    Ok(weights)
}
