//! Replays of labels: gain of learning from own traffic over the built-in weights.

use super::outcomes::Outcomes;
use signalbox_prompt::complexity::{
    Features, Weights,
    curve::{Interval, Ranking},
    fit::{Sample, fit},
    learn::{Label, Learner, Promotion, Tier, Verdict},
    ranking, score,
};

/// Kinds of replay: kind of labels and their number. One-sided labels are cheap, and each carries less information.
const KINDS: [(&str, usize); 3] = [("paired", 1000), ("one-sided", 1000), ("one-sided", 2000)];
/// Fewest prompts for a replay, so that at least as many remain for testing as there are labels.
pub const MIN_REPLAY_PROMPTS: usize = 2 * KINDS[0].1 + 1;
/// Labels between two attempts at a promotion.
const EVERY: usize = 250;
/// Replays per kind, each with other labels.
const SEEDS: usize = 8;
/// Half width of the 95 % interval of the mean, in standard errors: Student's t with `SEEDS` − 1 degrees of freedom.
const STANDARD_ERRORS: f64 = 2.365;
/// Share of one-sided labels that are wrong.
const NOISE: f64 = 0.1;
/// Share of requests that are served by a random model.
const TRIED: f64 = 0.2;

/// Result of the replays of one kind of label, mean over seeds.
pub struct Replay {
    pub name: String,
    pub kind: &'static str,
    pub labels: usize,
    /// APGR of the prior weights on the held-out prompts.
    pub before: f64,
    /// APGR of the final weights.
    pub after: f64,
    /// 95 % interval of the gain over samples of labels from these prompts. It does not cover other prompts. NaN if all samples are equal.
    pub gain: Interval,
    pub promotions: f64,
    /// Number of pairs of models that it sums over.
    pub pairs: usize,
}

/// One replay. Sums over runs weigh by quality, so that a pair of models with a small gap counts little.
#[derive(Copy, Clone, Default)]
struct Run {
    /// Mean gap on the held-out prompts.
    gap: f64,
    /// Quality gained per prompt there, mean over all shares: with the prior weights, and with the final ones.
    before: f64,
    after: f64,
    promotions: f64,
}

/// Prompts with the qualities of a small and a large model.
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

/// Replays of one kind of label on one traffic.
struct Runs {
    name: String,
    kind: (&'static str, usize),
    seeds: [Run; SEEDS],
    pairs: usize,
}

impl Runs {
    fn replay(&self) -> Replay {
        let mean = |of: &dyn Fn(&Run) -> f64| self.seeds.iter().map(of).sum::<f64>() / SEEDS as f64;
        // A gap of zero has no recovered part.
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
    /// Sums runs; promotions are averaged.
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

/// Replays of each kind of label that has enough prompts.
fn runs(outcomes: &Outcomes, features: &[Features], traffic: &Traffic) -> Vec<Runs> {
    // At least as many prompts remain for testing.
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

/// Weights fitted on all other outcomes, if there are any; otherwise the built-in ones.
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

/// One-sided label of a served request. The harder half of the requests goes to the large model, and some go to a random one.
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
        let replay =
            runs(gains.map(|gain| Run { gap: 0.2, before: 0.1, after: 0.1 + 0.2 * gain, promotions: 2.0 })).replay();
        assert!(
            (replay.before - 0.5).abs() < 1e-9
                && (replay.after - 0.52).abs() < 1e-9
                && (replay.promotions - 2.0).abs() < 1e-9
        );
        // The squared deviations sum to 0.001.
        let reach = 2.365 * (0.001_f64 / 7.0 / 8.0).sqrt();
        assert!((replay.gain.low - (0.02 - reach)).abs() < 1e-9 && (replay.gain.high - (0.02 + reach)).abs() < 1e-9);
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
