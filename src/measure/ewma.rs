//! A mean over time in which a sample's weight decays with its age.

use std::{sync::Mutex, time::Duration};

use super::lock;
use crate::types::Moment;

/// A time-decayed mean: every sample weighs `exp(−age / τ)`, however irregularly samples come.
///
/// Sum and weight are decayed together, so the first sample counts in full (there is no made-up start value to get rid
/// of) and a burst at one moment is averaged, not taken for its last member.
#[derive(Debug)]
pub struct Ewma {
    decay: f64,
    state: Mutex<State>,
}

#[derive(Copy, Clone, Debug, Default)]
struct State {
    weight: f64,
    sum: f64,
    at: Moment,
}

impl Ewma {
    /// A mean that forgets with the time constant `decay` (τ): a sample of that age weighs 37 %.
    pub fn new(decay: Duration) -> Self {
        Self { decay: decay.as_secs_f64().max(1e-9), state: Mutex::default() }
    }

    /// Adds a sample taken at `now`.
    pub fn observe(&self, sample: f64, now: Moment) {
        if !sample.is_finite() {
            return;
        }
        let mut state = lock(&self.state);
        let kept = self.kept(&state, now);
        state.weight = state.weight * kept + 1.0;
        state.sum = state.sum * kept + sample;
        state.at = state.at.max(now);
    }

    /// The mean; `None` before the first sample. It does not move while no samples come: see [`Ewma::weight`].
    pub fn value(&self) -> Option<f64> {
        let state = *lock(&self.state);
        (state.weight > 0.0).then(|| state.sum / state.weight)
    }

    /// How many fresh samples the mean is worth at `now`: what tells a live mean from a stale one.
    pub fn weight(&self, now: Moment) -> f64 {
        let state = *lock(&self.state);
        state.weight * self.kept(&state, now)
    }

    fn kept(&self, state: &State, now: Moment) -> f64 {
        (-now.since(state.at).as_secs_f64() / self.decay).exp()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_sample_counts_in_full() {
        let mean = Ewma::new(Duration::from_secs(10));
        assert_eq!(mean.value(), None);
        mean.observe(5.0, at(100));
        assert_eq!(mean.value(), Some(5.0));
        mean.observe(f64::NAN, at(100));
        mean.observe(7.0, at(100));
        assert_eq!(mean.value(), Some(6.0));
    }

    #[test]
    fn old_samples_fade() {
        let mean = Ewma::new(Duration::from_secs(10));
        mean.observe(0.0, at(0));
        mean.observe(1.0, at(10));
        let faded = (-1.0_f64).exp();
        assert!((mean.value().unwrap() - 1.0 / (1.0 + faded)).abs() < 1e-12);
        assert!((mean.weight(at(20)) - (1.0 + faded) * faded).abs() < 1e-12);
    }

    #[test]
    fn very_long_silence_leaves_no_nan() {
        let mean = Ewma::new(Duration::from_millis(1));
        mean.observe(3.0, at(0));
        mean.observe(4.0, at(1_000_000));
        assert_eq!(mean.value(), Some(4.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn it_stays_within_what_was_seen(samples in prop::collection::vec((0.0..1e6_f64, 0..1000_u64), 1..50)) {
            let mean = Ewma::new(Duration::from_secs(30));
            for (sample, time) in &samples {
                mean.observe(*sample, at(*time));
            }
            let (low, high) = samples.iter().fold((f64::MAX, 0.0_f64), |(l, h), (s, _)| (l.min(*s), h.max(*s)));
            let value = mean.value().unwrap();
            prop_assert!(value >= low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9));
        }
    }
}
