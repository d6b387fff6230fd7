//! A second try beside the first, for a first token that is late: when it may be sent, whether it pays, and how many there may
//! be. The loser of the two is cancelled.
//!
//! It costs a prefill, and under load prefills are what everybody waits for. Hence four conditions: the first try is later than
//! nineteen in twenty are; the second costs little, or the first has stalled; the second is expected clearly earlier than
//! what must still be expected of the first; and the [budget] has one left.

use std::time::Duration;

use super::budget::Budget;
use crate::types::Moment;

/// No hedge before this: below it, what is late is mostly noise, and nobody notices.
const SOONEST: Duration = Duration::from_secs(1);
/// A hedge that computes at most so many tokens is cheap: a fraction of a second on any engine.
const CHEAP: u64 = 4_096;
/// A try that is later than so many times its 99th percentile has stalled.
const STALLED: f64 = 3.0;
/// How many times as long the first must still be expected to take as the second.
const CLEARLY: f64 = 1.5;
/// The range of the tail's exponent: at 1, who waited for `t` is expected to wait for `t` again.
const HEAVIEST: f64 = 1.0;
const LIGHTEST: f64 = 20.0;

/// How many hedges may be sent: 2 % of the requests dispatched lately, three to begin with, so that the first stall of a quiet gateway can
/// be answered, and a burst of ten at most: more would let a quiet night pay for a storm.
pub const fn budget() -> Budget {
    Budget::new(2, 3, 10)
}

/// A first token that was awaited since a dispatch. For streams only: of an answer that comes whole, the first token is never
/// seen.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Awaited {
    /// When the try was dispatched.
    pub dispatched: Moment,
    /// The 95th percentile of its time to the first token as predicted then, in seconds.
    pub p95: f64,
    /// The 99th percentile, in seconds.
    pub p99: f64,
}

/// What a hedge would meet: the best of the other backends.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The median of its time to the first token, in seconds.
    pub ttft: f64,
    /// Prompt tokens that it would have to compute.
    pub uncached: u64,
}

impl Awaited {
    /// The moment from which a hedge may be sent: after the 95th percentile, and a second at least. `None` where there is no
    /// prediction to speak of.
    pub fn due(&self) -> Option<Moment> {
        Some(self.dispatched.plus(seconds(self.p95)?.max(SOONEST)))
    }

    /// The moment from which the try counts as stalled: after three times the 99th percentile.
    pub fn stalled_at(&self) -> Option<Moment> {
        Some(self.dispatched.plus(seconds(STALLED * self.p99)?.max(SOONEST)).max(self.due()?))
    }

    /// Whether a hedge to `other` pays at `now`. If it does not when it is [due](Awaited::due), it may once the try [has
    /// stalled](Awaited::stalled_at).
    pub fn pays(&self, other: &Alternative, now: Moment) -> bool {
        let (Some(due), Some(stalled_at)) = (self.due(), self.stalled_at()) else { return false };
        let affordable = other.uncached <= CHEAP || now >= stalled_at;
        now >= due && affordable && CLEARLY * other.ttft <= self.remaining(now)
    }

    /// The median of what it will still take, in seconds, given that it has taken so long already.
    ///
    /// Beyond its 95th percentile, a time to the first token is taken to have a Pareto tail through its 95th and 99th
    /// percentiles: what waited for `t` then waits for `t · (2^(1/α) − 1)` more, the longer the later it is. Beyond the stall, the
    /// observations behind these percentiles say nothing any more, and the heaviest tail is assumed.
    fn remaining(&self, now: Moment) -> f64 {
        let stalled = self.stalled_at().is_some_and(|stalled_at| now >= stalled_at);
        // One in twenty is beyond the 95th percentile, and one in five of these beyond the 99th.
        let exponent = 5.0_f64.ln() / (self.p99 / self.p95).ln();
        let exponent = if stalled { HEAVIEST } else { exponent.clamp(HEAVIEST, LIGHTEST) };
        now.seconds_since(self.dispatched) * ((1.0 / exponent).exp2() - 1.0)
    }
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHEAP_AND_FAST: Alternative = Alternative { ttft: 0.1, uncached: 100 };

    fn after(seconds: f64) -> Moment {
        Moment::from_nanos((seconds * 1e9) as u64)
    }

    fn awaited(p95: f64, p99: f64) -> Awaited {
        Awaited { dispatched: Moment::default(), p95, p99 }
    }

    #[test]
    fn it_is_due_after_the_95th_percentile_and_a_second_at_least() {
        assert_eq!(awaited(2.5, 4.0).due(), Some(after(2.5)));
        assert_eq!(awaited(0.2, 0.3).due(), Some(after(1.0)));
        assert_eq!(awaited(2.5, 4.0).stalled_at(), Some(after(12.0)));
        for nonsense in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300] {
            assert_eq!(awaited(nonsense, 4.0).due(), None);
            assert!(!awaited(nonsense, 4.0).pays(&CHEAP_AND_FAST, after(99.0)));
        }
    }

    #[test]
    fn it_pays_only_where_the_other_is_clearly_faster() {
        let first = awaited(2.0, 4.0);
        assert!(!first.pays(&CHEAP_AND_FAST, after(1.9)), "not due");
        assert!(first.pays(&CHEAP_AND_FAST, after(2.1)));
        // α = ln 5 / ln 2: at 2.1 s it is expected to take 0.73 s more.
        assert!(!first.pays(&Alternative { ttft: 0.5, ..CHEAP_AND_FAST }, after(2.1)));
        assert!(first.pays(&Alternative { ttft: 0.48, ..CHEAP_AND_FAST }, after(2.1)));
        assert!(first.pays(&Alternative { ttft: 0.5, ..CHEAP_AND_FAST }, after(2.5)), "the later, the longer");
    }

    #[test]
    fn much_work_is_repeated_only_for_a_stall() {
        let first = awaited(2.0, 4.0);
        let long = Alternative { ttft: 3.0, uncached: 60_000 };
        assert!(!first.pays(&long, after(11.9)));
        assert!(first.pays(&long, after(12.0)));
        assert!(!first.pays(&Alternative { ttft: 30.0, ..long }, after(12.0)));
    }

    proptest! {
        #[test]
        fn nothing_is_sent_before_it_is_due(p95: f64, p99: f64, ttft: f64, uncached: u64, now in 0.0..100.0_f64) {
            let (first, now) = (awaited(p95, p99), after(now));
            if first.pays(&Alternative { ttft, uncached }, now) {
                prop_assert!(first.due().is_some_and(|due| due <= now) && now >= after(1.0));
                prop_assert!(ttft <= now.seconds_since(first.dispatched));
            }
        }
    }
}
