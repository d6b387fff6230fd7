//! How well it was foreseen which prompt tokens engines would find in their prefix caches.

use std::ops::Add;

/// Prompt tokens of answers that report how many were cached, in tokens since the start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixHits {
    /// All of them.
    pub prompt: u64,
    /// Those that were expected to be cached, at the placement.
    pub predicted: u64,
    /// Those that were, as reported.
    pub reported: u64,
}

impl PrefixHits {
    /// The shares of the prompt tokens that were expected to be cached, and that were; `None` before any were reported.
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
