//! Cross-validation of the fit's settings on held-out queries and pairs.

use std::thread;

use signalbox::{
    cache::confidence::{FEATURES, Prior, Provenance},
    lab::cache_replay::{Counts, Query, at_prevalence},
};

use crate::model::{Fit, PREVALENCE, Rated, Setting, fit, sharpen};

/// Budgets to check.
pub(crate) const BUDGETS: [f32; 4] = [0.01, 0.02, 0.03, 0.05];
/// Number of folds; each is judged by weights fitted to the others.
const FOLDS: u64 = 5;

const RIDGES: [f64; 3] = [0.3, 1.0, 3.0];
const ADVERSARIAL: [f64; 4] = [0.03, 0.06, 0.1, 0.2];
const PROBABLE: [Option<f64>; 3] = [None, Some(1.0), Some(2.0)];

/// A query with its fold.
pub(crate) struct Part {
    pub(crate) query: Query,
    pub(crate) rated: Rated,
    pub(crate) fold: u64,
}

impl Part {
    /// Assigns a fold by `mark`, which is equal for queries that have to stay together.
    pub(crate) fn new(query: Query, mark: u64) -> Self {
        Self { rated: Rated::of(&query), query, fold: mark % FOLDS }
    }
}

/// Results of a setting on held-out queries.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) setting: Setting,
    /// Counts of the stream, by budget.
    pub(crate) stream: [Counts; BUDGETS.len()],
    /// Counts of the adversarial pairs, by budget.
    pub(crate) adversarial: [Counts; BUDGETS.len()],
}

impl Found {
    /// True if the budgets are kept: false hits per hit at the prevalence, and at most one adversarial pair in a hundred served wrongly.
    pub(crate) fn keeps(&self) -> bool {
        BUDGETS.iter().zip(&self.stream).zip(&self.adversarial).all(|((budget, stream), adversarial)| {
            at_prevalence(stream, PREVALENCE).per_hit.rate <= f64::from(*budget)
                && adversarial.false_hits * 100 <= adversarial.without
        })
    }

    /// Share served correctly: mean of stream and adversarial pairs over all budgets.
    pub(crate) fn served(&self) -> f64 {
        let share = |counts: &Counts| counts.right as f64 / counts.with_partner as f64;
        self.stream.iter().chain(&self.adversarial).map(share).sum::<f64>() / (2 * BUDGETS.len()) as f64
    }

    /// Formats a line of the table.
    pub(crate) fn line(&self) -> String {
        let Setting { ridge, adversarial, probable } = self.setting;
        let cells = self.stream.iter().zip(&self.adversarial).map(|(stream, adversarial)| {
            let rates = at_prevalence(stream, PREVALENCE);
            format!(
                "{} {:.2} ({:.2}) {}/{}",
                stream.right,
                100.0 * rates.per_hit.rate,
                100.0 * rates.per_hit.high,
                adversarial.right,
                adversarial.false_hits
            )
        });
        let cells: Vec<String> = cells.collect();
        let probable = probable.map_or("none".into(), |odds| odds.to_string());
        format!("| {ridge} | {adversarial} | {probable} | {} | {:.4} |", cells.join(" | "), self.served())
    }
}

/// Evaluates all settings.
pub(crate) fn all(stream: &[Part], adversarial: &[Part]) -> Vec<Found> {
    let bases: Vec<(f64, f64)> =
        RIDGES.into_iter().flat_map(|ridge| ADVERSARIAL.map(|adversarial| (ridge, adversarial))).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let handles: Vec<_> = bases
            .chunks(bases.len().div_ceil(threads))
            .map(|own| {
                scope
                    .spawn(|| own.iter().flat_map(|base| with_base(stream, adversarial, *base)).collect::<Vec<Found>>())
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a fold is evaluated")).collect()
    })
}

fn with_base(stream: &[Part], adversarial: &[Part], (ridge, weight): (f64, f64)) -> Vec<Found> {
    let mut found = PROBABLE.map(|probable| Found {
        setting: Setting { ridge, adversarial: weight, probable },
        stream: Default::default(),
        adversarial: Default::default(),
    });
    for fold in 0..FOLDS {
        let own = seen(stream, fold);
        let beside = seen(adversarial, fold);
        let (base, rows) = fit(&own, &beside, found[0].setting);
        for found in &mut found {
            let prior = prior(&match found.setting.probable {
                Some(probable) => sharpen(&rows, &base, probable),
                None => base.clone(),
            });
            for (parts, counts) in [(stream, &mut found.stream), (adversarial, &mut found.adversarial)] {
                for part in parts.iter().filter(|part| part.fold == fold) {
                    for (budget, counts) in BUDGETS.iter().zip(counts.iter_mut()) {
                        counts.add(part.query.partner, part.query.served(&prior, *budget).map(|hit| hit.same));
                    }
                }
            }
        }
    }
    found.to_vec()
}

/// Returns the queries outside this fold.
fn seen(parts: &[Part], fold: u64) -> Vec<&Rated> {
    parts.iter().filter(|part| part.fold != fold).map(|part| &part.rated).collect()
}

/// Converts a fit to a prior.
fn prior(fit: &Fit) -> Prior {
    let narrow = |wide: &[f64; FEATURES]| wide.map(|value| value as f32);
    Prior::new(
        "",
        PREVALENCE as f32,
        &narrow(&fit.weights),
        &fit.covariance.map(|row| narrow(&row)),
        Provenance::default(),
    )
}
