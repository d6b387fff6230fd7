//! How old a kept answer is, also where it comes from before this process began.

use std::time::Duration;

use crate::types::Moment;

/// Since when an answer is kept: a moment, and the age that it had then.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    at: Moment,
    age: Duration,
}

impl Kept {
    /// One that was new at `at`.
    pub const fn since(at: Moment) -> Self {
        Self::aged(at, Duration::ZERO)
    }

    /// One that was that old at `at`, for example because an earlier process had kept it.
    pub const fn aged(at: Moment, age: Duration) -> Self {
        Self { at, age }
    }

    /// How old it is.
    pub fn age(self, now: Moment) -> Duration {
        self.age.saturating_add(now.since(self.at))
    }
}
