//! Numeric features of a candidate.

use crate::guard::Soft;

/// Number of features.
pub const FEATURES: usize = 10;

/// Their names in stored tables.
pub const NAMES: [&str; FEATURES] = [
    "offset",
    "similarity",
    "margin",
    "words",
    "names",
    "same_words",
    "matched",
    "restricts",
    "prepositions",
    "near_content",
];

/// Allowed sign of each weight: 1 only raises the log odds, −1 only lowers them, 0 either. A weight of the other sign
/// would be chance and wrong on other texts.
pub const SIGNS: [i8; FEATURES] = [0, 1, 1, 0, -1, 1, 1, -1, -1, 1];

/// Similarity from which on it counts more if both texts have the same content words.
const CLOSE: f32 = 0.85;

/// Similarities of a candidate.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Signals {
    /// Cosine by the deciding embedder, −1 to 1.
    pub similarity: f32,
    /// Similarity minus that of the next candidate, by the deciding embedder; minus 0 without one.
    pub margin: f32,
}

impl Signals {
    /// The features, bounded, so that none outweighs all others.
    pub fn features(&self, soft: &Soft) -> [f32; FEATURES] {
        let content = f32::from(u8::from(soft.same_content));
        [
            1.0,
            nearness(self.similarity),
            self.margin.clamp(0.0, 0.2),
            soft.words.clamp(2.0, 40.0).ln(),
            soft.names,
            f32::from(u8::from(soft.same_words)),
            content * soft.matched,
            soft.restricts,
            soft.prepositions,
            content * (nearness(self.similarity) - nearness(CLOSE)).max(0.0),
        ]
    }
}

/// Logarithm of the closeness relative to a right angle: .90 to .95 counts as much as .80 to .90. At most 4.6, for .99.
fn nearness(similarity: f32) -> f32 {
    -(1.0 - similarity.clamp(0.0, 0.99)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_bounded_and_finite() {
        let far = Soft { words: 1e9, names: 3.0, ..Soft::default() };
        for similarity in [-1.0, 0.0, 1.0, 1.1] {
            let signals = Signals { similarity, margin: 2.0 };
            assert!(signals.features(&far).iter().all(|value| value.is_finite() && value.abs() < 5.0));
        }
    }
}
