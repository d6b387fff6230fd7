//! Distribution of the ratios of observed to predicted time, for probabilities and quantiles.

/// Number of ratios: about the last minutes of a busy pool.
const KEPT: usize = 256;
/// Steps of the quantile table, at levels 0, 1/32, … 1.
const STEPS: usize = 32;
/// Prior: ratios are log-normal around 1 with this standard deviation.
const PRIOR_SIGMA: f32 = 0.5;
/// Weight of the prior, in observations.
const PRIOR_WEIGHT: f32 = 20.0;
/// Quantiles of the normal distribution at levels 1/2, 17/32, … 31/32, and at 255/256 for the end.
const NORMAL: [f32; STEPS / 2 + 1] = [
    0.0, 0.0784, 0.1573, 0.2372, 0.3186, 0.4023, 0.4888, 0.5791, 0.6745, 0.7764, 0.8871, 1.0100, 1.1503, 1.3180,
    1.5341, 1.8627, 2.6601,
];
/// Share of observations that should be at or below the predicted 90th percentile.
const COVERAGE: f64 = 0.9;
/// Rate at which the level of that percentile follows the observed coverage.
const STEERING: f64 = 0.005;
/// Range of that level.
const LOWEST_LEVEL: f64 = 0.7;
const HIGHEST_LEVEL: f64 = 0.97;
/// Largest probability: an event not seen in 256 observations may come next.
const CERTAIN: f64 = 0.998;

/// The last 256 ratios of observed to predicted time.
///
/// The level at which the 90th percentile is read is adjusted so that nine in ten observations lie at or below it
/// (adaptive conformal inference, Gibbs and Candès, `NeurIPS` 2021). Long waits are observed late and bursts come in
/// between, which makes the plain percentile too wide for most of the time.
#[derive(Clone, Debug)]
pub(super) struct Residuals {
    /// Logarithms of the ratios, in the order of arrival from `next` on, and sorted.
    ring: [f32; KEPT],
    sorted: [f32; KEPT],
    count: usize,
    next: usize,
    level: f64,
    table: Quantiles,
}

/// A distribution of ratios at one moment: a small table that is copied once per decision.
#[derive(Copy, Clone, Debug)]
pub(super) struct Quantiles {
    /// Logarithms of the ratios at levels 0, 1/32, … 1.
    ln: [f32; STEPS + 1],
    /// Median ratio.
    pub(super) median: f64,
    /// 90th percentile.
    pub(super) p90: f64,
}

impl Residuals {
    pub(super) fn new() -> Self {
        let (ring, sorted) = ([0.0; KEPT], [0.0; KEPT]);
        let level = COVERAGE;
        let table = Quantiles::of(&[], level);
        Self { ring, sorted, count: 0, next: 0, level, table }
    }

    pub(super) const fn quantiles(&self) -> Quantiles {
        self.table
    }

    /// Adds a `ratio` of observed to predicted time, both above 0. `covered` is true if the predicted percentile was
    /// not exceeded.
    pub(super) fn observe(&mut self, ratio: f64, covered: bool) {
        let new = ratio.ln() as f32;
        if !new.is_finite() {
            return;
        }
        if self.count == KEPT {
            let old = self.ring[self.next];
            let at = self.sorted.partition_point(|value| *value < old);
            self.sorted.copy_within(at + 1.., at);
            self.count -= 1;
        }
        let at = self.sorted[..self.count].partition_point(|value| *value < new);
        self.sorted.copy_within(at..self.count, at + 1);
        self.sorted[at] = new;
        self.count += 1;
        self.ring[self.next] = new;
        self.next = (self.next + 1) % KEPT;
        let missed = if covered { 0.0 } else { 1.0 };
        self.level = (self.level + STEERING * (missed - (1.0 - COVERAGE))).clamp(LOWEST_LEVEL, HIGHEST_LEVEL);
        self.table = Quantiles::of(&self.sorted[..self.count], self.level);
    }
}

impl Quantiles {
    /// Distribution of the `sorted` logarithms, blended with the prior level by level.
    fn of(sorted: &[f32], level: f64) -> Self {
        let count = sorted.len() as f32;
        let own = count / (count + PRIOR_WEIGHT);
        let ln = std::array::from_fn(|step| {
            let half = STEPS / 2;
            let normal = if step >= half { NORMAL[step - half] } else { -NORMAL[half - step] };
            let seen = sorted.get(step * sorted.len().saturating_sub(1) / STEPS).copied().unwrap_or(0.0);
            own * seen + (1.0 - own) * PRIOR_SIGMA * normal
        });
        let mut table = Self { ln, median: 1.0, p90: 1.0 };
        table.median = table.quantile(0.5);
        table.p90 = table.quantile(level).max(table.median);
        table
    }

    /// Ratio that the share `level` of observations does not exceed.
    pub(super) fn quantile(&self, level: f64) -> f64 {
        let place = level.clamp(0.0, 1.0) * STEPS as f64;
        let step = (place as usize).min(STEPS - 1);
        let (low, high) = (f64::from(self.ln[step]), f64::from(self.ln[step + 1]));
        (low + (high - low) * (place - step as f64)).exp()
    }

    /// Share of observations whose ratio is at or below `ratio`.
    pub(super) fn probability(&self, ratio: f64) -> f64 {
        let ln = (ratio as f32).ln();
        let above = self.ln.partition_point(|value| *value <= ln);
        if above == 0 || ln.is_nan() {
            return 0.0;
        }
        let Some(high) = self.ln.get(above) else { return CERTAIN };
        let low = self.ln[above - 1];
        let share = f64::from((ln - low) / (high - low));
        ((above as f64 - 1.0 + share) / STEPS as f64).min(CERTAIN)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    #[test]
    fn the_prior_is_wide_around_one() {
        let table = Residuals::new().quantiles();
        assert!((table.median - 1.0).abs() < 1e-6);
        assert!((table.p90 / (0.5_f64 * 1.2816).exp() - 1.0).abs() < 0.02, "{}", table.p90);
        assert!((table.probability(1.0) - 0.5).abs() < 1e-6);
        assert!(table.probability(1.2) < 0.7, "one prediction alone promises little");
        assert!(table.probability(0.0) < 1e-9 && table.probability(f64::NAN) < 1e-9);
        assert!(table.probability(f64::INFINITY) <= CERTAIN);
    }

    #[test]
    fn it_learns_the_spread_and_forgets_the_old_one() {
        let mut residuals = Residuals::new();
        let mut dice = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            residuals.observe(5.0, true);
        }
        for _ in 0..2_000 {
            let ratio = 0.9 + 0.2 * dice.f64();
            residuals.observe(ratio, ratio <= residuals.quantiles().p90);
        }
        let table = residuals.quantiles();
        assert!((table.median - 1.0).abs() < 0.03, "{}", table.median);
        assert!((table.probability(1.05) - 0.75).abs() < 0.1, "{}", table.probability(1.05));
        assert!((1.05..1.2).contains(&table.p90), "{}", table.p90);
        assert!(table.probability(3.0) >= CERTAIN);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn the_table_is_a_distribution(ratios in prop::collection::vec((1e-9..1e9_f64, any::<bool>()), 0..600), at in 1e-9..1e9_f64) {
            let mut residuals = Residuals::new();
            for (ratio, covered) in &ratios {
                residuals.observe(*ratio, *covered);
            }
            prop_assert_eq!(residuals.count, ratios.len().min(KEPT));
            prop_assert!(residuals.sorted[..residuals.count].is_sorted());
            let table = residuals.quantiles();
            prop_assert!(table.ln.is_sorted());
            let (here, further) = (table.probability(at), table.probability(at * 1.5));
            prop_assert!((0.0..=CERTAIN).contains(&here) && here <= further + 1e-6);
            prop_assert!(table.median <= table.p90 && table.p90.is_finite());
        }
    }
}
