//! Whether an engine failed so lately that others should be tried first.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::types::Moment;

/// Failures in a row after which an engine that can be reached is avoided.
const TOLERATED: u32 = 3;
/// How long an engine is avoided at first; doubled with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest it is avoided without another look.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts an engine's failures in a row. Those that come while it is avoided say nothing new: they were sent before. An engine that cannot be reached is avoided at once, one that answers with errors
/// after a few. When the pause is over, requests go there again, and one success clears its name.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: AtomicU32,
    /// Nanoseconds of the [`Moment`] until which it is avoided.
    avoided_until: AtomicU64,
}

impl Breaker {
    /// A request got a proper answer.
    pub fn succeeded(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
            self.avoided_until.store(0, Relaxed);
        }
    }

    /// A request failed; `unreachable` says that no connection came about.
    pub fn failed(&self, now: Moment, unreachable: bool) {
        if self.is_open(now) {
            return;
        }
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        let beyond = if unreachable { failures } else { failures.saturating_sub(TOLERATED - 1) };
        if beyond > 0 {
            let pause = FIRST_PAUSE.saturating_mul(1 << (beyond - 1).min(10)).min(LONGEST_PAUSE);
            self.avoided_until.fetch_max(now.plus(pause).nanos(), Relaxed);
        }
    }

    /// Whether others should be tried first.
    pub fn is_open(&self, now: Moment) -> bool {
        now.nanos() < self.avoided_until.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn what_cannot_be_reached_is_avoided_at_once_and_looked_at_again() {
        let breaker = Breaker::default();
        breaker.failed(at(0), true);
        assert!(breaker.is_open(at(0)));
        assert!(!breaker.is_open(at(1)));
        breaker.failed(at(1), true);
        assert!(breaker.is_open(at(2)) && !breaker.is_open(at(3)));
        for second in 3..100 {
            breaker.failed(at(second), true);
        }
        assert!(!breaker.is_open(at(110)));
    }

    #[test]
    fn many_that_fail_together_count_as_one() {
        let breaker = Breaker::default();
        (0..50).for_each(|_| breaker.failed(at(0), true));
        assert!(breaker.is_open(at(0)) && !breaker.is_open(at(1)));
        (0..50).for_each(|_| breaker.failed(at(1), true));
        assert!(breaker.is_open(at(2)) && !breaker.is_open(at(3)));
    }

    #[test]
    fn errors_are_tolerated_a_few_times_in_a_row() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            breaker.failed(at(0), false);
            breaker.failed(at(0), false);
            breaker.succeeded();
        }
        assert!(!breaker.is_open(at(0)));
        (0..3).for_each(|_| breaker.failed(at(0), false));
        assert!(breaker.is_open(at(0)));
        breaker.succeeded();
        assert!(!breaker.is_open(at(0)));
    }
}
