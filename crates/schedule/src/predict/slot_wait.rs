//! Wait for an engine's slots, relative to its expectation.

use signalbox_types::Moment;

/// Share of the sums that is kept at each observation: about the last thirty count.
const KEPT: f64 = 0.97;
/// Seconds assumed to have been waited as expected, before any observation.
const PRIOR: f64 = 0.1;
/// Largest multiple of the expected wait that one wait counts for: a stalled engine is detected elsewhere.
const MAX_WAIT_RATIO: f64 = 4.0;
/// Range of the factor.
const RANGE: (f64, f64) = (0.1, 30.0);
/// Seconds in which the sums halve, so that an engine whose slots were occupied for long is tried again.
const HALF_LIFE_SECONDS: f64 = 60.0;

/// Ratio of observed to expected waits for an engine's slots: a ratio of sums, so that long waits weigh more.
///
/// The expectation comes from the pool's answers. Other clients' requests to the same engine may be of another kind and
/// occupy its slots for longer or shorter, which no engine reports.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotWait {
    expected: f64,
    waited: f64,
    at: Option<Moment>,
}

impl SlotWait {
    /// Learns that a request `waited` this many seconds where `expected` were predicted. `trust`, in `0..=1`, is the
    /// confidence in the pool's model, which separates the wait from the rest.
    pub(super) fn observe(&mut self, expected: f64, waited: f64, trust: f64, now: Moment) {
        if expected > 0.0 && expected.is_finite() && waited.is_finite() {
            let waited = waited.clamp(0.0, MAX_WAIT_RATIO * (expected * self.factor(now) + PRIOR));
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
    fn wait(slot_wait: &mut SlotWait, from: f64, count: u32, expected: f64, waited: f64) -> f64 {
        let when = |n: u32| from + f64::from(n) / 5.0;
        (0..count).for_each(|n| slot_wait.observe(expected, waited, 1.0, at(when(n))));
        when(count)
    }

    #[test]
    fn longer_waits_for_slots_are_learned_and_unlearned() {
        let mut slot_wait = SlotWait::default();
        assert!((slot_wait.factor(at(0.0)) - 1.0).abs() < 1e-9);
        let now = wait(&mut slot_wait, 0.0, 20, 0.05, 0.3);
        assert!((3.5..6.0).contains(&slot_wait.factor(at(now))), "{}", slot_wait.factor(at(now)));
        let now = wait(&mut slot_wait, now, 150, 0.05, 0.05);
        assert!((0.9..1.2).contains(&slot_wait.factor(at(now))), "{}", slot_wait.factor(at(now)));
    }

    #[test]
    fn the_factor_fades_without_waits() {
        let mut slot_wait = SlotWait::default();
        let now = wait(&mut slot_wait, 0.0, 100, 0.2, 2.0);
        assert!(slot_wait.factor(at(now)) > 8.0);
        assert!(slot_wait.factor(at(now + 900.0)) < 1.1, "{}", slot_wait.factor(at(now + 900.0)));
    }

    #[test]
    fn one_stall_does_not_count_as_a_usual_wait() {
        let mut slot_wait = SlotWait::default();
        let now = wait(&mut slot_wait, 0.0, 30, 0.2, 0.2);
        slot_wait.observe(0.2, 60.0, 1.0, at(now));
        assert!(slot_wait.factor(at(now)) < 1.5, "{}", slot_wait.factor(at(now)));
    }

    #[test]
    fn requests_without_a_wait_are_ignored() {
        let mut slot_wait = SlotWait::default();
        for (expected, waited) in [(0.0, 9.0), (f64::NAN, 9.0), (1.0, f64::INFINITY), (-1.0, 9.0)] {
            slot_wait.observe(expected, waited, 1.0, at(0.0));
        }
        assert!((slot_wait.factor(at(0.0)) - 1.0).abs() < 1e-9);
        slot_wait.observe(1e9, -1.0, 1.0, at(0.0));
        assert!(slot_wait.factor(at(0.0)) >= RANGE.0);
    }
}
