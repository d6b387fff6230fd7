//! Speed of one backend relative to its pool.

use std::time::Duration;

use signalbox_types::Moment;

/// Weight of an observation in steady state: about the last twenty count.
const GAIN: f64 = 0.05;
/// Largest weight while observations contradict the learned speed.
const LARGEST_GAIN: f64 = 0.3;
/// Distance of a log-ratio from the learned one that counts as a surprise, if it also exceeds [`SURPRISE_SIGMAS`]
/// standard deviations: more than noise of ±20 %, and more than most of the noise seen.
const SURPRISE: f64 = 0.3;
const SURPRISE_SIGMAS: f64 = 1.5;
/// Largest distance that one observation counts for, as a logarithm.
const CLIP: f64 = 1.5;
/// Bound of the learned value, as a logarithm: twenty times as slow or as fast as the pool.
const BOUND: f64 = 3.0;
/// Time without observations after which a backend is idle and its learned speed fades.
const IDLE: Duration = Duration::from_secs(5);
/// Seconds in which the logarithm halves while idle, so that a backend that was slow once is tried again.
const HALF_LIFE_SECONDS: f64 = 30.0;
/// Standard deviation of log-ratios before the first observation.
const PRIOR_SIGMA: f64 = 0.3;
/// Weight of an observation in that deviation.
const SIGMA_GAIN: f64 = 0.02;
/// Largest squared deviation that counts as noise.
const LARGEST_SQUARE: f64 = 0.5;
/// A speed applies when it differs from 1 by this many standard errors.
const STANDARD_ERRORS: f64 = 3.0;

/// A factor on the pool's predictions, above 1 for a slow backend.
///
/// It is the exponential of a moving average of log-ratios (observed to predicted by the pool's model). The gain is
/// small, so that the average does not follow noise. Each surprise that follows one of the same sign doubles the gain,
/// so that a backend that became four times as slow is detected after about five observations.
#[derive(Clone, Debug)]
pub(super) struct Speed {
    ln: f64,
    /// Exponential of `ln`.
    factor: f64,
    /// Mean square of the log-ratios' distance from `ln`.
    variance: f64,
    /// Variance of `ln` as a share of `variance` (the sum of the squared weights in the average).
    share: f64,
    /// Consecutive surprises, negative for faster observations.
    run: i32,
    at: Option<Moment>,
}

impl Speed {
    /// Starts as fast as the pool.
    pub(super) const fn new() -> Self {
        Self { ln: 0.0, factor: 1.0, variance: PRIOR_SIGMA * PRIOR_SIGMA, share: 0.0, run: 0, at: None }
    }

    /// Learns that work of one second on the pool took `ratio` seconds here. `trust`, in `0..=1`, is the confidence in
    /// the pool's model.
    pub(super) fn observe(&mut self, ratio: f64, trust: f64, now: Moment) {
        let ratio = ratio.ln();
        if !ratio.is_finite() {
            return;
        }
        self.ln = self.faded(now);
        let off = (ratio - self.ln).clamp(-CLIP, CLIP);
        let sign = if off > 0.0 { 1 } else { -1 };
        self.run = match off.abs() > SURPRISE.max(SURPRISE_SIGMAS * self.variance.sqrt()) {
            true if self.run.signum() == sign => self.run.saturating_add(sign),
            true => sign,
            false => 0,
        };
        let doublings = self.run.unsigned_abs().saturating_sub(1).min(8);
        let gain = trust.clamp(0.0, 1.0) * (GAIN * f64::from(1_u32 << doublings)).min(LARGEST_GAIN);
        self.ln = (self.ln + gain * off).clamp(-BOUND, BOUND);
        self.factor = self.ln.exp();
        // Bounded, so that a change of speed does not look like noise.
        self.variance += SIGMA_GAIN * ((off * off).min(LARGEST_SQUARE) - self.variance);
        self.share = (1.0 - gain) * (1.0 - gain) * self.share + gain * gain;
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }

    /// Factor at `now`: exactly 1 unless the learned value is significant.
    pub(super) fn factor(&self, now: Moment) -> f64 {
        // Fading does not make a value significant. The two common cases need no logarithms.
        if !self.significant(self.ln) {
            return 1.0;
        }
        if self.at.is_none_or(|at| now.since(at) <= IDLE) {
            return self.factor;
        }
        let ln = self.faded(now);
        if self.significant(ln) { ln.exp() } else { 1.0 }
    }

    fn significant(&self, ln: f64) -> bool {
        ln * ln > STANDARD_ERRORS * STANDARD_ERRORS * self.variance * self.share
    }

    fn faded(&self, now: Moment) -> f64 {
        let idle = self.at.map_or(Duration::ZERO, |at| now.since(at).saturating_sub(IDLE));
        if idle.is_zero() { self.ln } else { self.ln * (-idle.as_secs_f64() / HALF_LIFE_SECONDS).exp2() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_nanos((seconds * 1e9) as u64)
    }

    /// Feeds `count` observations, five a second from `from` on, `times` as slow as the pool, with noise of ±20 %.
    fn feed(speed: &mut Speed, dice: &mut fastrand::Rng, from: f64, count: u32, times: f64) -> f64 {
        let mut now = from;
        for _ in 0..count {
            now += 0.2;
            speed.observe(times * (0.8 + 0.4 * dice.f64()), 1.0, at(now));
        }
        now
    }

    #[test]
    fn noise_alone_changes_little() {
        for seed in 0..20 {
            let (mut speed, mut dice) = (Speed::new(), fastrand::Rng::with_seed(seed));
            let mut now = 0.0;
            for _ in 0..1_000 {
                now = feed(&mut speed, &mut dice, now, 1, 1.0);
                assert!(speed.run.abs() <= 1, "the gain never leaves its small value");
                assert!((0.85..1.15).contains(&speed.factor(at(now))), "{}", speed.factor(at(now)));
            }
        }
    }

    #[test]
    fn a_slowdown_and_its_end_are_detected_within_seconds() {
        for seed in 0..20 {
            let (mut speed, mut dice) = (Speed::new(), fastrand::Rng::with_seed(seed));
            let mut now = feed(&mut speed, &mut dice, 0.0, 200, 1.0);
            now = feed(&mut speed, &mut dice, now, 8, 4.0);
            assert!(speed.factor(at(now)) > 2.0, "after 1.6 s: {}", speed.factor(at(now)));
            now = feed(&mut speed, &mut dice, now, 17, 4.0);
            assert!((3.2..5.0).contains(&speed.factor(at(now))), "after 5 s: {}", speed.factor(at(now)));
            now = feed(&mut speed, &mut dice, now, 200, 4.0);
            now = feed(&mut speed, &mut dice, now, 25, 1.0);
            assert!(speed.factor(at(now)) < 1.3, "5 s after recovery: {}", speed.factor(at(now)));
        }
    }

    #[test]
    fn an_idle_backend_s_slowness_fades() {
        let (mut speed, mut dice) = (Speed::new(), fastrand::Rng::with_seed(1));
        let now = feed(&mut speed, &mut dice, 0.0, 100, 4.0);
        let slow = speed.factor(at(now));
        assert!((speed.factor(at(now + 4.9)) - slow).abs() < 1e-12, "waiting for a long answer is not idleness");
        assert!((speed.factor(at(now + 35.0)).ln() - slow.ln() / 2.0).abs() < 1e-9);
        assert!(speed.factor(at(now + 65.0)) < 1.5);
        assert!((speed.factor(at(now + 3600.0)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn invalid_observations_are_ignored() {
        let mut speed = Speed::new();
        for ratio in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            speed.observe(ratio, 1.0, at(1.0));
        }
        assert!((speed.factor(at(1.0)) - 1.0).abs() < 1e-12);
        for _ in 0..1_000 {
            speed.observe(1e300, f64::MAX, at(1.0));
        }
        assert!(speed.factor(at(0.0)) <= BOUND.exp() + 1e-9);
    }
}
