//! Answer lengths, for estimating the work of a request before and during its answer.

use std::sync::LazyLock;

use parking_lot::Mutex;

/// Buckets per doubling of the length: a length is off by at most 6 %.
const PER_DOUBLING: usize = 6;
/// Covers lengths up to 2²⁰ tokens.
const BUCKETS: usize = 20 * PER_DOUBLING + 1;
/// Share of its weight that an answer keeps at each later one that came as far: about the last five hundred count.
const KEPT: f32 = 0.998;
/// Prior: a log-normal distribution of lengths with this median and standard deviation of the logarithm.
const PRIOR_TOKENS: f32 = 200.0;
const PRIOR_SIGMA: f32 = 1.2;
/// Weight of the prior, in answers.
const PRIOR_WEIGHT: f32 = 8.0;
/// Weight of the prior at lengths that no answer reached, in answers.
const LEAST_WEIGHT: f32 = 1e-6;
/// Counts and shares below this are zero: arithmetic with the smallest floats is slow and means nothing.
const NOTHING: f32 = 1e-12;

/// Length in the middle of each bucket, in tokens.
static LENGTHS: LazyLock<[f32; BUCKETS]> =
    LazyLock::new(|| std::array::from_fn(|bucket| (bucket as f32 / PER_DOUBLING as f32).exp2()));

/// Lengths in tokens of the answers to one kind of request: decayed counts over logarithmic buckets (2 KB).
///
/// Each bucket counts the answers that reached it and, of these, those that ended there. The product of the remaining
/// shares is the Kaplan–Meier estimate (1958) of the distribution, in which a cut answer counts as evidence up to its
/// length. Buckets that only longer answers could inform are left unchanged. With prior counts in proportion to the
/// share that reaches each bucket, this is the posterior of a Dirichlet prior under censoring (Susarla and Van Ryzin,
/// 1976).
///
/// Readers hold its lock for some nanoseconds, the first after a write and writers for a few hundred.
#[derive(Debug)]
pub struct OutputLengths {
    hazards: Mutex<Hazards>,
}

/// Expected length of an answer, in tokens.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct OutputForecast {
    /// Limit requested by the client.
    pub limit: Option<u64>,
    /// Mean within that limit.
    pub mean: f64,
    /// Median without the limit.
    pub median: f64,
    /// 90th percentile without the limit.
    pub p90: f64,
}

#[derive(Clone, Debug)]
struct Hazards {
    /// True once `share` and `mean` follow from the counts. They are derived when they are read: the distribution of all
    /// kinds only counts.
    derived: bool,
    /// Answers that reached each bucket.
    came: [f32; BUCKETS],
    /// Of these, the answers that ended there.
    ended: [f32; BUCKETS],
    /// Share of answers that reach each bucket.
    share: [f32; BUCKETS],
    /// Mean length of the answers that reach it.
    mean: [f32; BUCKETS],
}

// === impl OutputLengths ===

impl OutputLengths {
    /// Starts from the general prior.
    pub fn new() -> Self {
        let weight = |bucket| {
            let length: f32 = LENGTHS[bucket];
            let off = (length / PRIOR_TOKENS).ln() / PRIOR_SIGMA;
            (-0.5 * off * off).exp()
        };
        let shape: [f32; BUCKETS] = std::array::from_fn(weight);
        let mut beyond = 0.0;
        let mut hazard = [0.0; BUCKETS];
        for bucket in (0..BUCKETS).rev() {
            beyond += shape[bucket];
            hazard[bucket] = shape[bucket] / beyond;
        }
        Self { hazards: Mutex::new(Hazards::believing(&hazard)) }
    }

    /// Starts from the distribution in `others`.
    pub fn like(others: &Self) -> Self {
        let hazard = others.hazards.lock().hazard();
        Self { hazards: Mutex::new(Hazards::believing(&hazard)) }
    }

    /// Adds an answer that ended after `tokens` tokens.
    pub fn observe(&self, tokens: u64) {
        self.hazards.lock().observe(tokens, true);
    }

    /// Adds an answer that was cut off after `tokens` tokens and would have been longer.
    pub fn observe_cut(&self, tokens: u64) {
        self.hazards.lock().observe(tokens, false);
    }

    /// Forecast of an answer of at most `max_tokens`.
    pub fn forecast(&self, max_tokens: Option<u64>) -> OutputForecast {
        let mut hazards = self.hazards.lock();
        let hazards = hazards.derive();
        OutputForecast {
            limit: max_tokens,
            mean: hazards.mean(0, max_tokens),
            median: hazards.quantile(0.5),
            p90: hazards.quantile(0.9),
        }
    }

    /// Mean total length of an answer that has produced `streamed` tokens and continues. At least `streamed`.
    pub fn expected_after(&self, streamed: u64, max_tokens: Option<u64>) -> f64 {
        self.hazards.lock().derive().mean(streamed, max_tokens).max(streamed as f64)
    }
}

impl Default for OutputLengths {
    fn default() -> Self {
        Self::new()
    }
}

// === impl OutputForecast ===

impl OutputForecast {
    /// 90th percentile within the limit.
    pub fn p90_within_limit(&self) -> f64 {
        self.limit.map_or(self.p90, |limit| self.p90.min(limit as f64))
    }
}

// === impl Hazards ===

impl Hazards {
    /// Starts from the share of answers that ends in each bucket, of those that reach it.
    fn believing(hazard: &[f32; BUCKETS]) -> Self {
        let none = [0.0; BUCKETS];
        let mut new = Self { derived: false, came: none, ended: none, share: none, mean: none };
        let mut share = 1.0;
        for (bucket, &hazard) in hazard.iter().enumerate() {
            let weight = (PRIOR_WEIGHT * share).max(LEAST_WEIGHT);
            (new.came[bucket], new.ended[bucket]) = (weight, weight * hazard);
            share *= 1.0 - hazard;
        }
        new
    }

    fn observe(&mut self, tokens: u64, ended: bool) {
        let last = bucket(tokens);
        for bucket in 0..=last {
            self.came[bucket] = self.came[bucket] * KEPT + 1.0;
            let kept = self.ended[bucket] * KEPT;
            self.ended[bucket] = if kept < NOTHING { 0.0 } else { kept };
        }
        if ended {
            self.ended[last] += 1.0;
        }
        self.derived = false;
    }

    /// Share of answers that ends in each bucket, of those that reach it.
    fn hazard(&self) -> [f32; BUCKETS] {
        std::array::from_fn(|bucket| (self.ended[bucket] / self.came[bucket]).min(1.0))
    }

    fn derive(&mut self) -> &Self {
        if std::mem::replace(&mut self.derived, true) {
            return self;
        }
        let hazard = self.hazard();
        let mut share = 1.0;
        for (bucket, hazard) in hazard.iter().enumerate() {
            self.share[bucket] = share;
            share *= 1.0 - hazard;
            share = if share < NOTHING { 0.0 } else { share };
        }
        let mut mean = LENGTHS[BUCKETS - 1];
        for bucket in (0..BUCKETS).rev() {
            mean = hazard[bucket] * LENGTHS[bucket] + (1.0 - hazard[bucket]) * mean;
            self.mean[bucket] = mean;
        }
        self
    }

    /// Mean length, capped at `most`, of the answers longer than `above`.
    fn mean(&self, above: u64, most: Option<u64>) -> f64 {
        let from = if above == 0 { 0 } else { place(above).floor() as usize + 1 };
        let Some(&mean) = self.mean.get(from) else { return above as f64 };
        let mean = f64::from(mean);
        let Some(most) = most else { return mean };
        let (to, most) = (place(most).ceil() as usize, most as f64);
        let (Some(&further), Some(&share)) = (self.mean.get(to), self.share.get(to)) else { return mean.min(most) };
        if to <= from || self.share[from] <= 0.0 {
            return mean.min(most);
        }
        // Answers that would reach the limit end there.
        let cut = f64::from(share) / f64::from(self.share[from]);
        (mean - cut * (f64::from(further) - most)).min(most)
    }

    /// Least length that at least the share `level` of answers does not exceed.
    fn quantile(&self, level: f32) -> f64 {
        let bucket = self.share[1..].partition_point(|share| *share > 1.0 - level);
        ((bucket as f64 + 0.5) / PER_DOUBLING as f64).exp2().floor()
    }
}

/// Position of a length on the bucket scale.
fn place(tokens: u64) -> f64 {
    (tokens.max(1) as f64).log2() * PER_DOUBLING as f64
}

fn bucket(tokens: u64) -> usize {
    (place(tokens).round() as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn near(got: f64, want: f64) -> bool {
        (got / want - 1.0).abs() < 0.07
    }

    fn mean(lengths: &OutputLengths, max_tokens: Option<u64>) -> f64 {
        lengths.forecast(max_tokens).mean
    }

    fn quantile(lengths: &OutputLengths, level: f32) -> f64 {
        lengths.hazards.lock().derive().quantile(level)
    }

    #[test]
    fn the_prior_has_common_answer_lengths() {
        let forecast = OutputLengths::new().forecast(None);
        assert!((190.0..230.0).contains(&forecast.median), "{forecast:?}");
        assert!((200.0..600.0).contains(&forecast.mean) && (900.0..1_100.0).contains(&forecast.p90), "{forecast:?}");
        let limited = OutputLengths::new().forecast(Some(50));
        assert!(limited.mean <= 50.0 && limited.p90_within_limit() <= 50.0);
        assert!((limited.p90 - forecast.p90).abs() < 1e-9, "a limit is not a length");
    }

    #[test]
    fn lengths_are_learned_from_answers() {
        let lengths = OutputLengths::new();
        for _ in 0..3_000 {
            lengths.observe(40);
            lengths.observe(1_000);
        }
        assert!((40.0..45.0).contains(&quantile(&lengths, 0.25)), "{}", quantile(&lengths, 0.25));
        assert!((1_000.0..1_090.0).contains(&quantile(&lengths, 0.75)), "{}", quantile(&lengths, 0.75));
        assert!(near(mean(&lengths, None), 520.0), "{}", mean(&lengths, None));
        assert!(near(mean(&lengths, Some(200)), 120.0), "{}", mean(&lengths, Some(200)));
        assert!(near(lengths.expected_after(100, None), 1_000.0), "the short ones are over by now");
        assert!(near(lengths.expected_after(100, Some(500)), 500.0));
        assert!(lengths.expected_after(5_000, None) >= 5_000.0);
        assert!(lengths.expected_after(u64::MAX, None).is_finite());
        for _ in 0..3_000 {
            lengths.observe(200);
        }
        assert!(near(mean(&lengths, None), 200.0), "the old ones are forgotten: {}", mean(&lengths, None));
    }

    #[test]
    fn cut_answers_only_give_a_lower_bound() {
        let lengths = OutputLengths::new();
        let before = (mean(&lengths, None), lengths.expected_after(100, None));
        for _ in 0..100_000 {
            lengths.observe_cut(16);
        }
        let after = (mean(&lengths, None), lengths.expected_after(100, None));
        // The lower bound is learned; the lengths beyond it stay at the prior.
        assert!(near(after.1, before.1) && after.0 >= before.0 && after.0 < before.0 * 1.1, "{before:?} {after:?}");
        assert!(mean(&lengths, Some(16)) <= 16.0 && mean(&lengths, Some(16)) > 15.0);
    }

    #[test]
    fn a_mixture_of_limits_shows_the_lengths_behind_them() {
        let mut dice = fastrand::Rng::with_seed(1);
        let (cut, whole) = (OutputLengths::new(), OutputLengths::new());
        for _ in 0..4_000 {
            let tokens = dice.u64(100..900);
            whole.observe(tokens);
            match [16, 200, 400, u64::MAX][dice.usize(..4)] {
                limit if tokens >= limit => cut.observe_cut(limit),
                _ => cut.observe(tokens),
            }
        }
        assert!((mean(&whole, None) / 500.0 - 1.0).abs() < 0.05, "{}", mean(&whole, None));
        assert!((mean(&cut, None) / 500.0 - 1.0).abs() < 0.1, "{}", mean(&cut, None));
        assert!((quantile(&cut, 0.9) / 820.0 - 1.0).abs() < 0.12, "{}", quantile(&cut, 0.9));
    }

    #[test]
    fn a_new_distribution_starts_like_the_others_and_moves_slowly() {
        let others = OutputLengths::new();
        for _ in 0..2_000 {
            others.observe(1_000);
        }
        let new = OutputLengths::like(&others);
        assert!(near(mean(&new, None), 1_000.0));
        new.observe(10);
        assert!(mean(&new, None) > 850.0 && mean(&new, None) < 950.0, "{}", mean(&new, None));
        assert!(quantile(&new, 0.5) >= 1_000.0);
        for _ in 0..200 {
            new.observe(10);
        }
        assert!(mean(&new, None) < 60.0, "{}", mean(&new, None));
    }

    #[test]
    fn it_takes_no_more_than_2_kb() {
        assert!(size_of::<OutputLengths>() <= 2_048, "{}", size_of::<OutputLengths>());
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn estimates_stay_within_their_bounds(
            seen in prop::collection::vec((0..2_000_000_u64, any::<bool>()), 0..100),
            streamed: u64,
            most: u64,
        ) {
            let lengths = OutputLengths::new();
            for (tokens, ended) in seen {
                if ended { lengths.observe(tokens) } else { lengths.observe_cut(tokens) }
            }
            let forecast = lengths.forecast(Some(most));
            prop_assert!((0.0..=most as f64).contains(&forecast.mean), "{:?}", forecast);
            prop_assert!(1.0 <= forecast.median && forecast.median <= forecast.p90);
            let after = lengths.expected_after(streamed, Some(most));
            prop_assert!(after.is_finite() && after >= streamed as f64);
            let new = OutputLengths::like(&lengths);
            prop_assert!(near(mean(&new, None), mean(&lengths, None)));
        }

        #[test]
        fn the_expected_length_grows_with_the_streamed_length(
            seen in prop::collection::vec((0..100_000_u64, any::<bool>()), 0..300),
            most in prop::option::of(1..200_000_u64),
        ) {
            let lengths = OutputLengths::new();
            for (tokens, ended) in seen {
                if ended { lengths.observe(tokens) } else { lengths.observe_cut(tokens) }
            }
            let mut before = 0.0;
            for streamed in (0..1_000).chain((1_000..300_000).step_by(997)) {
                let after = lengths.expected_after(streamed, most);
                prop_assert!(after >= before * 0.999, "{} tokens: {} after {}", streamed, after, before);
                before = after;
            }
        }
    }
}
