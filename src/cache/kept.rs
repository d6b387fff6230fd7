//! Age of a cached answer, including time before this process started.

use std::time::Duration;

use crate::types::Moment;

/// Start of an answer's life: a moment, and the age at that moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    at: Moment,
    age: Duration,
}

impl Kept {
    /// An answer that was new at `at`.
    pub const fn since(at: Moment) -> Self {
        Self::aged(at, Duration::ZERO)
    }

    /// An answer of this age at `at`, for example stored by an earlier process.
    pub const fn aged(at: Moment, age: Duration) -> Self {
        Self { at, age }
    }

    /// Its age at `now`.
    pub fn age(self, now: Moment) -> Duration {
        self.age.saturating_add(now.since(self.at))
    }
}
