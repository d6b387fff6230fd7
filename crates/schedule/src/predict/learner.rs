//! Common parts of the predictors of time to first token and time per token: a pool's linear model, its residuals and
//! its score, and a backend's speed relative to it.

use super::{
    residuals::{Quantiles, Residuals},
    score::{Accuracy, Baseline, Score},
    speed::Speed,
};
use signalbox_measure::Rls;
use signalbox_types::Moment;

/// Share of its knowledge that a model keeps at each observation.
const FORGETTING: f64 = 0.999;
/// Observations of the pool's model from which on backends' speeds are learned at the full rate.
const MATURE: u64 = 64;
/// Weight of an observation in the pool's mean speed.
const MEAN_GAIN: f64 = 0.01;
/// Range of all predictions, in seconds.
const MIN_PREDICTION: f64 = 1e-4;
const MAX_PREDICTION: f64 = 86_400.0;
/// Delays below this many seconds do not count as evidence of a slow backend.
const PERCEPTIBLE: f64 = 0.1;

/// Prediction of a duration.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Median, in seconds.
    pub seconds: f64,
    /// 90th percentile, in seconds.
    pub p90: f64,
    /// Slowness of this backend: ratio of the duration here to that on the pool's other backends.
    pub speed: f64,
    /// Learned slowness alone, without evidence from requests that are waiting or were abandoned.
    pub(super) learned: f64,
    /// The model's output in seconds, before speed and residuals.
    pub(super) base: f64,
    /// Index of the class of residuals whose quantiles this prediction used.
    pub(super) class: usize,
    /// 90th percentile of the baseline, in seconds.
    pub(super) baseline: Option<f64>,
}

impl Prediction {
    /// Slowness at which the predicted duration would just be within its 90th percentile after `age` seconds: a lower
    /// bound of the true slowness if it has not ended. At least 0.
    pub(super) fn speed_implied_by(&self, age: f64) -> f64 {
        if age > PERCEPTIBLE && age < MAX_PREDICTION { age * self.speed / self.p90 } else { 0.0 }
    }
}

/// Learned state of a pool: `N` coefficients, and residuals for each of `K` classes.
#[derive(Debug)]
pub(super) struct Learner<const N: usize, const K: usize> {
    rls: Rls<N>,
    residuals: [Residuals; K],
    score: Score,
    /// Mean logarithm of the backends' slowness, weighted by observations.
    mean_speed: f64,
    observations: u64,
}

/// A pool's learned state, as a copy.
#[derive(Copy, Clone, Debug)]
pub(super) struct Learned<const N: usize, const K: usize> {
    pub(super) coefficients: [f64; N],
    quantiles: [Quantiles; K],
}

/// Learned state of one backend.
#[derive(Clone, Debug)]
pub(super) struct Track {
    speed: Speed,
    baseline: Baseline,
    /// Least prediction in seconds to which speeds apply.
    least: f64,
}

/// Speed of one backend at one moment, as a copy.
#[derive(Copy, Clone, Debug)]
pub(super) struct Pace {
    factor: f64,
    baseline: Option<f64>,
    least: f64,
}

// === impl Learner ===

impl<const N: usize, const K: usize> Learner<N, K> {
    /// Starts from the coefficients `prior`, each with the uncertainty `spread`.
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

    /// Learns that `x`, predicted as `prediction`, took `seconds`. Returns the confidence in the model, `0..=1`.
    ///
    /// The model learns the time that the pool's mean backend would have taken, so that one slow backend does not make
    /// all others look fast. Slowness is relative to that mean: if all rose, the model would follow and they would fall
    /// back.
    pub(super) fn observe(&mut self, x: &[f64; N], prediction: &Prediction, seconds: f64) -> f64 {
        // Evidence from waiting requests is confirmed as far as the observed time supports it.
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
    /// Predicts `x` on a backend with the given `pace` and a slowness of at least `slower`, with the residuals of
    /// `class`.
    pub(super) fn predict(&self, x: &[f64; N], class: usize, pace: &Pace, slower: f64) -> Prediction {
        let base = self.base(x);
        let learned = pace.factor(base);
        let speed = learned.max(slower);
        let quantiles = &self.quantiles[class];
        let whole = base * speed;
        let bounded = |seconds: f64| seconds.clamp(MIN_PREDICTION, MAX_PREDICTION);
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

    /// Median of [`predict`](Self::predict) alone, without evidence from waiting requests.
    pub(super) fn seconds(&self, x: &[f64; N], class: usize, pace: &Pace) -> f64 {
        let base = self.base(x);
        (base * pace.factor(base) * self.quantiles[class].median).clamp(MIN_PREDICTION, MAX_PREDICTION)
    }

    /// Slowness of `x` on a backend with the given `pace`, relative to the pool.
    pub(super) fn speed(&self, x: &[f64; N], pace: &Pace) -> f64 {
        pace.factor(self.base(x))
    }

    fn base(&self, x: &[f64; N]) -> f64 {
        let sum: f64 = self.coefficients.iter().zip(x).map(|(coefficient, x)| coefficient * x).sum();
        sum.clamp(MIN_PREDICTION, MAX_PREDICTION)
    }

    /// Probability that the predicted duration is at most `limit` seconds.
    pub(super) fn within(&self, limit: f64, prediction: &Prediction) -> f64 {
        self.quantiles[prediction.class].probability(limit / (prediction.base * prediction.speed))
    }

    /// Time in seconds that the predicted duration does not exceed with probability `level`. Ignores evidence from
    /// waiting requests: limits that followed it would give a stalled engine more time the longer it stalls.
    pub(super) fn quantile(&self, level: f64, prediction: &Prediction) -> f64 {
        let ratio = self.quantiles[prediction.class].quantile(level);
        (prediction.base * prediction.learned * ratio).clamp(MIN_PREDICTION, MAX_PREDICTION)
    }
}

// === impl Track ===

impl Track {
    /// Starts as fast as the pool. The speed applies to predictions of at least `least` seconds.
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

/// The measured time, if it is valid.
pub(super) fn measured(seconds: f64) -> Option<f64> {
    (seconds.is_finite() && seconds >= 0.0).then(|| seconds.clamp(MIN_PREDICTION, MAX_PREDICTION))
}
