//! Hedging: a second attempt beside the first whose first token is late. Decides when it may be sent and whether it
//! pays. The loser of the two is cancelled.
//!
//! A hedge costs a prefill, and under load prefills are what all requests wait for. Hence four conditions: the first
//! attempt is later than 95 % are; the hedge is cheap, or the first attempt has stalled; its first token is expected
//! clearly earlier than the remaining wait of the first; and the [budget] is not empty.

use std::time::Duration;

use super::budget::Budget;
use signalbox_types::Moment;

/// Earliest hedge. Below it, lateness is mostly noise and not noticed.
const SOONEST: Duration = Duration::from_secs(1);
/// Uncached tokens up to which a hedge is cheap: a fraction of a second on any engine.
const CHEAP: u64 = 4_096;
/// Multiple of the 99th percentile after which an attempt has stalled.
const STALLED: f64 = 3.0;
/// Least ratio of the first attempt's remaining wait to the hedge's.
const CLEARLY: f64 = 1.5;
/// Range of the tail's exponent. At 1, the expected remaining wait equals the wait so far.
const HEAVIEST: f64 = 1.0;
const LIGHTEST: f64 = 20.0;

/// Budget of hedges: 2 % of the recently dispatched requests, 3 at the start, so that the first stall of a quiet
/// gateway can be hedged, and at most 10 saved: with more, a quiet night would pay for a storm.
pub const fn budget() -> Budget {
    Budget::new(2, 3, 10)
}

/// A first token that is awaited since a dispatch. For streams only: the first token of a whole answer is never seen.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Awaited {
    /// Time of the dispatch.
    pub dispatched: Moment,
    /// 95th percentile of the time to first token as predicted then, in seconds.
    pub p95: f64,
    /// 99th percentile, in seconds.
    pub p99: f64,
}

/// The best other backend for a hedge.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Median time to first token there, in seconds.
    pub ttft: f64,
    /// Prompt tokens it would have to compute.
    pub uncached: u64,
}

impl Awaited {
    /// Time from which on a hedge may be sent: after the 95th percentile, and after at least a second. `None` without a
    /// usable prediction.
    pub fn due(&self) -> Option<Moment> {
        Some(self.dispatched.plus(seconds(self.p95)?.max(SOONEST)))
    }

    /// Time from which on the attempt counts as stalled: after three times the 99th percentile.
    pub fn stalled_at(&self) -> Option<Moment> {
        Some(self.dispatched.plus(seconds(STALLED * self.p99)?.max(SOONEST)).max(self.due()?))
    }

    /// True if a hedge to `other` pays at `now`. If it does not at the [due](Awaited::due) time, it may once the
    /// attempt [has stalled](Awaited::stalled_at).
    pub fn pays(&self, other: &Alternative, now: Moment) -> bool {
        let (Some(due), Some(stalled_at)) = (self.due(), self.stalled_at()) else { return false };
        let affordable = other.uncached <= CHEAP || now >= stalled_at;
        now >= due && affordable && CLEARLY * other.ttft <= self.remaining(now)
    }

    /// Median of the remaining time in seconds, given the wait so far.
    ///
    /// Beyond its 95th percentile, a time to first token is assumed to have a Pareto tail through its 95th and 99th
    /// percentiles. The remaining time after a wait of `t` is then `t · (2^(1/α) − 1)`, which grows with `t`. Beyond a
    /// stall, the observations behind these percentiles no longer apply, and the heaviest tail is assumed.
    fn remaining(&self, now: Moment) -> f64 {
        let stalled = self.stalled_at().is_some_and(|stalled_at| now >= stalled_at);
        // One in twenty exceeds the 95th percentile, and one in five of these the 99th.
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
    fn a_hedge_is_due_after_the_95th_percentile_and_at_least_a_second() {
        assert_eq!(awaited(2.5, 4.0).due(), Some(after(2.5)));
        assert_eq!(awaited(0.2, 0.3).due(), Some(after(1.0)));
        assert_eq!(awaited(2.5, 4.0).stalled_at(), Some(after(12.0)));
        for nonsense in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300] {
            assert_eq!(awaited(nonsense, 4.0).due(), None);
            assert!(!awaited(nonsense, 4.0).pays(&CHEAP_AND_FAST, after(99.0)));
        }
    }

    #[test]
    fn a_hedge_pays_only_where_the_other_is_clearly_faster() {
        let first = awaited(2.0, 4.0);
        assert!(!first.pays(&CHEAP_AND_FAST, after(1.9)), "not due");
        assert!(first.pays(&CHEAP_AND_FAST, after(2.1)));
        // α = ln 5 / ln 2: at 2.1 s it is expected to take 0.73 s more.
        assert!(!first.pays(&Alternative { ttft: 0.5, ..CHEAP_AND_FAST }, after(2.1)));
        assert!(first.pays(&Alternative { ttft: 0.48, ..CHEAP_AND_FAST }, after(2.1)));
        assert!(first.pays(&Alternative { ttft: 0.5, ..CHEAP_AND_FAST }, after(2.5)), "the later, the longer");
    }

    #[test]
    fn an_expensive_hedge_needs_a_stall() {
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
