//! Deviation of a scope's or an entry's log odds from the prior, learned label by label.

/// Gaussian belief in a shift of the log odds. Two numbers, 8 bytes per entry.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Shift {
    mean: f32,
    /// 1 over the variance.
    precision: f32,
}

impl Shift {
    /// Prior standard deviation of an entry's shift.
    const ENTRY: f32 = 0.4;
    /// Prior standard deviation of a scope's shift.
    const SCOPE: f32 = 0.3;
    /// Precision beyond which evidence no longer accumulates: a scope's questions change, so what was learned must be
    /// able to change.
    const MAX_PRECISION: f32 = 100.0;

    /// An entry's shift before any evidence.
    pub const fn entry() -> Self {
        Self { mean: 0.0, precision: 1.0 / (Self::ENTRY * Self::ENTRY) }
    }

    /// A scope's shift before any evidence.
    pub const fn scope() -> Self {
        Self { mean: 0.0, precision: 1.0 / (Self::SCOPE * Self::SCOPE) }
    }

    /// A shift of exactly 0, without a scope or an entry.
    pub const fn none() -> Self {
        Self { mean: 0.0, precision: f32::INFINITY }
    }

    /// Its mean.
    pub const fn mean(&self) -> f32 {
        self.mean
    }

    /// Its variance.
    pub fn variance(&self) -> f32 {
        1.0 / self.precision
    }

    /// Learns a label of a candidate whose log odds without this shift are `log_odds`. `weight` is the reliability of
    /// the label, 0 to 1.
    ///
    /// The new mean is the maximum a posteriori and the new precision the curvature there: Laplace's approximation, one
    /// label at a time (Spiegelhalter and Lauritzen, Networks 1990).
    pub fn learn(&mut self, log_odds: f32, same: bool, weight: f32) {
        if !self.precision.is_finite() || !log_odds.is_finite() || !(0.0..=1.0).contains(&weight) {
            return;
        }
        let label = f32::from(u8::from(same));
        let mut mean = self.mean;
        // The slope decreases strictly with the mean, and its root lies between these two.
        let (mut low, mut high) = (self.mean - weight / self.precision, self.mean + weight / self.precision);
        for _ in 0..24 {
            mean = f32::midpoint(low, high);
            let slope = weight * (label - super::logistic(log_odds + mean)) - self.precision * (mean - self.mean);
            if slope > 0.0 {
                low = mean;
            } else {
                high = mean;
            }
        }
        let p = super::logistic(log_odds + mean);
        self.mean = mean;
        self.precision = (self.precision + weight * p * (1.0 - p)).min(Self::MAX_PRECISION);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_label_counts_and_many_dominate() {
        let mut shift = Shift::entry();
        shift.learn(4.0, false, 1.0);
        let after_one = shift.mean();
        assert!(after_one < -0.1, "{after_one}");
        (0..20).for_each(|_| shift.learn(4.0, false, 1.0));
        assert!(shift.mean() < -1.5, "{}", shift.mean());
        let mut good = Shift::entry();
        (0..20).for_each(|_| good.learn(2.0, true, 1.0));
        assert!(good.mean() > 0.1 && good.variance() < Shift::entry().variance());
        let mut none = Shift::none();
        none.learn(0.0, true, 1.0);
        assert_eq!(none, Shift::none());
    }

    proptest! {
        #[test]
        fn labels_move_the_mean_in_their_direction(log_odds in -9f32..9.0, labels in prop::collection::vec(any::<bool>(), 0..40)) {
            let mut shift = Shift::scope();
            for same in labels {
                let before = shift;
                shift.learn(log_odds, same, 1.0);
                let towards = if same { shift.mean() - before.mean() } else { before.mean() - shift.mean() };
                prop_assert!(towards >= -1e-6);
                prop_assert!(shift.variance() <= before.variance() + 1e-6 && shift.mean().is_finite());
            }
        }
    }
}
