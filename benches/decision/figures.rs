//! Times and allocations of a step over many runs.

use std::{fmt, hint::black_box, time::Instant};

use stats_alloc::Region;

use crate::ALLOCATOR;

/// Measurements of one step.
#[derive(Default)]
pub(crate) struct Figures {
    nanos: Vec<u64>,
    /// Allocations and reallocations.
    allocations: usize,
}

impl Figures {
    /// Reserves capacity for `count` measurements, so that recording them does not allocate.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { nanos: Vec::with_capacity(count), allocations: 0 }
    }

    /// Runs and measures the step once.
    pub(crate) fn measure<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let region = Region::new(ALLOCATOR);
        let started = Instant::now();
        let result = black_box(step());
        let took = started.elapsed();
        let change = region.change();
        self.allocations += change.allocations + change.reallocations;
        self.nanos.push(took.as_nanos() as u64);
        result
    }

    /// Quantile of the times, in nanoseconds.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        let place = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(place.max(1) - 1).map_or(f64::NAN, |nanos| *nanos as f64)
    }
}

/// Formats columns of a table: p50, p99, allocations per run.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.allocations as f64 / self.nanos.len().max(1) as f64;
        let digits = if self.allocations == 0 { 0 } else { 4 };
        let micros = |share| self.quantile(share) / 1e3;
        write!(f, "{:.2} µs | {:.2} µs | {each:.digits$}", micros(0.5), micros(0.99))
    }
}
