//! Ridge regression over sparse rows: levels of features and hashed words.

use serde::{Deserialize, Serialize};

use super::{
    features::{FEATURES, Features},
    terms::PLACES,
    weights::{Linear, PerFeature},
};

/// The strength of the pull towards zero. Chosen on replays of labels (`docs/benchmarks/complexity.md`).
const RIDGE: f64 = 10.0;
/// The scale of a level relative to a prompt's words, which together have length 1.
const LEVEL: f32 = 0.13;
/// The most rounds of conjugate gradients; with this ridge they converge earlier.
const ROUNDS: usize = 40;

/// A prompt's levels relative to the fitted prompts' means, and its terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    levels: Vec<f32>,
    terms: Vec<u16>,
    scale: f32,
}

impl Row {
    pub(super) fn of(features: &Features, mean: &PerFeature) -> Self {
        Self {
            levels: features.levels.iter().zip(&mean.0).map(|(level, mean)| level - mean).collect(),
            terms: features.terms.places().to_vec(),
            scale: features.terms.scale(),
        }
    }

    /// False for a row that was stored when there were other features.
    pub(super) fn is_current(&self) -> bool {
        self.levels.len() == FEATURES
    }

    /// The value of a linear function for this row.
    pub(super) fn times(&self, linear: &Linear) -> f32 {
        let levels: f32 = self.levels.iter().zip(&linear.levels.0).map(|(level, weight)| level * weight).sum();
        let terms = self.terms.iter().filter_map(|place| linear.terms.get(usize::from(*place)));
        linear.offset + levels + terms.sum::<f32>() * self.scale
    }

    fn dot(&self, vector: &[f64]) -> f64 {
        let levels =
            self.levels.iter().zip(vector).map(|(level, weight)| f64::from(LEVEL * level) * weight).sum::<f64>();
        let terms = self.terms.iter().filter_map(|place| vector.get(FEATURES + usize::from(*place))).sum::<f64>();
        levels + terms * f64::from(self.scale)
    }

    fn add(&self, times: f64, vector: &mut [f64]) {
        vector.iter_mut().zip(&self.levels).for_each(|(sum, level)| *sum += times * f64::from(LEVEL * level));
        for place in &self.terms {
            if let Some(sum) = vector.get_mut(FEATURES + usize::from(*place)) {
                *sum += times * f64::from(self.scale);
            }
        }
    }
}

/// The linear function with the least squared error plus squared length (conjugate gradients on the normal equations:
/// Hestenes and Stiefel, 1952). Zero without rows.
pub(super) fn solve(rows: &[(&Row, f32)]) -> Linear {
    if rows.is_empty() {
        return Linear { terms: vec![0.0; PLACES], ..Linear::default() };
    }
    let offset = rows.iter().map(|(_, target)| f64::from(*target)).sum::<f64>() / (rows.len() as f64 + RIDGE);
    let mut residual = vec![0.0; FEATURES + PLACES];
    for (row, target) in rows {
        row.add(f64::from(*target) - offset, &mut residual);
    }
    let mut solution = vec![0.0; residual.len()];
    let mut direction = residual.clone();
    let square = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>();
    let mut size = square(&residual);
    let enough = size * 1e-8;
    for _ in 0..ROUNDS {
        if size <= enough {
            break;
        }
        let mut image: Vec<f64> = direction.iter().map(|value| value * RIDGE).collect();
        for (row, _) in rows {
            row.add(row.dot(&direction), &mut image);
        }
        let step = size / direction.iter().zip(&image).map(|(one, other)| one * other).sum::<f64>();
        solution.iter_mut().zip(&direction).for_each(|(value, along)| *value += step * along);
        residual.iter_mut().zip(&image).for_each(|(value, along)| *value -= step * along);
        let before = std::mem::replace(&mut size, square(&residual));
        direction.iter_mut().zip(&residual).for_each(|(along, left)| *along = left + size / before * *along);
    }
    Linear {
        offset: offset as f32,
        levels: PerFeature(std::array::from_fn(|at| LEVEL * solution[at] as f32)),
        terms: solution[FEATURES..].iter().map(|value| *value as f32).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Outline;

    #[test]
    fn words_that_predict_an_outcome_are_found() {
        let row = |text: &str| Row::of(&Features::of(&Outline::of_text(text)), &PerFeature::default());
        let (one, other) = (row("red wine"), row("blue sky"));
        let rows: Vec<(&Row, f32)> = (0..40).map(|at| if at % 2 == 0 { (&one, 0.8) } else { (&other, 0.2) }).collect();
        let solved = solve(&rows);
        assert!(one.times(&solved) > other.times(&solved) + 0.3);
        assert!(one.times(&solved) > row("green tea").times(&solved) + 0.1);
        assert!(one.times(&solve(&[])).abs() < 1e-9);
    }
}
