//! Slowness of a tier relative to the one below it, compared with its usual value.
//!
//! A configured share includes the usual extra time of a larger model; only more than that should move the bar. As in
//! delay-based congestion control (TCP Vegas, Brakmo and Peterson 1995; LEDBAT, RFC 6817), the usual value is a slowly
//! rising floor under the current one. It follows at once when a tier gets faster and over ten minutes when it gets
//! slower, so that a queue is not taken for usual before long, and a larger model put into the pool is.

use signalbox_types::Moment;

/// Weight of a request in the current value: about the last sixteen count.
const WEIGHT: f64 = 1.0 / 16.0;
/// Seconds in which the usual value follows half of the way down, and up.
const DOWN_SECONDS: f64 = 30.0;
const UP_SECONDS: f64 = 600.0;
/// Ratio above the usual that is still noise: predictions differ between requests.
const NOISE: f64 = 1.25;
/// Seconds added to both times, so that a few milliseconds more on very short answers do not count as a multiple: less
/// is perceived as instantaneous (Nielsen 1993, chapter 5).
const PERCEPTIBLE: f64 = 0.1;
/// Largest part of a tier's share that a queue takes away.
const MOST_LOST: f64 = 0.5;

/// Ratios of the times to the end of answers in two neighbouring tiers, with a tenth of a second added to both, as
/// logarithms.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowness {
    now: f64,
    usual: f64,
    /// Time of the last observation.
    at: Option<Moment>,
}

impl Slowness {
    /// Adds a request that is predicted to take `upper` seconds in the upper tier and `lower` in the lower one.
    pub(super) fn observe(&mut self, lower: f64, upper: f64, now: Moment) {
        let ratio = ((upper + PERCEPTIBLE) / (lower + PERCEPTIBLE)).ln();
        if !ratio.is_finite() {
            return;
        }
        let Some(at) = self.at.replace(now) else {
            (self.now, self.usual) = (ratio, ratio);
            return;
        };
        self.now += WEIGHT * (ratio - self.now);
        let seconds = now.seconds_since(at);
        let pace = if self.now < self.usual { DOWN_SECONDS } else { UP_SECONDS };
        self.usual += (self.now - self.usual) * seconds / (seconds + pace);
    }

    /// Part of its share that the upper tier keeps, from 1 down to 0.5. Half of it follows Little's law: a tier that
    /// takes k times as long as usual has its usual number of requests under way with a k-th of them.
    pub(super) fn kept(&self) -> f64 {
        let beyond = (self.now - self.usual - NOISE.ln()).max(0.0);
        (1.0 - MOST_LOST) + MOST_LOST * (-beyond).exp()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_nanos((seconds * 1e9) as u64)
    }

    #[test]
    fn usual_differences_and_noise_cost_nothing() {
        let (mut slowness, mut dice) = (Slowness::default(), fastrand::Rng::with_seed(1));
        assert!((slowness.kept() - 1.0).abs() < 1e-12);
        for second in 0..5_000 {
            let noise = 0.75 + 0.5 * dice.f64();
            slowness.observe(1.0, 7.0 * noise, at(f64::from(second)));
            assert!(slowness.kept() > 0.97, "{second}: {slowness:?}");
        }
    }

    #[test]
    fn a_queue_takes_up_to_half_of_the_share_and_returns_it() {
        let mut slowness = Slowness::default();
        let mut kept = |seconds: std::ops::Range<u32>, upper: f64| {
            seconds.fold((1.0_f64, 0.0_f64), |(least, step), second| {
                let before = slowness.kept();
                slowness.observe(2.0, upper, at(f64::from(second) / 10.0));
                (least.min(slowness.kept()), step.max((slowness.kept() - before).abs()))
            })
        };
        assert!((kept(0..600, 6.0).0 - 1.0).abs() < 1e-9);
        let (least, step) = kept(600..1_000, 60.0);
        assert!((0.5..0.6).contains(&least) && step < 0.06, "{least}, in steps of {step}");
        kept(1_000..1_100, 6.0);
        assert!((slowness.kept() - 1.0).abs() < 1e-9, "{slowness:?}");
    }

    #[test]
    fn a_lasting_difference_becomes_usual() {
        let mut slowness = Slowness::default();
        slowness.observe(1.0, 3.0, at(0.0));
        (1..7_200).for_each(|second| slowness.observe(1.0, 9.0, at(f64::from(second))));
        assert!((slowness.kept() - 1.0).abs() < 1e-9, "{slowness:?}");
    }

    #[test]
    fn milliseconds_do_not_count_as_a_queue() {
        let mut slowness = Slowness::default();
        slowness.observe(0.001, 0.001, at(0.0));
        (1..100).for_each(|second| slowness.observe(0.001, 0.02, at(f64::from(second))));
        assert!((slowness.kept() - 1.0).abs() < 1e-9, "{slowness:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn it_stays_within_its_bounds(seen in prop::collection::vec((any::<f64>(), any::<f64>(), 0..u64::MAX), 0..50)) {
            let mut slowness = Slowness::default();
            for (lower, upper, nanos) in seen {
                slowness.observe(lower, upper, Moment::from_nanos(nanos));
                prop_assert!((0.5..=1.0).contains(&slowness.kept()), "{slowness:?}");
            }
        }
    }
}
