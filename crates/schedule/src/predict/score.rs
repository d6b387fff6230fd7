//! Accuracy of the predictions, compared with a moving average that ignores tokens.

/// Weight of an observation in a backend's moving averages.
const GAIN: f64 = 0.1;
/// Mean absolute deviations between the mean and the 90th percentile of a normal distribution.
const DEVIATIONS: f64 = 1.6;
/// Share of the sums that is kept at each observation: about the last five hundred count.
const KEPT: f64 = 0.998;
/// Level of the percentile that is scored.
const LEVEL: f64 = 0.9;

/// Accuracy of recent predictions (about the last five hundred). Losses are in seconds.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Observations in total.
    pub observations: u64,
    /// Share of observations at or below their predicted 90th percentile; 0.9 is ideal.
    pub coverage: f64,
    /// Mean of |predicted median ÷ observed − 1|.
    pub relative_error: f64,
    /// Mean pinball loss of the predicted 90th percentile (Koenker and Bassett 1978): 0.9 of every second it was too
    /// low, 0.1 of every second it was too high.
    pub pinball: f64,
    /// The same for the baseline: mean plus 1.6 mean deviations of the backend's recent observations.
    pub baseline_pinball: f64,
}

/// Decayed sums behind an [`Accuracy`].
#[derive(Clone, Debug, Default)]
pub(super) struct Score {
    observations: u64,
    weight: f64,
    covered: f64,
    error: f64,
    pinball: f64,
    baseline: f64,
}

/// Moving average of one backend: the baseline that a prediction should beat.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    mean: f64,
    deviation: f64,
    started: bool,
}

impl Score {
    /// Scores a predicted `median` and `p90`, and the baseline's `p90` if there was one, against the `observed` value.
    /// All in seconds.
    pub(super) fn observe(&mut self, observed: f64, median: f64, p90: f64, baseline: Option<f64>) {
        self.observations += 1;
        // Without a baseline neither of the two is scored.
        let Some(baseline) = baseline else { return };
        let add = |sum: &mut f64, value: f64| *sum = KEPT * *sum + value;
        add(&mut self.weight, 1.0);
        add(&mut self.covered, if observed <= p90 { 1.0 } else { 0.0 });
        add(&mut self.error, (median / observed - 1.0).abs());
        add(&mut self.pinball, pinball(observed, p90));
        add(&mut self.baseline, pinball(observed, baseline));
    }

    /// Current accuracy; `None` before the first score.
    pub(super) fn accuracy(&self) -> Option<Accuracy> {
        (self.weight > 0.0).then(|| Accuracy {
            observations: self.observations,
            coverage: self.covered / self.weight,
            relative_error: self.error / self.weight,
            pinball: self.pinball / self.weight,
            baseline_pinball: self.baseline / self.weight,
        })
    }
}

impl Baseline {
    pub(super) fn observe(&mut self, seconds: f64) {
        if self.started {
            self.deviation += GAIN * ((seconds - self.mean).abs() - self.deviation);
            self.mean += GAIN * (seconds - self.mean);
        } else {
            (self.mean, self.started) = (seconds, true);
        }
    }

    /// 90th percentile of the baseline in seconds, if it has any observation.
    pub(super) fn p90(&self) -> Option<f64> {
        self.started.then_some(self.mean + DEVIATIONS * self.deviation)
    }
}

fn pinball(observed: f64, quantile: f64) -> f64 {
    let under = observed - quantile;
    if under > 0.0 { LEVEL * under } else { (LEVEL - 1.0) * under }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_lean_to_the_side_of_the_level() {
        assert!((pinball(2.0, 1.0) - 0.9).abs() < 1e-12);
        assert!((pinball(1.0, 2.0) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_score_reports_shares_and_means() {
        let mut score = Score::default();
        score.observe(1.0, 1.0, 1.0, None);
        assert_eq!(score.accuracy(), None, "nothing to compare with");
        for n in 0..5_000 {
            score.observe(if n % 4 == 0 { 2.0 } else { 1.0 }, 1.0, 1.5, Some(3.0));
        }
        let accuracy = score.accuracy().unwrap();
        assert_eq!(accuracy.observations, 5_001);
        assert!((accuracy.coverage - 0.75).abs() < 0.01);
        assert!((accuracy.relative_error - 0.125).abs() < 0.01);
        assert!((accuracy.pinball - (0.25 * 0.45 + 0.75 * 0.05)).abs() < 0.01);
        assert!((accuracy.baseline_pinball - (0.25 * 0.1 + 0.75 * 0.2)).abs() < 0.01);
    }

    #[test]
    fn the_baseline_covers_nine_in_ten_of_steady_noise() {
        let (mut baseline, mut dice) = (Baseline::default(), fastrand::Rng::with_seed(1));
        let mut covered = 0;
        assert_eq!(baseline.p90(), None);
        for _ in 0..2_000 {
            let normal = (0..12).map(|_| dice.f64()).sum::<f64>() - 6.0;
            let seconds = 10.0 + normal;
            covered += u32::from(baseline.p90().is_some_and(|p90| seconds <= p90));
            baseline.observe(seconds);
        }
        assert!((1_700..1_900).contains(&covered), "{covered}");
    }
}
