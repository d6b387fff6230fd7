//! How long answers are, so that the work of one that is asked for can be estimated.

use std::sync::Mutex;

use crate::measure::lock;

/// Buckets for each doubling of the length: a length is off by at most 6 %.
const PER_DOUBLING: usize = 6;
/// Lengths up to 2²⁰ tokens.
const BUCKETS: usize = 20 * PER_DOUBLING + 1;
/// The share of its weight that an answer keeps at each one after it: about the last five hundred count.
const KEPT: f64 = 0.998;
/// Before any was seen: a log-normal distribution of lengths with this median and standard deviation of the logarithm, which
/// counts as much as this many answers.
const PRIOR_TOKENS: f64 = 200.0;
const PRIOR_SIGMA: f64 = 1.2;
const PRIOR_WEIGHT: f64 = 8.0;
/// An answer longer than all seen before is thought to go on for this share of its length.
const FURTHER: f64 = 0.25;

/// The lengths, in tokens, of the answers of one model on one route: a decayed histogram over logarithmic buckets (2 KB).
#[derive(Debug)]
pub struct OutputLengths {
    buckets: Mutex<[f64; BUCKETS]>,
    /// The length in the middle of each bucket: every decision asks for all of them, and each is a power.
    lengths: [f64; BUCKETS],
}

impl OutputLengths {
    /// Knows what answers are like in general.
    pub fn new() -> Self {
        let weight = |bucket| {
            let off = (length(bucket) / PRIOR_TOKENS).ln() / PRIOR_SIGMA;
            (-0.5 * off * off).exp()
        };
        let shape: [f64; BUCKETS] = std::array::from_fn(weight);
        let sum: f64 = shape.iter().sum();
        Self {
            buckets: Mutex::new(shape.map(|weight| weight * PRIOR_WEIGHT / sum)),
            lengths: std::array::from_fn(length),
        }
    }

    /// Adds an answer that came to `tokens` tokens, also where `max_tokens` cut it off.
    pub fn observe(&self, tokens: u64) {
        let mut buckets = lock(&self.buckets);
        for weight in buckets.iter_mut() {
            *weight *= KEPT;
        }
        buckets[bucket(tokens)] += 1.0;
    }

    /// The mean length of an answer that may have at most `max_tokens`.
    pub fn expected(&self, max_tokens: Option<u64>) -> f64 {
        self.mean(0.0, max_tokens)
    }

    /// The mean length, in all, of an answer that has had `streamed` tokens and goes on. Never less than these.
    pub fn expected_after(&self, streamed: u64, max_tokens: Option<u64>) -> f64 {
        self.mean(streamed as f64, max_tokens).max(streamed as f64)
    }

    /// The length that the share `level` of answers do not exceed.
    pub fn quantile(&self, level: f64) -> f64 {
        let buckets = lock(&self.buckets);
        let mut left = level.clamp(0.0, 1.0) * buckets.iter().sum::<f64>();
        let reached = buckets.iter().position(|weight| {
            left -= weight;
            left <= 0.0
        });
        length(reached.unwrap_or(BUCKETS - 1))
    }

    fn mean(&self, above: f64, max_tokens: Option<u64>) -> f64 {
        let most = max_tokens.map_or(f64::INFINITY, |tokens| tokens as f64);
        let (mut sum, mut weight) = (0.0, 0.0);
        for (&share, &length) in lock(&self.buckets).iter().zip(&self.lengths) {
            if length > above {
                sum += share * length.min(most);
                weight += share;
            }
        }
        // So little is left of the distribution where it decayed for long that a mean of it would be arbitrary.
        if weight > 1e-9 { sum / weight } else { (above * (1.0 + FURTHER)).min(most) }
    }
}

impl Default for OutputLengths {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket(tokens: u64) -> usize {
    let place = (tokens.max(1) as f64).log2() * PER_DOUBLING as f64;
    (place.round() as usize).min(BUCKETS - 1)
}

/// The length in the middle of a bucket.
fn length(bucket: usize) -> f64 {
    (bucket as f64 / PER_DOUBLING as f64).exp2()
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn near(got: f64, want: f64) -> bool {
        (got / want - 1.0).abs() < 0.07
    }

    #[test]
    fn unknown_answers_are_thought_to_be_of_common_length() {
        let lengths = OutputLengths::new();
        assert!(near(lengths.quantile(0.5), PRIOR_TOKENS));
        assert!((200.0..600.0).contains(&lengths.expected(None)));
        assert!(lengths.expected(Some(50)) <= 50.0);
    }

    #[test]
    fn it_learns_from_what_it_sees() {
        let lengths = OutputLengths::new();
        for _ in 0..3_000 {
            lengths.observe(40);
            lengths.observe(1_000);
        }
        assert!(near(lengths.quantile(0.25), 40.0) && near(lengths.quantile(0.75), 1_000.0));
        assert!(near(lengths.expected(None), 520.0), "{}", lengths.expected(None));
        assert!(near(lengths.expected(Some(200)), 120.0));
        assert!(near(lengths.expected_after(100, None), 1_000.0), "the short ones are over by now");
        assert!(near(lengths.expected_after(100, Some(500)), 500.0));
        assert!(lengths.expected_after(5_000, None) >= 5_000.0);
        assert!(lengths.expected_after(u64::MAX, None).is_finite());
        for _ in 0..3_000 {
            lengths.observe(200);
        }
        assert!(near(lengths.expected(None), 200.0), "the old ones are forgotten");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn estimates_stay_within_their_bounds(seen in prop::collection::vec(any::<u64>(), 0..100), streamed: u64, most: u64) {
            let lengths = OutputLengths::new();
            for tokens in seen {
                lengths.observe(tokens);
            }
            prop_assert!(lengths.expected(Some(most)) <= most as f64);
            let after = lengths.expected_after(streamed, Some(most));
            prop_assert!(after.is_finite() && after >= streamed as f64);
            prop_assert!(lengths.quantile(0.1) <= lengths.quantile(0.9));
        }
    }
}
