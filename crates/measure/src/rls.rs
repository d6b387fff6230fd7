//! Recursive least squares: a linear model that learns from one sample at a time and forgets old samples slowly.

/// An innovation beyond this many predictions is an outlier (a stall, a clock step) and is clipped.
const CLIP: f64 = 4.0;
/// The exponent by which a sample's expected error grows with its size: samples are weighted by `expected^-0.75`. With
/// 1 (purely relative errors) long waits hardly count and are mispredicted if the model does not quite match the
/// engine; with 0 short ones hardly count.
const ERROR_GROWTH: f64 = 0.75;
/// The largest input that is accepted as a measurement.
const MAX_INPUT: f64 = 1e9;

/// A linear model `y = Σ coefficient · x` for quantities that cannot be negative, with exponential forgetting (Haykin,
/// *Adaptive Filter Theory*, the RLS algorithm; forgetting 0.999 remembers about the last thousand samples).
///
/// Three rules keep it stable on live traffic. Coefficients stay at 0 or above: more work never takes less time. The
/// variance of each coefficient stays at or below its prior's, so that a feature that has not varied for an hour does
/// not wind up and then jump. A sample that is not a finite number is dropped.
#[derive(Clone, Debug)]
pub struct Rls<const N: usize> {
    coefficients: [f64; N],
    covariance: [[f64; N]; N],
    ceiling: [f64; N],
    forgetting: f64,
}

impl<const N: usize> Rls<N> {
    /// A model that starts from the coefficients `prior`, each with the standard deviation `spread` (above 0), and
    /// keeps the share `forgetting` (in `0..=1`) of its knowledge at each sample.
    pub fn new(prior: [f64; N], spread: [f64; N], forgetting: f64) -> Self {
        let ceiling = spread.map(|spread| spread * spread);
        Self { coefficients: prior, covariance: diagonal(&ceiling), ceiling, forgetting }
    }

    /// The coefficients: finite, 0 or above.
    pub const fn coefficients(&self) -> &[f64; N] {
        &self.coefficients
    }

    /// The prediction for `x`.
    pub fn predict(&self, x: &[f64; N]) -> f64 {
        dot(&self.coefficients, x)
    }

    /// Learns that `x` led to `y`. `expected` (above 0, in the unit of `y`) is the order of magnitude that was
    /// expected.
    pub fn observe(&mut self, x: &[f64; N], y: f64, expected: f64) {
        let sound = |value: f64| value.is_finite() && value.abs() <= MAX_INPUT;
        if !(x.iter().copied().all(sound) && sound(y) && sound(expected) && expected > 0.0) {
            return;
        }
        let innovation = (y - self.predict(x)).clamp(-CLIP * expected, CLIP * expected);
        let noise = expected.powf(2.0 * ERROR_GROWTH);
        let spread: [f64; N] = std::array::from_fn(|row| dot(&self.covariance[row], x));
        let total = self.forgetting * noise + dot(&spread, x);
        let gain = spread.map(|spread| spread / total);
        let next: [f64; N] = std::array::from_fn(|at| (self.coefficients[at] + gain[at] * innovation).max(0.0));
        if !(total > 0.0 && next.iter().copied().all(sound)) {
            self.covariance = diagonal(&self.ceiling);
            return;
        }
        self.coefficients = next;
        let left = |row: usize, column: usize| self.covariance[row][column] - spread[row] * spread[column] / total;
        let kept = std::array::from_fn(|row| std::array::from_fn(|column| left(row, column) / self.forgetting));
        self.covariance = kept;
        self.bound();
    }

    /// Limits each variance to its ceiling. Rows and columns shrink alike, which keeps the correlations. If rounding
    /// makes a variance negative, the covariance is reset and the coefficients are kept.
    fn bound(&mut self) {
        for at in 0..N {
            let variance = self.covariance[at][at];
            if variance.is_nan() || variance < 0.0 {
                self.covariance = diagonal(&self.ceiling);
                return;
            }
            if variance > self.ceiling[at] {
                let shrink = (self.ceiling[at] / variance).sqrt();
                for other in 0..N {
                    self.covariance[at][other] *= shrink;
                    self.covariance[other][at] *= shrink;
                }
            }
        }
    }
}

fn diagonal<const N: usize>(values: &[f64; N]) -> [[f64; N]; N] {
    std::array::from_fn(|row| std::array::from_fn(|column| if row == column { values[row] } else { 0.0 }))
}

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn model() -> Rls<3> {
        Rls::new([0.1, 0.5, 0.5], [0.1, 0.5, 0.5], 0.999)
    }

    #[test]
    fn it_converges_to_the_line() {
        let (mut model, mut dice) = (model(), fastrand::Rng::with_seed(1));
        for _ in 0..2_000 {
            let x = [1.0, 5.0 * dice.f64(), 5.0 * dice.f64()];
            let y = (0.03 + 0.8 * x[1] + 0.2 * x[2]) * (0.9 + 0.2 * dice.f64());
            let expected = model.predict(&x).max(1e-3);
            model.observe(&x, y, expected);
        }
        for (got, want) in model.coefficients().iter().zip([0.03, 0.8, 0.2]) {
            assert!((got - want).abs() < 0.02, "{got} for {want}");
        }
    }

    #[test]
    fn a_constant_feature_does_not_wind_up() {
        let mut model = model();
        for _ in 0..50_000 {
            model.observe(&[1.0, 1.0, 0.0], 0.6, 0.6);
        }
        let before = model.coefficients()[2];
        assert!(model.covariance[2][2] <= model.ceiling[2]);
        model.observe(&[1.0, 1.0, 0.01], 6.0, 0.6);
        assert!((model.coefficients()[2] - before).abs() < 0.1, "one odd sample is not believed all at once");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn coefficients_stay_finite_and_non_negative(samples in prop::collection::vec((prop::array::uniform3(any::<f64>()), any::<f64>(), any::<f64>(), -9..9_i32), 0..100)) {
            let mut model = model();
            for (x, y, expected, scale) in samples {
                model.observe(&x, y, expected);
                let tame = |value: f64| value % 10.0_f64.powi(scale);
                model.observe(&x.map(tame), tame(y).abs(), tame(expected).abs());
                prop_assert!(model.coefficients().iter().all(|c| c.is_finite() && *c >= 0.0), "{model:?}");
            }
            prop_assert!(model.predict(&[1.0, 1.0, 1.0]).is_finite());
        }
    }
}
