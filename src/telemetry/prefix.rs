//! Accuracy of the predicted prefix-cache hits.

use std::ops::Add;

/// Prompt tokens since the start, of answers that report how many were cached.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixHits {
    /// All of them.
    pub prompt: u64,
    /// Tokens predicted to be cached, at the placement.
    pub predicted: u64,
    /// Tokens reported as cached.
    pub reported: u64,
}

impl PrefixHits {
    /// Predicted and reported shares of the prompt tokens; `None` before any were reported.
    pub fn ratios(&self) -> Option<(f64, f64)> {
        let of = |tokens: u64| tokens as f64 / self.prompt as f64;
        (self.prompt > 0).then(|| (of(self.predicted), of(self.reported)))
    }
}

impl Add for PrefixHits {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prompt: self.prompt + other.prompt,
            predicted: self.predicted + other.predicted,
            reported: self.reported + other.reported,
        }
    }
}
