//! How long those who hold one engine's slots stay there.

/// The share of what it knows that is kept at each observation: about the last thirty count.
const KEPT: f64 = 0.97;
/// Seconds that were waited as expected, before any were.
const PRIOR: f64 = 0.1;
/// The range of what can be learned.
const RANGE: (f64, f64) = (0.1, 30.0);

/// How many times as long as expected requests waited for an engine's slots: a ratio of sums, so that long waits weigh the more.
///
/// What is expected is told by the answers of the pool. Others' requests to the same engine may be of another kind, and hold its
/// slots for longer or for less; no engine tells that.
#[derive(Clone, Debug, Default)]
pub(super) struct Stay {
    expected: f64,
    waited: f64,
}

impl Stay {
    /// Someone waited for so many seconds, where so many were `expected`.
    pub(super) fn observe(&mut self, expected: f64, waited: f64) {
        if expected > 0.0 && expected.is_finite() && waited.is_finite() {
            self.expected = KEPT * self.expected + expected;
            self.waited = KEPT * self.waited + waited.max(0.0);
        }
    }

    /// By how much what is expected is to be multiplied.
    pub(super) fn factor(&self) -> f64 {
        ((self.waited + PRIOR) / (self.expected + PRIOR)).clamp(RANGE.0, RANGE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stays_for_longer_than_expected_is_known_after_some_waits_and_forgotten_after_some_more() {
        let mut stay = Stay::default();
        assert!((stay.factor() - 1.0).abs() < 1e-9);
        (0..20).for_each(|_| stay.observe(0.05, 0.3));
        assert!((4.0..6.0).contains(&stay.factor()), "{}", stay.factor());
        (0..150).for_each(|_| stay.observe(0.05, 0.05));
        assert!((0.9..1.2).contains(&stay.factor()), "{}", stay.factor());
    }

    #[test]
    fn what_is_no_wait_teaches_nothing() {
        let mut stay = Stay::default();
        for (expected, waited) in [(0.0, 9.0), (f64::NAN, 9.0), (1.0, f64::INFINITY), (-1.0, 9.0)] {
            stay.observe(expected, waited);
        }
        assert!((stay.factor() - 1.0).abs() < 1e-9);
        stay.observe(1e9, -1.0);
        assert!(stay.factor() >= RANGE.0);
    }
}
