//! Token counts with bounds.

/// A number of tokens with bounds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// A lower bound that is rarely wrong.
    pub least: u64,
    /// The best estimate.
    pub expected: u64,
    /// An upper bound that is rarely wrong.
    pub most: u64,
}

impl Tokens {
    /// An exact count.
    pub const fn exactly(tokens: u64) -> Self {
        Self { least: tokens, expected: tokens, most: tokens }
    }

    /// True if the count is exact.
    pub const fn is_exact(&self) -> bool {
        self.least == self.most
    }

    /// True if there are more than `limit` tokens, false if not; `None` if the bounds do not decide it.
    pub const fn exceed(&self, limit: u64) -> Option<bool> {
        if self.least > limit {
            Some(true)
        } else if self.most <= limit {
            Some(false)
        } else {
            None
        }
    }
}
