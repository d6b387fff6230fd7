//! Time that an engine takes to load a model, learned from first tokens that had to wait for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use signalbox_types::Moment;

/// Seconds assumed before the first observation: some gigabytes from a local disk.
const ASSUMED: f64 = 8.0;
/// Weight of an observation in the mean.
const GAIN: f64 = 0.3;
/// Longest observation that counts, in seconds.
const MAX_LOAD_SECONDS: f64 = 900.0;
/// Share of the mean that is still expected when the mean has passed.
const REST: f64 = 0.1;

/// Load time of a model on an engine.
#[derive(Debug, Default)]
pub struct LoadTime {
    /// Bits of the mean, in seconds; 0 before the first observation.
    mean: AtomicU64,
    /// Nanoseconds of the [`Moment`] at which a load began that is not over, plus one; 0 without one.
    began: AtomicU64,
}

impl LoadTime {
    /// Seconds until the model is loaded, if it is not.
    pub fn expected(&self, now: Moment) -> f64 {
        let mean = match self.mean.load(Relaxed) {
            0 => ASSUMED,
            bits => f64::from_bits(bits),
        };
        match self.began.load(Relaxed) {
            0 => mean,
            began => (mean - now.seconds_since(Moment::from_nanos(began - 1))).max(REST * mean),
        }
    }

    /// Records that a request which makes the engine load the model is sent. Returns false if one was sent before.
    pub(super) fn begin(&self, now: Moment) -> bool {
        self.began.compare_exchange(0, now.nanos().saturating_add(1), Relaxed, Relaxed).is_ok()
    }

    /// Records that the load is over, or that its request was abandoned.
    pub(super) fn end(&self) {
        self.began.store(0, Relaxed);
    }

    /// Learns that a load took `seconds`.
    pub(super) fn observe(&self, seconds: f64) {
        if !(0.0..=MAX_LOAD_SECONDS).contains(&seconds) {
            return;
        }
        let mean = match self.mean.load(Relaxed) {
            0 => seconds,
            bits => f64::from_bits(bits) + GAIN * (seconds - f64::from_bits(bits)),
        };
        // A mean of zero would count as unknown.
        self.mean.store(mean.max(f64::MIN_POSITIVE).to_bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_times_are_learned_and_run_down() {
        let at = |seconds: f64| Moment::default().plus(std::time::Duration::from_secs_f64(seconds));
        let load = LoadTime::default();
        assert!((load.expected(at(0.0)) - ASSUMED).abs() < 1e-9);
        assert!(load.begin(at(1.0)) && !load.begin(at(2.0)));
        assert!((load.expected(at(4.0)) - 5.0).abs() < 1e-6 && (load.expected(at(40.0)) - 0.8).abs() < 1e-6);
        load.end();
        load.observe(20.0);
        assert!((load.expected(at(50.0)) - 20.0).abs() < 1e-9, "the first observation replaces the assumption");
        load.observe(10.0);
        assert!((load.expected(at(50.0)) - 17.0).abs() < 1e-9);
        for nonsense in [f64::NAN, -1.0, 1e9] {
            load.observe(nonsense);
        }
        assert!((load.expected(at(50.0)) - 17.0).abs() < 1e-9);
    }
}
