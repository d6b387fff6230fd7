//! Counts of durations in logarithmic buckets, which can be added up, and their quantiles.
//!
//! The buckets are those of DDSketch (Masson, Rim and Lee, VLDB 2019): with growth γ = (1 + α) / (1 − α), reporting
//! `2γⁱ / (γ + 1)` for the bucket `(γⁱ⁻¹, γⁱ]` is off by at most α. The sum of two sketches is the sketch of all their
//! samples.

/// α, the largest relative error of a quantile.
pub(super) const ACCURACY: f64 = 0.02;
/// γ, the ratio between the upper bounds of neighbouring buckets.
const GROWTH: f64 = (1.0 + ACCURACY) / (1.0 - ACCURACY);
/// The smallest value that is distinguished from zero, in seconds.
pub(super) const FLOOR: f64 = 1e-6;
/// The largest value that is distinguished from longer ones, in seconds.
pub(super) const CEILING: f64 = 3600.0;
/// Buckets from [`FLOOR`] to [`CEILING`].
pub(super) const BUCKETS: usize = 552;

/// A summary of durations, in seconds. Quantiles are within 2 % of the sample at their rank.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Summary {
    /// Number of samples; never 0.
    pub count: u64,
    /// Arithmetic mean, exact.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Summary {
    /// The quantiles with their names as metric labels.
    pub const fn quantiles(&self) -> [(&'static str, f64); 4] {
        [("0.5", self.p50), ("0.9", self.p90), ("0.95", self.p95), ("0.99", self.p99)]
    }
}

/// Durations in buckets, in seconds from 1 µs to 1 h. 4.4 KB.
#[derive(Clone, Debug)]
pub struct Sketch {
    count: u64,
    sum: f64,
    counts: [u64; BUCKETS],
}

impl Sketch {
    /// A sketch without samples.
    pub const fn new() -> Self {
        Self { count: 0, sum: 0.0, counts: [0; BUCKETS] }
    }

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        (self.count, self.sum) = (self.count + other.count, self.sum + other.sum);
        for (total, count) in self.counts.iter_mut().zip(&other.counts) {
            *total += count;
        }
    }

    /// Adds `count` samples with this `sum`: `counts[0]` belongs to the bucket `first`.
    pub(super) fn add(&mut self, count: u64, sum: f64, first: usize, counts: &[u32]) {
        (self.count, self.sum) = (self.count + count, self.sum + sum);
        for (total, count) in self.counts[first..].iter_mut().zip(counts) {
            *total += u64::from(*count);
        }
    }

    /// The summary of all samples; `None` without any.
    pub fn summary(&self) -> Option<Summary> {
        (self.count > 0).then(|| Summary {
            count: self.count,
            mean: self.sum / self.count as f64,
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
        })
    }

    /// The value at the nearest rank: the smallest one with at least the share `q` of all samples at or below it.
    fn quantile(&self, q: f64) -> f64 {
        let rank = ((q * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return value_of(bucket);
            }
        }
        CEILING
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self::new()
    }
}

/// The nearest value that is distinguished.
pub(super) const fn clamped(seconds: f64) -> f64 {
    seconds.clamp(FLOOR, CEILING)
}

/// The bucket of a value between [`FLOOR`] and [`CEILING`].
pub(super) fn bucket_of(seconds: f64) -> usize {
    let bucket = ((seconds / FLOOR).ln() / GROWTH.ln()).ceil();
    (bucket.max(0.0) as usize).min(BUCKETS - 1)
}

/// The value that stands for a bucket: the one whose relative distance to both of its ends is the same.
pub(super) fn value_of(bucket: usize) -> f64 {
    FLOOR * (bucket as f64 * GROWTH.ln()).exp() * 2.0 / (GROWTH + 1.0)
}
