//! A moving average of latencies that rises at once and falls slowly.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use signalbox_types::Moment;

/// The peak-sensitive moving average of Finagle's `PeakEwma` and `tower::load::PeakEwma`, in seconds.
///
/// A sample above the average replaces it; one below is mixed in with the weight `1 − exp(−elapsed / τ)`. Without
/// samples the value decays towards zero, so that a backend avoided after one slow answer is tried again.
///
/// The state is one atomic word, so that readers who compare many backends need no lock and see no torn state: the
/// average as `f32` above, the milliseconds of its last update below. Time thus has a resolution of milliseconds, and
/// more than 24 days without a sample read as none.
#[derive(Debug)]
pub struct PeakEwma {
    decay: f64,
    word: AtomicU64,
}

impl PeakEwma {
    /// An average that decays with the time constant `decay` (τ) and starts at `initial` seconds at `now`: the latency
    /// assumed of a backend before it is measured, so that not all requests go to the newest one.
    pub fn new(decay: Duration, initial: f64, now: Moment) -> Self {
        let state = State { value: initial.max(0.0) as f32, at: millis(now) };
        Self { decay: decay.as_secs_f64().max(1e-9), word: AtomicU64::new(state.pack()) }
    }

    /// Adds a round trip of `rtt` seconds that ended at `now`.
    pub fn observe(&self, rtt: f64, now: Moment) {
        if !rtt.is_finite() || rtt < 0.0 {
            return;
        }
        let now = millis(now);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let state = State::unpack(word);
            let elapsed = state.elapsed(now);
            let kept = self.kept(elapsed);
            let mean = f64::from(state.value) * kept + rtt * (1.0 - kept);
            let value = if rtt > f64::from(state.value) { rtt } else { mean };
            let next = State { value: value as f32, at: state.at.wrapping_add(elapsed) };
            match self.word.compare_exchange_weak(word, next.pack(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
    }

    /// The average at `now`, in seconds, decayed by the time since its last sample.
    pub fn value(&self, now: Moment) -> f64 {
        let state = State::unpack(self.word.load(Ordering::Relaxed));
        f64::from(state.value) * self.kept(state.elapsed(millis(now)))
    }

    fn kept(&self, elapsed_millis: u32) -> f64 {
        (-f64::from(elapsed_millis) / 1e3 / self.decay).exp()
    }
}

/// The decoded atomic word.
#[derive(Copy, Clone)]
struct State {
    value: f32,
    at: u32,
}

impl State {
    fn pack(self) -> u64 {
        u64::from(self.value.to_bits()) << 32 | u64::from(self.at)
    }

    fn unpack(word: u64) -> Self {
        Self { value: f32::from_bits((word >> 32) as u32), at: word as u32 }
    }

    /// Milliseconds from the last update to `now`; 0 if another thread has updated with a later `now`.
    fn elapsed(self, now: u32) -> u32 {
        let elapsed = now.wrapping_sub(self.at);
        if elapsed > u32::MAX / 2 { 0 } else { elapsed }
    }
}

/// Milliseconds, wrapping round after 49 days.
fn millis(now: Moment) -> u32 {
    (now.nanos() / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    const TAU: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Moment {
        Moment::default().plus(Duration::from_millis(millis))
    }

    fn close(got: f64, want: f64) -> bool {
        (got - want).abs() <= 1e-5 * want.abs().max(1e-3)
    }

    #[test]
    fn it_rises_at_once_and_falls_slowly() {
        let load = PeakEwma::new(TAU, 0.1, at(0));
        load.observe(2.0, at(0));
        assert!(close(load.value(at(0)), 2.0));
        load.observe(1.0, at(10_000));
        let kept = (-1.0_f64).exp();
        assert!(close(load.value(at(10_000)), 2.0 * kept + (1.0 - kept)));
    }

    #[test]
    fn idle_values_decay() {
        let load = PeakEwma::new(TAU, 1.0, at(5_000));
        assert!(close(load.value(at(5_000)), 1.0));
        assert!(close(load.value(at(15_000)), (-1.0_f64).exp()));
        assert!(load.value(at(1_000_000)) < 1e-9);
    }

    #[test]
    fn readings_a_moment_apart_do_no_harm() {
        let load = PeakEwma::new(TAU, 1.0, at(1_000));
        assert!(close(load.value(at(900)), 1.0));
        load.observe(0.5, at(900));
        assert!(close(load.value(at(1_000)), 1.0));
        for broken in [f64::NAN, f64::INFINITY, -1.0] {
            load.observe(broken, at(2_000));
        }
        assert!(close(load.value(at(1_000)), 1.0));
    }

    #[test]
    fn the_clock_may_wrap_round() {
        let wrap = 1_u64 << 32;
        let load = PeakEwma::new(TAU, 1.0, at(wrap - 5_000));
        assert!(close(load.value(at(wrap + 5_000)), (-1.0_f64).exp()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn it_agrees_with_the_plain_formula(steps in prop::collection::vec((0..5_000_u64, 0.0..100.0_f64), 1..60)) {
            let load = PeakEwma::new(TAU, 0.5, at(0));
            let (mut now, mut cost) = (0, 0.5);
            for (wait, rtt) in steps {
                now += wait;
                let kept = (-(wait as f64) / 1e3 / TAU.as_secs_f64()).exp();
                cost = if rtt > cost { rtt } else { cost * kept + rtt * (1.0 - kept) };
                load.observe(rtt, at(now));
                prop_assert!(close(load.value(at(now)), cost), "{} for {cost}", load.value(at(now)));
                prop_assert!(load.value(at(now)) >= rtt * (1.0 - 1e-5), "never below the sample just seen");
            }
        }
    }
}
