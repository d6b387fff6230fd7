//! What times to the first token and times per token have in common: a pool's linear model, its residuals and its score, and a
//! backend's speed beside it.

use super::{
    residuals::{Quantiles, Residuals},
    score::{Accuracy, Baseline, Score},
    speed::Speed,
};
use crate::{measure::Rls, types::Moment};

/// The share of what it knows that a model keeps at each observation.
const FORGETTING: f64 = 0.999;
/// Backends' speeds are learned at full pace once the pool's model has seen this many observations.
const MATURE: u64 = 64;
/// The weight of an observation in the pool's mean speed.
const MEAN_GAIN: f64 = 0.01;
/// The range of all predictions in seconds.
const SHORTEST: f64 = 1e-4;
const LONGEST: f64 = 86_400.0;
/// Delays below this many seconds are no sign of a slow backend where they are compared with a bound.
const PERCEPTIBLE: f64 = 0.1;

/// How long something will take.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The median, in seconds.
    pub seconds: f64,
    /// The 90th percentile, in seconds.
    pub p90: f64,
    /// How many times as long as on the pool's other backends it takes on this one.
    pub speed: f64,
    /// The same without doubts that come of requests which wait there, or waited in vain: what was learned.
    pub(super) learned: f64,
    /// What the model itself says, in seconds, before speed and residuals.
    pub(super) base: f64,
    /// Which residuals it was read from.
    pub(super) class: usize,
    /// The baseline's 90th percentile, in seconds.
    pub(super) baseline: Option<f64>,
}

impl Prediction {
    /// The speed at which what was predicted here would just be within its 90th percentile, had it lasted `age` seconds: a
    /// lower bound of the true speed, should it still go on. Not below 0.
    pub(super) fn speed_implied_by(&self, age: f64) -> f64 {
        if age > PERCEPTIBLE && age < LONGEST { age * self.speed / self.p90 } else { 0.0 }
    }
}

/// What a pool learns: `N` coefficients, and residuals for each of `K` classes.
#[derive(Debug)]
pub(super) struct Learner<const N: usize, const K: usize> {
    rls: Rls<N>,
    residuals: [Residuals; K],
    score: Score,
    /// The mean of the logarithm of the speeds of the backends, each counted as often as it is observed.
    mean_speed: f64,
    observations: u64,
}

/// What a pool has learned, to be copied.
#[derive(Copy, Clone, Debug)]
pub(super) struct Learned<const N: usize, const K: usize> {
    pub(super) coefficients: [f64; N],
    quantiles: [Quantiles; K],
}

/// What is learned of one backend.
#[derive(Clone, Debug)]
pub(super) struct Track {
    speed: Speed,
    baseline: Baseline,
    /// Speeds are applied to predictions of at least this many seconds.
    least: f64,
}

/// How fast one backend is at one moment: a copy, for all that is asked about it then.
#[derive(Copy, Clone, Debug)]
pub(super) struct Pace {
    factor: f64,
    baseline: Option<f64>,
    least: f64,
}

// === impl Learner ===

impl<const N: usize, const K: usize> Learner<N, K> {
    /// Starts from the coefficients `prior`, each uncertain by its `spread`.
    pub(super) fn new(prior: [f64; N], spread: [f64; N]) -> Self {
        Self {
            rls: Rls::new(prior, spread, FORGETTING),
            residuals: std::array::from_fn(|_| Residuals::new()),
            score: Score::default(),
            mean_speed: 0.0,
            observations: 0,
        }
    }

    pub(super) fn learned(&self) -> Learned<N, K> {
        let quantiles = std::array::from_fn(|class| self.residuals[class].quantiles());
        Learned { coefficients: *self.rls.coefficients(), quantiles }
    }

    pub(super) const fn coefficients(&self) -> &[f64; N] {
        self.rls.coefficients()
    }

    pub(super) fn accuracy(&self) -> Option<Accuracy> {
        self.score.accuracy()
    }

    /// Learns that `x`, for which `prediction` was made, took `seconds`; returns how far the model is to be trusted, `0..=1`.
    ///
    /// The model learns from the time the pool's mean backend would have taken, so that one slow backend does not make all
    /// others seem fast. Speeds are relative to that mean: were they all to rise, the model follows and they fall back.
    pub(super) fn observe(&mut self, x: &[f64; N], prediction: &Prediction, seconds: f64) -> f64 {
        // A doubt is confirmed as far as the time that it took.
        let speed = (seconds / prediction.base).clamp(prediction.learned.min(prediction.speed), prediction.speed);
        let ln = speed.ln();
        self.mean_speed += MEAN_GAIN * (ln - self.mean_speed);
        self.rls.observe(x, seconds / (ln - self.mean_speed).exp(), prediction.base);
        let covered = seconds <= prediction.p90;
        if let Some(residuals) = self.residuals.get_mut(prediction.class) {
            residuals.observe(seconds / (prediction.base * speed), covered);
        }
        self.score.observe(seconds, prediction.seconds, prediction.p90, prediction.baseline);
        self.observations += 1;
        self.observations.min(MATURE) as f64 / MATURE as f64
    }
}

// === impl Learned ===

impl<const N: usize, const K: usize> Learned<N, K> {
    /// What `x` takes on a backend at its `pace`, whose speed is at least `slower`; with the residuals of `class`.
    pub(super) fn predict(&self, x: &[f64; N], class: usize, pace: &Pace, slower: f64) -> Prediction {
        let base = self.base(x);
        let learned = pace.factor(base);
        let speed = learned.max(slower);
        let quantiles = &self.quantiles[class];
        let whole = base * speed;
        let bounded = |seconds: f64| seconds.clamp(SHORTEST, LONGEST);
        Prediction {
            seconds: bounded(whole * quantiles.median),
            p90: bounded(whole * quantiles.p90),
            speed,
            learned,
            base,
            class,
            baseline: pace.baseline,
        }
    }

    /// The median of [`predict`](Self::predict) alone, without doubts.
    pub(super) fn seconds(&self, x: &[f64; N], class: usize, pace: &Pace) -> f64 {
        let base = self.base(x);
        (base * pace.factor(base) * self.quantiles[class].median).clamp(SHORTEST, LONGEST)
    }

    /// How many times as long as on the pool `x` takes on a backend at its `pace`.
    pub(super) fn speed(&self, x: &[f64; N], pace: &Pace) -> f64 {
        pace.factor(self.base(x))
    }

    fn base(&self, x: &[f64; N]) -> f64 {
        let sum: f64 = self.coefficients.iter().zip(x).map(|(coefficient, x)| coefficient * x).sum();
        sum.clamp(SHORTEST, LONGEST)
    }

    /// The chance that what was predicted takes at most `limit` seconds.
    pub(super) fn within(&self, limit: f64, prediction: &Prediction) -> f64 {
        self.quantiles[prediction.class].probability(limit / (prediction.base * prediction.speed))
    }

    /// The time, in seconds, that what was predicted does not exceed with the chance `level`, doubts aside: limits that followed them
    /// would give a stalled engine the more time the longer it stalls.
    pub(super) fn quantile(&self, level: f64, prediction: &Prediction) -> f64 {
        let ratio = self.quantiles[prediction.class].quantile(level);
        (prediction.base * prediction.learned * ratio).clamp(SHORTEST, LONGEST)
    }
}

// === impl Track ===

impl Track {
    /// A backend as fast as its pool. Its speed applies where predictions are of at least `least` seconds.
    pub(super) fn new(least: f64) -> Self {
        Self { speed: Speed::new(), baseline: Baseline::default(), least }
    }

    pub(super) fn observe(&mut self, prediction: &Prediction, seconds: f64, trust: f64, now: Moment) {
        self.speed.observe(seconds / prediction.base, trust, now);
        self.baseline.observe(seconds);
    }

    pub(super) fn pace(&self, now: Moment) -> Pace {
        Pace { factor: self.speed.factor(now), baseline: self.baseline.p90(), least: self.least }
    }
}

// === impl Pace ===

impl Pace {
    fn factor(&self, base: f64) -> f64 {
        if base * self.factor.max(1.0) > self.least { self.factor } else { 1.0 }
    }
}

/// The time measured, if it is one.
pub(super) fn measured(seconds: f64) -> Option<f64> {
    (seconds.is_finite() && seconds >= 0.0).then(|| seconds.clamp(SHORTEST, LONGEST))
}
