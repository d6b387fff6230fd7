//! Fits weights to outcomes: ridge regression of the gap on the features' levels, towards a prior, with no weight below
//! zero.
//!
//! Levels and outcomes are centred within each benchmark, so that a feature which only distinguishes benchmarks
//! explains nothing; differences between benchmarks count with a small weight (`BETWEEN`). A benchmark counts by the
//! square root of its size, so that none dominates. Equal data give equal weights, bit for bit.

use super::{
    features::{FEATURES, Feature, Features, TABLE},
    score::{Sums, ranking},
    weights::{DataSet, Line, PerFeature, Provenance, Support, Weights},
};

/// The strength of the pull towards the prior.
const RIDGE: f64 = 0.03;
/// The weight of differences between benchmarks.
const BETWEEN: f64 = 0.1;
/// Number of prompts at which a benchmark has weight 1.
const USUAL: f64 = 500.0;
/// The largest weight of a feature.
const MAX_WEIGHT: f64 = 0.12;
/// Rounds of coordinate descent, well beyond convergence.
const ROUNDS: usize = 300;
/// Points of the lines from sums to expectations, before neighbours are merged to keep them rising.
const BINS: usize = 16;
/// Steps between the lowest and the highest quantile.
const QUANTILES: usize = 64;
/// Rounds in which quantiles and caps converge.
const SETTLING: usize = 20;

/// A prompt with its outcomes.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The index of its benchmark.
    pub set: usize,
    /// Its features.
    pub features: Features,
    /// Quality of the small model's answer, in `0..=1`.
    pub small: f64,
    /// Quality of the large model's answer, in `0..=1`.
    pub large: f64,
}

/// The reason why nothing could be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// There are too few prompts.
    #[error("{0} prompts with outcomes are too few to fit on, {MIN_PROMPTS} are needed")]
    TooFew(usize),
}

/// The fewest prompts that weights are fitted on.
const MIN_PROMPTS: usize = 200;

/// Fits weights to `samples` of the benchmarks named in `sets`.
///
/// # Panics
/// If a sample's benchmark has no name.
pub fn fit(samples: &[Sample], sets: &[String]) -> Result<Weights, FitError> {
    if samples.len() < MIN_PROMPTS {
        return Err(FitError::TooFew(samples.len()));
    }
    let mut counts = vec![0_usize; sets.len()];
    for sample in samples {
        counts[sample.set] += 1;
    }
    let balance: Vec<f64> =
        counts.iter().map(|count| (*count as f64 / USUAL).sqrt() / (*count).max(1) as f64).collect();
    let gap = solve(samples, &balance, Feature::in_gap, |sample| sample.large - sample.small);
    let hardness = solve(samples, &balance, |_| true, |sample| 1.0 - sample.small);
    let mut weights = Weights { gap, hardness, support: support(samples, &balance), ..Weights::default() };
    let weighed = |value: &dyn Fn(&Sample) -> (f32, f64)| {
        let mut points: Vec<(f32, f64, f64)> = samples
            .iter()
            .map(|sample| {
                let (sum, outcome) = value(sample);
                (sum, outcome, balance[sample.set])
            })
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    // The cap on the score depends on the quantiles, and these on the cap.
    let ranked =
        |weights: &Weights| weighed(&|sample| (ranking(&sample.features, weights), sample.large - sample.small));
    for _ in 0..SETTLING {
        weights.quantiles = quantiles(&ranked(&weights));
    }
    let gaps = ranked(&weights);
    let failures = weighed(&|sample| {
        let sums = Sums::of(&sample.features, &weights.hardness);
        (sums.base + sums.added, 1.0 - sample.small)
    });
    weights.gap_line = Line(rising(&gaps));
    weights.quality_line = Line(rising(&failures).into_iter().map(|(sum, failure)| (sum, 1.0 - failure)).collect());
    weights.provenance = Provenance { data: data(samples, sets), ..Provenance::default() };
    Ok(weights)
}

/// The weights in `0..=MAX_WEIGHT` that minimise the squared error plus the distance from the prior; 0 for features that
/// do not count.
fn solve(
    samples: &[Sample],
    balance: &[f64],
    counts: impl Fn(&Feature) -> bool,
    outcome: impl Fn(&Sample) -> f64,
) -> PerFeature {
    let prior = TABLE.map(|feature| if counts(&feature) { f64::from(feature.prior) } else { 0.0 });
    let total: f64 = samples.iter().map(|sample| balance[sample.set]).sum();
    let (mut squares, mut products) = (vec![[0.0; FEATURES]; FEATURES], [0.0; FEATURES]);
    let mut add = |levels: &[f64; FEATURES], outcome: f64, weight: f64| {
        for (row, level) in levels.iter().enumerate().filter(|(_, level)| **level != 0.0) {
            products[row] += weight * level * outcome;
            for (cell, other) in squares[row].iter_mut().zip(levels) {
                *cell += weight * level * other;
            }
        }
    };
    let mean = |of: &dyn Fn(&Sample) -> bool| {
        let (mut levels, mut mean, mut weight) = ([0.0; FEATURES], 0.0, 0.0);
        for sample in samples.iter().filter(|sample| of(sample)) {
            let share = balance[sample.set];
            weight += share;
            mean += share * outcome(sample);
            levels.iter_mut().zip(&sample.features.levels).for_each(|(sum, level)| *sum += share * f64::from(*level));
        }
        (levels.map(|sum| sum / f64::max(weight, f64::EPSILON)), mean / f64::max(weight, f64::EPSILON), weight)
    };
    let (all, overall, _) = mean(&|_| true);
    for (set, share) in balance.iter().enumerate() {
        let (levels, average, weight) = mean(&|sample| sample.set == set);
        for sample in samples.iter().filter(|sample| sample.set == set) {
            let own = std::array::from_fn(|at| f64::from(sample.features.levels[at]) - levels[at]);
            add(&own, outcome(sample) - average, share / total);
        }
        let apart = std::array::from_fn(|at| levels[at] - all[at]);
        add(&apart, average - overall, BETWEEN * weight / total);
    }
    let mut weights = prior;
    for _ in 0..ROUNDS {
        for at in (0..FEATURES).filter(|at| TABLE[*at].is_fitted() && counts(&TABLE[*at])) {
            let explained: f64 = squares[at].iter().zip(&weights).map(|(square, weight)| square * weight).sum();
            let pull = products[at] - explained + RIDGE * (prior[at] - weights[at]);
            weights[at] = (weights[at] + pull / (squares[at][at] + RIDGE)).clamp(0.0, MAX_WEIGHT);
        }
    }
    PerFeature(weights.map(|weight| ((weight * 1e5).round() / 1e5) as f32))
}

fn support(samples: &[Sample], balance: &[f64]) -> Support {
    let total: f64 = samples.iter().map(|sample| balance[sample.set]).sum();
    let moment = |power: i32| -> [f64; FEATURES] {
        let mut sums = [0.0; FEATURES];
        for sample in samples {
            let levels = sample.features.levels.iter();
            sums.iter_mut()
                .zip(levels)
                .for_each(|(sum, level)| *sum += balance[sample.set] * f64::from(*level).powi(power));
        }
        sums.map(|sum| sum / total)
    };
    let (mean, square) = (moment(1), moment(2));
    let rounded = |value: f64| ((value * 1e4).round() / 1e4) as f32;
    let mut support = Support {
        mean: PerFeature(mean.map(rounded)),
        deviation: PerFeature(std::array::from_fn(|at| rounded((square[at] - mean[at].powi(2)).max(0.0).sqrt()))),
        ..Support::default()
    };
    let mut distances: Vec<f32> = samples.iter().map(|sample| support.distance(&sample.features.levels)).collect();
    distances.sort_by(f32::total_cmp);
    // Nine of ten fitted prompts have full confidence; beyond 1.5 times the 99th percentile of distances it is 0.
    support.near = rounded(f64::from(distances[distances.len() * 9 / 10]));
    support.far = rounded(1.5 * f64::from(distances[distances.len() * 99 / 100]));
    support
}

/// A rising line through sorted points (sum, outcome, weight): means of equal shares, with falling neighbours merged
/// (pool adjacent violators: Ayer et al., 1955).
fn rising(points: &[(f32, f64, f64)]) -> Vec<(f32, f32)> {
    let total: f64 = points.iter().map(|(_, _, weight)| weight).sum();
    // Sums of weight, weight · sum and weight · outcome.
    let mut bins: Vec<[f64; 3]> = Vec::with_capacity(BINS);
    let (mut open, mut passed) = ([0.0; 3], 0.0);
    for (at, (sum, outcome, weight)) in points.iter().enumerate() {
        passed += weight;
        open = [open[0] + weight, open[1] + weight * f64::from(*sum), open[2] + weight * outcome];
        let parted = points.get(at + 1).is_none_or(|(next, _, _)| next > sum);
        if parted && (passed >= total * (bins.len() + 1) as f64 / BINS as f64 || at + 1 == points.len()) {
            bins.push(std::mem::take(&mut open));
        }
    }
    let mut joined: Vec<[f64; 3]> = Vec::with_capacity(BINS);
    for bin in bins {
        joined.push(bin);
        while let [.., one, other] = &joined[..]
            && one[2] / one[0] >= other[2] / other[0]
        {
            let both = std::array::from_fn(|at| one[at] + other[at]);
            joined.truncate(joined.len() - 2);
            joined.push(both);
        }
    }
    let rounded = |value: f64| ((value * 1e4).round() / 1e4) as f32;
    joined.into_iter().map(|[weight, sum, outcome]| (rounded(sum / weight), rounded(outcome / weight))).collect()
}

/// The sums at equal shares of the weight, including the lowest and the highest.
fn quantiles(points: &[(f32, f64, f64)]) -> Vec<f32> {
    let total: f64 = points.iter().map(|(_, _, weight)| weight).sum();
    let (mut found, mut passed) = (Vec::with_capacity(QUANTILES + 1), 0.0);
    for (sum, _, weight) in points {
        passed += weight;
        while found.len() <= QUANTILES && passed >= total * found.len() as f64 / QUANTILES as f64 {
            found.push(*sum);
        }
    }
    // Rounding may leave out the last one.
    while found.len() <= QUANTILES {
        found.push(points.last().map_or(0.0, |(sum, _, _)| *sum));
    }
    found
}

fn data(samples: &[Sample], sets: &[String]) -> Vec<DataSet> {
    let of = |set: usize| {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.set == set).collect();
        let mean = |value: fn(&Sample) -> f64| {
            let mean = own.iter().map(|sample| value(sample)).sum::<f64>() / own.len().max(1) as f64;
            ((mean * 1e4).round() / 1e4) as f32
        };
        let (small, large) = (mean(|sample| sample.small), mean(|sample| sample.large));
        DataSet { name: sets[set].clone(), prompts: own.len(), small, large }
    };
    (0..sets.len()).map(of).filter(|set| set.prompts > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Outline;

    /// Prompts of two benchmarks: calculations gain from a large model, and in one of them all prompts have conditions.
    fn samples() -> Vec<Sample> {
        (0..400)
            .map(|at| {
                let (set, hard) = (at % 2, at % 3 == 0);
                let text = format!(
                    "{} {} {}",
                    if hard { "compute this" } else { "tell me of this" },
                    if set == 1 { "suppose provided given" } else { "plain words here" },
                    "word ".repeat(at % 17),
                );
                let features = Features::of(&Outline::of_text(&text));
                let small = if hard { 0.1 } else { 0.6 } + 0.2 * set as f64;
                Sample { set, features, small, large: 0.8 + 0.2 * set as f64 }
            })
            .collect()
    }

    fn names() -> Vec<String> {
        vec!["plain".to_owned(), "supposed".to_owned()]
    }

    #[test]
    fn difficulty_is_fitted_and_benchmark_identity_is_not() {
        let weights = fit(&samples(), &names()).unwrap();
        let weight = |name: &str| {
            let at = TABLE.iter().position(|feature| feature.name == name).unwrap();
            (weights.gap.0[at], TABLE[at].prior)
        };
        let ((calculation, prior), (conditions, unmoved)) = (weight("calculation"), weight("conditions"));
        assert!(calculation > 1.5 * prior, "{calculation} over {prior}");
        assert!(conditions <= unmoved, "{conditions}");
        assert_eq!(weights.provenance.data.len(), 2);
        assert_eq!(fit(&samples(), &names()).unwrap(), weights, "equal data give equal weights");
    }

    #[test]
    fn unfitted_features_keep_their_priors_and_expectations_are_calibrated() {
        let samples = samples();
        let weights = fit(&samples, &names()).unwrap();
        for (feature, weight) in TABLE.iter().zip(&weights.gap.0).filter(|(feature, _)| !feature.is_fitted()) {
            assert!((weight - feature.prior).abs() < 1e-4, "{}", feature.name);
        }
        let expected = |sample: &Sample| super::super::score(&sample.features, &weights).gap;
        let mean = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / samples.len() as f64;
        let (found, real) = (mean(&expected), mean(&|sample| sample.large - sample.small));
        // A step between two outcomes is blurred by its bin and by the cap.
        assert!((found - real).abs() < 0.04, "{found} for {real}");
    }

    #[test]
    fn too_few_prompts_are_rejected() {
        assert_eq!(fit(&samples()[..10], &names()), Err(FitError::TooFew(10)));
    }
}
