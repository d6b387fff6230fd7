//! How many tokens a text has, as far as it is known.

/// A number of tokens between bounds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Hardly fewer.
    pub least: u64,
    /// The best guess.
    pub expected: u64,
    /// Hardly more.
    pub most: u64,
}

impl Tokens {
    /// A number that was counted.
    pub const fn exactly(tokens: u64) -> Self {
        Self { least: tokens, expected: tokens, most: tokens }
    }

    /// Whether the bounds leave no doubt.
    pub const fn is_exact(&self) -> bool {
        self.least == self.most
    }

    /// Whether there are more than `limit`; `None` where the bounds leave it open.
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
