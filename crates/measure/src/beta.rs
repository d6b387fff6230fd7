//! Beta distributions: confidence bounds on a success rate from a count of successes.

/// The interval that contains the rate with probability `confidence`, after `hits` of `trials` (Clopper and Pearson,
/// Biometrika 1934). Counts may be fractional when samples are weighted. Without trials the interval is `0..=1`.
pub fn clopper_pearson(hits: f64, trials: f64, confidence: f64) -> (f64, f64) {
    let tail = (1.0 - confidence) / 2.0;
    (lower_bound(hits, trials, tail), upper_bound(hits, trials, tail))
}

/// Upper confidence bound: above this rate, so few hits have a probability of `tail` at most.
pub fn upper_bound(hits: f64, trials: f64, tail: f64) -> f64 {
    if hits >= trials { 1.0 } else { quantile(1.0 - tail, hits + 1.0, trials - hits) }
}

/// Lower confidence bound: below this rate, so many hits have a probability of `tail` at most.
pub fn lower_bound(hits: f64, trials: f64, tail: f64) -> f64 {
    if hits <= 0.0 { 0.0 } else { quantile(tail, hits, trials - hits + 1.0) }
}

/// The `p` quantile of the beta distribution with the parameters `a` and `b`, which must be positive.
pub fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // Each round halves the interval; 60 rounds exhaust the precision of an `f64`.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if share_below(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The share of the distribution that lies below `x`: the regularised incomplete beta function, by Lentz's continued fraction
/// (Press and others, Numerical Recipes, 6.4).
fn share_below(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

#[expect(clippy::many_single_char_names, reason = "the names of the reference")]
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for round in 1..500 {
        let m = f64::from(round);
        for term in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            product *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    product
}

/// Lanczos' approximation with seven terms (Godfrey's coefficients).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let mut sum = 0.999_999_999_999_809_9;
    for (at, term) in TERMS.iter().enumerate() {
        sum += term / (x + at as f64 + 1.0);
    }
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        for (hits, trials, low, high) in
            [(0.0, 100.0, 0.0, 0.0362), (5.0, 500.0, 0.0033, 0.0232), (10.0, 10.0, 0.6915, 1.0)]
        {
            let (found_low, found_high) = clopper_pearson(hits, trials, 0.95);
            assert!((found_low - low).abs() < 1e-4 && (found_high - high).abs() < 1e-4, "{found_low} {found_high}");
        }
        let (low, high) = clopper_pearson(0.0, 0.0, 0.95);
        assert!(low <= 0.0 && high >= 1.0);
        assert!((upper_bound(0.0, 300.0, 0.05) - 0.00994).abs() < 1e-4, "the rule of three");
    }

    proptest! {
        #[test]
        fn quantiles_undo_shares(p in 0.01f64..0.99, a in 0.5f64..400.0, b in 0.5f64..400.0) {
            prop_assert!((share_below(quantile(p, a, b), a, b) - p).abs() < 1e-6);
        }
    }
}
