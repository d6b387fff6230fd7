//! How long those who hold one engine's slots stay there.

use crate::types::Moment;

/// The share of what it knows that is kept at each observation: about the last thirty count.
const KEPT: f64 = 0.97;
/// Seconds that were waited as expected, before any were.
const PRIOR: f64 = 0.1;
/// One wait counts as so many times what was thought at most: an engine that stalls is told elsewhere.
const LONGEST: f64 = 4.0;
/// The range of what can be learned.
const RANGE: (f64, f64) = (0.1, 30.0);
/// What is known halves in this many seconds, so that an engine whose slots somebody held for long is tried again.
const HALF_LIFE_SECONDS: f64 = 60.0;

/// How many times as long as expected requests waited for an engine's slots: a ratio of sums, so that long waits weigh the more.
///
/// What is expected is told by the answers of the pool. Others' requests to the same engine may be of another kind, and hold its
/// slots for longer or for less; no engine tells that.
#[derive(Clone, Debug, Default)]
pub(super) struct Stay {
    expected: f64,
    waited: f64,
    at: Option<Moment>,
}

impl Stay {
    /// Someone waited for so many seconds, where so many were `expected`. `trust`, in `0..=1`, says how far the pool's own model,
    /// which tells the wait from the rest, is to be trusted.
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

    /// By how much what is expected is to be multiplied.
    pub(super) fn factor(&self, now: Moment) -> f64 {
        // Most engines have slots enough, or none that are known.
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

    /// So many waits, five a second.
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
