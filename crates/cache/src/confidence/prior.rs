//! Weights of the model for an embedder, with their provenance. Serialisable.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

use super::signals::{FEATURES, NAMES};

/// Built-in tables, written by `examples/fit_cache.rs`.
static BUILT_IN: LazyLock<Vec<Prior>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("priors.json"))
        .expect("the tables that are compiled in can be read: a test reads them")
});

/// Prior log odds of candidates under an embedder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// Prefix of the ids of the embedders it applies to; empty where none is known.
    pub embedder: String,
    /// Share of queries with a partner in the store that it assumes.
    pub prevalence: f32,
    weights: Weights,
    /// Covariance of the weights by rows, in the order of the features.
    covariance: Vec<f32>,
    /// Provenance of the weights.
    pub provenance: Provenance,
}

/// A weight for each feature. Stored by name, so that a table stays valid when features change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, f32>", into = "BTreeMap<String, f32>")]
struct Weights([f32; FEATURES]);

impl From<BTreeMap<String, f32>> for Weights {
    fn from(named: BTreeMap<String, f32>) -> Self {
        Self(NAMES.map(|name| named.get(name).copied().filter(|weight| weight.is_finite()).unwrap_or(0.0)))
    }
}

impl From<Weights> for BTreeMap<String, f32> {
    fn from(weights: Weights) -> Self {
        NAMES.into_iter().map(str::to_owned).zip(weights.0).collect()
    }
}

/// Provenance of weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The program that wrote them.
    pub program: String,
    /// Date, as `YYYY-MM-DD`.
    pub date: String,
    /// Training data, with counts.
    pub data: Vec<String>,
}

impl Prior {
    /// Reads the built-in tables, which the first use would read otherwise.
    pub fn warm_up() {
        LazyLock::force(&BUILT_IN);
    }

    /// True if the built-in tables were read.
    pub fn is_warm() -> bool {
        LazyLock::get(&BUILT_IN).is_some()
    }

    /// Creates a prior; `covariance` by rows.
    pub fn new(
        embedder: &str,
        prevalence: f32,
        weights: &[f32; FEATURES],
        covariance: &[[f32; FEATURES]; FEATURES],
        provenance: Provenance,
    ) -> Self {
        Self {
            embedder: embedder.to_owned(),
            prevalence,
            weights: Weights(*weights),
            covariance: covariance.as_flattened().to_vec(),
            provenance,
        }
    }

    /// Prior of an embedder. An embedder without a fit uses the built-in one's with a reduced weight of the similarity
    /// and more uncertainty: its vectors may lie closer together.
    ///
    /// # Panics
    ///
    /// Never: a test reads the built-in tables.
    pub fn of(embedder: &str) -> &'static Self {
        let named = BUILT_IN.iter().find(|prior| !prior.embedder.is_empty() && embedder.starts_with(&prior.embedder));
        named
            .or_else(|| BUILT_IN.iter().find(|prior| prior.embedder.is_empty()))
            .expect("a test sees that there is one for all")
    }

    /// Log odds that an answer serves, before evidence of the scope and the entry.
    pub fn log_odds(&self, features: &[f32; FEATURES]) -> f32 {
        self.weights.0.iter().zip(features).map(|(weight, value)| weight * value).sum()
    }

    /// Variance of the log odds from the uncertainty of the weights.
    pub fn variance(&self, features: &[f32; FEATURES]) -> f32 {
        let rows = self.covariance.chunks_exact(FEATURES);
        let sum: f32 = rows
            .zip(features)
            .map(|(row, value)| value * row.iter().zip(features).map(|(entry, other)| entry * other).sum::<f32>())
            .sum();
        sum.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{confidence::SIGNS, guard::Soft};

    #[test]
    fn every_embedder_has_a_prior_with_the_allowed_signs() {
        assert_eq!(BUILT_IN.iter().filter(|prior| prior.embedder.is_empty()).count(), 1);
        for prior in BUILT_IN.iter() {
            assert_eq!(prior.covariance.len(), FEATURES * FEATURES);
            assert!(prior.prevalence > 0.0 && prior.prevalence < 0.5 && !prior.provenance.program.is_empty());
            for ((name, weight), sign) in NAMES.iter().zip(prior.weights.0).zip(SIGNS) {
                assert!(weight * f32::from(sign) >= 0.0, "{name} {weight}");
            }
            assert_eq!(serde_json::from_str::<Prior>(&serde_json::to_string(prior).unwrap()).unwrap(), *prior);
        }
    }

    #[test]
    fn an_unknown_embedder_is_trusted_less() {
        let near = Soft { words: 8.0, ..Soft::default() };
        let features = super::super::Signals { similarity: 0.97, margin: 0.2 }.features(&near);
        let (known, unknown) = (Prior::of("minilm-l6-w8"), Prior::of("somebody's"));
        let bound =
            |prior: &Prior| prior.log_odds(&features) - super::super::DEVIATIONS * prior.variance(&features).sqrt();
        assert!(bound(known) > bound(unknown));
        assert!(Prior::of("").embedder.is_empty());
    }
}
