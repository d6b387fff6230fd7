//! The weights of features, the lines from sums to expectations, and their provenance. Serialisable.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

use super::features::{FEATURES, TABLE};

/// The built-in table, written by `examples/fit_complexity.rs`.
static BUILT_IN: LazyLock<Weights> = LazyLock::new(|| {
    serde_json::from_str(include_str!("weights.json"))
        .expect("the table that is compiled in can be read: a test reads it")
});

/// True if the built-in table was read.
pub(super) fn is_warm() -> bool {
    LazyLock::get(&BUILT_IN).is_some()
}

/// One number per feature, stored by name. Unknown names are ignored and a missing feature is 0, so that stored tables
/// survive changes of the features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, f32>", into = "BTreeMap<String, f32>")]
pub struct PerFeature(pub [f32; FEATURES]);

impl Default for PerFeature {
    fn default() -> Self {
        Self([0.0; FEATURES])
    }
}

impl From<BTreeMap<String, f32>> for PerFeature {
    fn from(named: BTreeMap<String, f32>) -> Self {
        Self(std::array::from_fn(|at| {
            named.get(TABLE[at].name).copied().filter(|value| value.is_finite()).unwrap_or(0.0)
        }))
    }
}

impl From<PerFeature> for BTreeMap<String, f32> {
    fn from(values: PerFeature) -> Self {
        let values = values.0.into_iter().enumerate().filter(|(_, value)| *value != 0.0);
        values.map(|(at, value)| (TABLE[at].name.to_owned(), value)).collect()
    }
}

/// A piecewise linear function, constant before its first and after its last point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line(pub Vec<(f32, f32)>);

impl Line {
    /// The value at `x`; 0 if there are no points.
    pub fn at(&self, x: f32) -> f32 {
        let after = self.0.partition_point(|(left, _)| *left <= x);
        match (after.checked_sub(1).and_then(|at| self.0.get(at)), self.0.get(after)) {
            (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
            (Some((_, y)), None) | (None, Some((_, y))) => *y,
            (None, None) => 0.0,
        }
    }

    /// The distance between the values at its ends.
    pub fn span(&self) -> f32 {
        self.0.first().zip(self.0.last()).map_or(0.0, |((_, first), (_, last))| (last - first).abs())
    }
}

/// The region of feature space covered by the fitted prompts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Support {
    /// Mean level of each feature over the fitted prompts.
    pub mean: PerFeature,
    /// Standard deviation of each feature.
    pub deviation: PerFeature,
    /// The distance up to which confidence is 1.
    pub near: f32,
    /// The distance from which confidence is 0.
    pub far: f32,
}

/// Added to deviations, so that a feature that never occurs in the data has a finite distance.
const LEAST_DEVIATION: f32 = 0.05;

impl Support {
    /// The distance of a prompt's levels from the fitted ones: root mean square, in standard deviations.
    pub fn distance(&self, levels: &[f32; FEATURES]) -> f32 {
        let each = levels.iter().zip(&self.mean.0).zip(&self.deviation.0);
        let sum: f32 =
            each.map(|((level, mean), deviation)| ((level - mean) / (deviation + LEAST_DEVIATION)).powi(2)).sum();
        (sum / FEATURES as f32).sqrt()
    }
}

/// A linear function of levels and terms, learned on own traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    /// Added to every prompt.
    pub offset: f32,
    /// For each feature's level relative to its mean over the fitted prompts.
    pub levels: PerFeature,
    /// For each place of [`super::Terms`].
    pub terms: Vec<f32>,
}

/// The adjustments of the built-in weights learned on own traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Adjusts the gap.
    pub gap: Linear,
    /// Adjusts the small model's quality.
    pub quality: Linear,
}

/// A data set that weights were fitted on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataSet {
    /// Its name.
    pub name: String,
    /// Number of its prompts that were used.
    pub prompts: usize,
    /// Mean quality of the small models' answers.
    pub small: f32,
    /// Mean quality of the large models' answers.
    pub large: f32,
}

/// The origin of weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The program that wrote them.
    pub program: String,
    /// The date, as `YYYY-MM-DD`.
    pub date: String,
    /// The data sets they were fitted on.
    pub data: Vec<DataSet>,
    /// Parts of the data that were left out, with the reasons.
    pub left_out: Vec<String>,
}

/// A table of weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Its name in decisions and headers.
    pub version: String,
    /// Its origin.
    pub provenance: Provenance,
    /// The weight of each feature in the gap. Never negative: a feature can only make a prompt harder.
    pub gap: PerFeature,
    /// The weight of each feature against the small model's quality. Never negative.
    pub hardness: PerFeature,
    /// Maps the weighted sum to the expected gap.
    pub gap_line: Line,
    /// Maps the hardness sum to the expected quality.
    pub quality_line: Line,
    /// The sums at equal shares of the fitted prompts, from the lowest to the highest.
    pub quantiles: Vec<f32>,
    /// The region covered by the fitted prompts.
    pub support: Support,
    /// The adjustments learned since on own traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
}

impl Weights {
    /// The built-in table.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// The share of the fitted prompts whose sum is below `sum`, in `0..=1`.
    pub fn quantile(&self, sum: f32) -> f32 {
        let after = self.quantiles.partition_point(|quantile| *quantile < sum);
        let last = self.quantiles.len().saturating_sub(1);
        match (after.checked_sub(1).map(|at| self.quantiles[at]), self.quantiles.get(after)) {
            (Some(below), Some(above)) => (after as f32 - 1.0 + (sum - below) / (above - below)) / last as f32,
            (None, Some(_)) => 0.0,
            (Some(_), None) => 1.0,
            (None, None) => 0.5,
        }
    }

    /// The sum that a share of the fitted prompts does not exceed; infinite from the highest one on.
    pub(super) fn sum_at(&self, share: f32) -> f32 {
        let place = share.max(0.0) * self.quantiles.len().saturating_sub(1) as f32;
        match self.quantiles.get(place as usize..) {
            Some([below, above, ..]) => below + (above - below) * place.fract(),
            _ => f32::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_level_outside_their_points() {
        let line = Line(vec![(0.0, 1.0), (2.0, 3.0)]);
        let found = [-1.0, 0.0, 1.0, 2.0, 9.0].map(|x| line.at(x));
        assert_eq!(format!("{found:?}"), "[1.0, 1.0, 2.0, 3.0, 3.0]");
        assert!(Line::default().at(1.0) == 0.0);
    }

    #[test]
    fn quantiles_rise_with_the_sum() {
        let weights = Weights { quantiles: vec![0.0, 0.1, 0.3], ..Weights::default() };
        let found = [-1.0, 0.05, 0.1, 0.2, 1.0].map(|sum| weights.quantile(sum));
        assert_eq!(format!("{found:?}"), "[0.0, 0.25, 0.5, 0.75, 1.0]");
    }

    #[test]
    fn the_table_that_is_compiled_in_is_whole() {
        let weights = Weights::built_in();
        assert!(weights.gap.0.iter().chain(&weights.hardness.0).all(|weight| *weight >= 0.0));
        assert!(weights.quantiles.windows(2).all(|pair| pair[0] <= pair[1]) && weights.quantiles.len() > 8);
        assert!(weights.gap_line.0.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        assert!(weights.quality_line.0.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 >= pair[1].1));
        assert!(!weights.version.is_empty() && !weights.provenance.data.is_empty());
        let stored = serde_json::to_string(weights).unwrap();
        assert_eq!(&serde_json::from_str::<Weights>(&stored).unwrap(), weights);
    }
}
