//! Replays of labels: what learning on own traffic adds to the weights that are compiled in.

use super::outcomes::Outcomes;
use crate::prompt::complexity::{
    Features, Weights,
    curve::{Interval, Ranking},
    fit::{Sample, fit},
    learn::{Label, Learner, Promotion, Tier, Verdict},
    ranking, score,
};

/// The replays of each kind of traffic: the kind of their labels, and how many. One-sided labels are cheap, and each tells less.
const KINDS: [(&str, usize); 3] = [("paired", 1000), ("one-sided", 1000), ("one-sided", 2000)];
/// Prompts that a replay takes at least: as many at least are left to test on as there are labels.
pub(crate) const FEWEST: usize = 2 * KINDS[0].1 + 1;
/// After how many labels each a candidate is tried.
const EVERY: usize = 250;
/// Replays, each of other labels.
const SEEDS: usize = 8;
/// Standard errors between the mean of so many and the ends of its 95 % interval: Student's t with `SEEDS` − 1 degrees of freedom.
const STANDARD_ERRORS: f64 = 2.365;
/// Share of one-sided labels that say the opposite.
const NOISE: f64 = 0.1;
/// Share of requests that are served by either model at random.
const TRIED: f64 = 0.2;

/// What replays of one kind of label came to, mean over seeds.
pub(crate) struct Replay {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) labels: usize,
    /// APGR of the prior on what was not learned from.
    pub(crate) before: f64,
    /// APGR of the weights in use at the end.
    pub(crate) after: f64,
    /// The 95 % interval of what lies between them, over draws of labels from these prompts: what other prompts would do is not in it. Not a
    /// number where all draws are alike.
    pub(crate) gain: Interval,
    pub(crate) promotions: f64,
    /// Pairs of models that it is the sum of.
    pub(crate) pairs: usize,
}

/// One replay. Sums of runs are of qualities, so that a pair of models whose gap is next to nothing counts for next to nothing.
#[derive(Copy, Clone, Default)]
struct Run {
    /// The mean gap on what was not learned from.
    gap: f64,
    /// The quality a prompt that is gained there, mean over all shares.
    before: f64,
    after: f64,
    promotions: f64,
}

/// Prompts with qualities of a small and a large model.
struct Traffic {
    name: String,
    rows: Vec<(usize, f64, f64)>,
}

pub(super) fn replays(outcomes: &Outcomes, features: &[Features]) -> Vec<Replay> {
    let files = outcomes.files.iter().enumerate().map(|(file, name)| {
        let rows = outcomes.rows.iter().enumerate().filter(|(_, row)| row.file == file);
        Traffic { name: name.clone(), rows: rows.map(|(at, row)| (at, row.small, row.large)).collect() }
    });
    let pairs = outcomes.pairs.iter().filter(|_| outcomes.pairs.len() > 1);
    let pairs = pairs.map(|pair| Traffic { name: format!("{} / {}", pair.small, pair.large), rows: pair.rows.clone() });
    let files: Vec<Runs> = files.flat_map(|traffic| runs(outcomes, features, &traffic)).collect();
    let pairs: Vec<Runs> = pairs.flat_map(|traffic| runs(outcomes, features, &traffic)).collect();
    let together: Vec<Runs> = KINDS
        .into_iter()
        .filter_map(|kind| {
            let alike: Vec<_> = pairs.iter().filter(|runs| runs.kind == kind).map(|runs| runs.seeds).collect();
            (alike.len() > 1).then(|| Runs {
                name: format!("{} pairs together, weighted by gap", alike.len()),
                kind,
                seeds: std::array::from_fn(|seed| Run::sum(alike.iter().map(|runs| runs[seed]))),
                pairs: alike.len(),
            })
        })
        .collect();
    files.iter().chain(&together).chain(&pairs).map(Runs::replay).collect()
}

/// The replays of one kind of label on one traffic.
struct Runs {
    name: String,
    kind: (&'static str, usize),
    seeds: [Run; SEEDS],
    pairs: usize,
}

impl Runs {
    fn replay(&self) -> Replay {
        let mean = |of: &dyn Fn(&Run) -> f64| self.seeds.iter().map(of).sum::<f64>() / SEEDS as f64;
        // Of no gap there is no part.
        let part = |quality: f64, run: &Run| if run.gap > 0.0 { quality / run.gap } else { f64::NAN };
        let gain = |run: &Run| part(run.after - run.before, run);
        let middle = mean(&gain);
        let variance = mean(&|run| (gain(run) - middle).powi(2)) / (SEEDS - 1) as f64;
        let reach = if variance > 0.0 { STANDARD_ERRORS * variance.sqrt() } else { f64::NAN };
        Replay {
            name: self.name.clone(),
            kind: self.kind.0,
            labels: self.kind.1,
            before: mean(&|run| part(run.before, run)),
            after: mean(&|run| part(run.after, run)),
            gain: Interval { low: middle - reach, high: middle + reach },
            promotions: mean(&|run| run.promotions),
            pairs: self.pairs,
        }
    }
}

impl Run {
    /// Of several at once; promotions are their mean.
    fn sum(runs: impl ExactSizeIterator<Item = Self>) -> Self {
        let count = runs.len().max(1) as f64;
        runs.fold(Self::default(), |sum, run| Self {
            gap: sum.gap + run.gap,
            before: sum.before + run.before,
            after: sum.after + run.after,
            promotions: sum.promotions + run.promotions / count,
        })
    }
}

/// The replays of each kind of label that there are prompts enough for.
fn runs(outcomes: &Outcomes, features: &[Features], traffic: &Traffic) -> Vec<Runs> {
    // As many at least are left to test on.
    let kinds: Vec<_> = KINDS.into_iter().filter(|(_, labels)| traffic.rows.len() > 2 * labels).collect();
    let prior = (!kinds.is_empty()).then(|| prior(outcomes, features, traffic));
    let runs = prior.iter().flat_map(|prior| {
        kinds.iter().map(|kind| Runs {
            name: traffic.name.clone(),
            kind: *kind,
            seeds: std::array::from_fn(|seed| run(traffic, features, prior, *kind, seed as u64)),
            pairs: 1,
        })
    });
    runs.collect()
}

/// Weights that know nothing of this traffic, where there are other outcomes to fit them on; else those that are compiled in.
fn prior(outcomes: &Outcomes, features: &[Features], traffic: &Traffic) -> Weights {
    let mut own = vec![false; outcomes.benchmarks.len()];
    for (at, ..) in &traffic.rows {
        own[outcomes.rows[*at].benchmark] = true;
    }
    let others: Vec<Sample> = outcomes.samples(features).into_iter().filter(|sample| !own[sample.set]).collect();
    fit(&others, &outcomes.benchmarks).unwrap_or_else(|_| Weights::built_in().clone())
}

fn run(traffic: &Traffic, features: &[Features], prior: &Weights, (kind, labels): (&str, usize), seed: u64) -> Run {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut rows = traffic.rows.clone();
    dice.shuffle(&mut rows);
    let (labelled, rest) = rows.split_at(labels);
    let mut learner = Learner::new(prior.clone());
    let mut promotions = 0.0;
    for (count, (at, small, large)) in labelled.iter().enumerate() {
        let features = &features[*at];
        let label = if kind == "paired" {
            Label::Paired { small: *small as f32, large: *large as f32 }
        } else {
            served(&mut dice, features, learner.weights(), *small, *large)
        };
        learner.observe(features, label);
        if (count + 1) % EVERY == 0 && matches!(learner.promote(), Promotion::Promoted(_)) {
            promotions += 1.0;
        }
    }
    let gaps: Vec<f64> = rest.iter().map(|(_, small, large)| large - small).collect();
    let gap = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let gained = |weights: &Weights| {
        let scores: Vec<f64> = rest.iter().map(|(at, _, _)| f64::from(ranking(&features[*at], weights))).collect();
        Ranking::new(&scores).worth(&gaps, |_| 1.0).gained
    };
    Run { gap, before: gained(prior), after: gained(learner.weights()), promotions }
}

/// What a client says of the answer of whoever served it: half of the requests go to the large model, the hardest, and some to either.
fn served(dice: &mut fastrand::Rng, features: &Features, weights: &Weights, small: f64, large: f64) -> Label {
    let to_large = if dice.f64() < TRIED { dice.bool() } else { score(features, weights).score > 0.5 };
    let (tier, quality) = if to_large { (Tier::Large, large) } else { (Tier::Small, small) };
    let good = (dice.f64() < quality) != (dice.f64() < NOISE);
    Label::Served { tier, verdict: if good { Verdict::Ok } else { Verdict::Failed } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(seeds: [Run; SEEDS]) -> Runs {
        Runs { name: "traffic".to_owned(), kind: KINDS[0], seeds, pairs: 1 }
    }

    #[test]
    fn the_interval_of_a_gain_is_that_of_the_mean_of_draws() {
        let gains = [0.01, 0.03, 0.02, 0.02, 0.00, 0.04, 0.02, 0.02];
        let told =
            runs(gains.map(|gain| Run { gap: 0.2, before: 0.1, after: 0.1 + 0.2 * gain, promotions: 2.0 })).replay();
        assert!(
            (told.before - 0.5).abs() < 1e-9
                && (told.after - 0.52).abs() < 1e-9
                && (told.promotions - 2.0).abs() < 1e-9
        );
        // The squares of what they stray sum to 0.001.
        let reach = 2.365 * (0.001_f64 / 7.0 / 8.0).sqrt();
        assert!((told.gain.low - (0.02 - reach)).abs() < 1e-9 && (told.gain.high - (0.02 + reach)).abs() < 1e-9);
        let alike = runs([Run { gap: 0.2, before: 0.1, after: 0.1, promotions: 0.0 }; SEEDS]).replay();
        assert!(alike.gain.low.is_nan() && alike.gain.high.is_nan(), "no interval of what does not vary");
    }

    #[test]
    fn pairs_weigh_what_their_gaps_are() {
        let wide = Run { gap: 0.2, before: 0.1, after: 0.12, promotions: 1.0 };
        let narrow = Run { gap: 0.01, before: 0.005, after: 0.0, promotions: 3.0 };
        let none = Run { gap: -0.01, before: -0.02, after: -0.01, promotions: 2.0 };
        let sum = Run::sum([wide, narrow, none].into_iter());
        let close = |one: f64, other: f64| (one - other).abs() < 1e-12;
        assert!(
            close(sum.gap, 0.2) && close(sum.before, 0.085) && close(sum.after, 0.11) && close(sum.promotions, 2.0)
        );
        assert!(runs([none; SEEDS]).replay().before.is_nan(), "there is nothing to recover");
        assert!(close(runs([sum; SEEDS]).replay().after, 0.55));
    }
}
