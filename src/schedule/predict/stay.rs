//! Wait for an engine's slots, relative to its expectation.

use crate::types::Moment;

/// Share of the sums that is kept at each observation: about the last thirty count.
const KEPT: f64 = 0.97;
/// Seconds assumed to have been waited as expected, before any observation.
const PRIOR: f64 = 0.1;
/// Largest multiple of the expected wait that one wait counts for: a stalled engine is detected elsewhere.
const LONGEST: f64 = 4.0;
/// Range of the factor.
const RANGE: (f64, f64) = (0.1, 30.0);
/// Seconds in which the sums halve, so that an engine whose slots were occupied for long is tried again.
const HALF_LIFE_SECONDS: f64 = 60.0;

/// Ratio of observed to expected waits for an engine's slots: a ratio of sums, so that long waits weigh more.
///
/// The expectation comes from the pool's answers. Other clients' requests to the same engine may be of another kind and
/// occupy its slots for longer or shorter, which no engine reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Stay {
    expected: f64,
    waited: f64,
    at: Option<Moment>,
}

impl Stay {
    /// Learns that a request `waited` this many seconds where `expected` were predicted. `trust`, in `0..=1`, is the
    /// confidence in the pool's model, which separates the wait from the rest.
    pub(super) fn observe(&mut self, expected: f64, waited: f64, trust: f64, now: Moment) {
        if expected > 0.0 && expected.is_finite() && waited.is_finite() {
            let waited = waited.clamp(0.0, LONGEST * (expected * self.factor(now) + PRIOR));
            let kept = KEPT * self.faded(now);
            let trust = trust.clamp(0.0, 1.0);
            self.expected = kept * self.expected + trust * expected;
            self.waited = kept * self.waited + trust * waited;
            self.at = Some(now);
        }
    }

    /// Factor on the expected wait.
    pub(super) fn factor(&self, now: Moment) -> f64 {
        // Most engines have slots enough, or an unknown number.
        if self.expected <= 0.0 {
            return 1.0;
        }
        let kept = self.faded(now);
        ((kept * self.waited + PRIOR) / (kept * self.expected + PRIOR)).clamp(RANGE.0, RANGE.1)
    }

    fn faded(&self, now: Moment) -> f64 {
        self.at.map_or(1.0, |at| (-now.seconds_since(at) / HALF_LIFE_SECONDS).exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_nanos((seconds * 1e9) as u64)
    }

    /// Feeds `count` waits, five a second.
    fn wait(stay: &mut Stay, from: f64, count: u32, expected: f64, waited: f64) -> f64 {
        let when = |n: u32| from + f64::from(n) / 5.0;
        (0..count).for_each(|n| stay.observe(expected, waited, 1.0, at(when(n))));
        when(count)
    }

    #[test]
    fn who_stays_for_longer_than_expected_is_known_after_some_waits_and_forgotten_after_some_more() {
        let mut stay = Stay::default();
        assert!((stay.factor(at(0.0)) - 1.0).abs() < 1e-9);
        let now = wait(&mut stay, 0.0, 20, 0.05, 0.3);
        assert!((3.5..6.0).contains(&stay.factor(at(now))), "{}", stay.factor(at(now)));
        let now = wait(&mut stay, now, 150, 0.05, 0.05);
        assert!((0.9..1.2).contains(&stay.factor(at(now))), "{}", stay.factor(at(now)));
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_tried_again() {
        let mut stay = Stay::default();
        let now = wait(&mut stay, 0.0, 100, 0.2, 2.0);
        assert!(stay.factor(at(now)) > 8.0);
        assert!(stay.factor(at(now + 900.0)) < 1.1, "{}", stay.factor(at(now + 900.0)));
    }

    #[test]
    fn one_stall_is_no_usual_wait() {
        let mut stay = Stay::default();
        let now = wait(&mut stay, 0.0, 30, 0.2, 0.2);
        stay.observe(0.2, 60.0, 1.0, at(now));
        assert!(stay.factor(at(now)) < 1.5, "{}", stay.factor(at(now)));
    }

    #[test]
    fn what_is_no_wait_teaches_nothing() {
        let mut stay = Stay::default();
        for (expected, waited) in [(0.0, 9.0), (f64::NAN, 9.0), (1.0, f64::INFINITY), (-1.0, 9.0)] {
            stay.observe(expected, waited, 1.0, at(0.0));
        }
        assert!((stay.factor(at(0.0)) - 1.0).abs() < 1e-9);
        stay.observe(1e9, -1.0, 1.0, at(0.0));
        assert!(stay.factor(at(0.0)) >= RANGE.0);
    }
}
