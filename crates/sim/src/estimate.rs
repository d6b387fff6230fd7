//! Means with confidence intervals over a few seeds.

/// Student's t for two-sided 95 %, by degrees of freedom from 1.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A mean with half the width of its 95 % interval; `None` for a single seed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The mean; NaN without values.
    pub mean: f64,
    /// Half the width of the interval.
    pub reach: Option<f64>,
}

impl Estimate {
    /// Estimate over `values`, one for each seed.
    pub fn of(values: &[f64]) -> Self {
        let mean = mean(values);
        let freedom = values.len().saturating_sub(1);
        if freedom == 0 || !mean.is_finite() {
            return Self { mean, reach: None };
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64;
        let t = T.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64);
        Self { mean, reach: Some(t * (variance / values.len() as f64).sqrt()) }
    }

    /// Formats mean and interval, with a plus sign if `signed`.
    pub fn text(self, decimals: usize, signed: bool) -> String {
        let mean = number(self.mean, decimals);
        let mean = if signed && self.mean.is_finite() && !mean.starts_with('-') { format!("+{mean}") } else { mean };
        self.reach.map_or(mean.clone(), |reach| format!("{mean} ± {reach:.decimals$}"))
    }
}

/// Mean of `values`; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Applies `both` to `left` and `right`, seed by seed.
pub fn paired(left: &[f64], right: &[f64], both: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    left.iter().zip(right).map(|(&left, &right)| both(left, right)).collect()
}

/// Formats a number that may be infinite or NaN.
pub fn number(value: f64, decimals: usize) -> String {
    match value {
        value if value.is_nan() => "–".to_owned(),
        value if value.is_infinite() => "∞".to_owned(),
        value => {
            let text = format!("{value:.decimals$}");
            // Zero has no sign.
            match text.strip_prefix('-') {
                Some(zero) if !zero.contains(|digit| matches!(digit, '1'..='9')) => zero.to_owned(),
                _ => text,
            }
        }
    }
}
