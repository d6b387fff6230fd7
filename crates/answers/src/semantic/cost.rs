//! The recent duration of a lookup's step.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Weight of a measurement in the mean.
const GAIN: f64 = 0.1;
/// Minimum of measurements, since the first include loading.
const MIN_MEASUREMENTS: u32 = 16;

/// An exponentially weighted mean. One of two concurrent measurements may be lost.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Bits of the mean in seconds.
    mean: AtomicU64,
    measured: AtomicU32,
}

impl Cost {
    /// Adds a measurement.
    pub(super) fn record(&self, time: Duration) {
        let (seconds, mean) = (time.as_secs_f64(), f64::from_bits(self.mean.load(Relaxed)));
        let measured = self.measured.load(Relaxed);
        let gain = GAIN.max(1.0 / f64::from(measured.saturating_add(1)));
        self.mean.store((mean + gain * (seconds - mean)).to_bits(), Relaxed);
        self.measured.store(measured.saturating_add(1), Relaxed);
    }

    /// The mean in seconds; `None` before [`MIN_MEASUREMENTS`] measurements.
    pub(super) fn seconds(&self) -> Option<f64> {
        (self.measured.load(Relaxed) >= MIN_MEASUREMENTS).then(|| f64::from_bits(self.mean.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_measurements_make_a_mean_that_adapts() {
        let cost = Cost::default();
        (0..MIN_MEASUREMENTS - 1).for_each(|_| cost.record(Duration::from_millis(10)));
        assert_eq!(cost.seconds(), None);
        cost.record(Duration::from_millis(10));
        assert!((cost.seconds().unwrap() - 0.01).abs() < 1e-9);
        (0..100).for_each(|_| cost.record(Duration::from_millis(30)));
        assert!((cost.seconds().unwrap() - 0.03).abs() < 1e-4);
    }
}
