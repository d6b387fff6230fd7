//! Gaps between the chunks of a streamed answer.

use serde::{Deserialize, Serialize};

/// Seconds from which on a reader notices a gap.
pub const STUTTER: f64 = 0.15;

/// Seconds from which on a gap is a stall, where most gaps are not.
const STALL: f64 = 0.25;

/// Gaps between the chunks of a streamed answer that carry tokens.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gaps {
    /// Number of gaps.
    pub count: u64,
    /// Gaps over 150 ms, which a reader notices.
    pub long: u64,
    /// The largest one, in milliseconds.
    pub largest_ms: f64,
}

impl Gaps {
    /// Adds a gap of `seconds`.
    pub fn add(&mut self, seconds: f64) {
        self.count += 1;
        self.long += u64::from(seconds > STUTTER);
        self.largest_ms = self.largest_ms.max(seconds * 1e3);
    }

    /// True if the answer mostly flowed, and stalled in between. An answer that is slow throughout does not stall.
    pub fn stalled(self) -> bool {
        self.largest_ms > STALL * 1e3 && self.long * 2 <= self.count
    }

    /// These gaps and those of another part of the answer.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            long: self.long + other.long,
            largest_ms: self.largest_ms.max(other.largest_ms),
        }
    }

    /// These gaps, if there are any.
    pub fn known(self) -> Option<Self> {
        (self.count > 0).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_gaps_and_the_largest_are_kept() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.known(), None);
        for seconds in [0.02, 0.5, 0.15, 0.151] {
            gaps.add(seconds);
        }
        assert_eq!(gaps.known(), Some(Gaps { count: 4, long: 2, largest_ms: 500.0 }));
        assert!(gaps.stalled());
        assert!(!Gaps { count: 4, long: 3, largest_ms: 500.0 }.stalled(), "slow throughout");
        assert!(!Gaps { count: 40, long: 2, largest_ms: 200.0 }.stalled());
        assert_eq!(gaps.and(gaps).long, 4);
    }
}
