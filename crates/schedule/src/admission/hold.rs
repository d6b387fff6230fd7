//! Late binding: holds a prompt back while the engine it should go to has enough queued work.
//!
//! Many engines compute prompts in the order of arrival, others side by side; only the former are held for, once their
//! first tokens have shown it ([`proven_wait`](crate::predict::BackendPredictor::proven_wait)). A prompt in an
//! engine's queue can neither be overtaken by a shorter one nor move to an engine that becomes free first; a prompt held
//! here can. An engine is given work for [`ENOUGH`] and no more, so that it never idles and its speed is still measured.
//!
//! A held prompt goes when it is [due], which is sooner the shorter it is: a second of waiting is long for a prompt
//! that takes a tenth of that, and short for one that takes three. This is earliest-deadline-first, with a deadline
//! that is a multiple of the prompt's own prefill time, as objectives for first tokens mostly are.

use std::time::Duration;

use signalbox_types::{Moment, Overload};

/// Seconds of work that are enough for an engine. Less than a few steps leaves it idle now and then; more gives up the
/// gain. Between 0.3 and 0.8 the placement bench shows little difference.
const ENOUGH: f64 = 0.5;
/// Prefill time below which a prompt is never held, in seconds. It delays no other prompt for long, and prompts of a
/// burst with a common beginning find that beginning at an engine that is computing it.
const SHORT: f64 = 0.08;
/// Longest time that a held prompt waits before it is due, as a multiple of its prefill time.
const SLACK: f64 = 2.5;
/// Longest assumed prefill time, in seconds.
const MAX_PREFILL: f64 = 3600.0;
/// Part of a route's remaining time for the whole answer for which a held request waits.
const HELD_SHARE: u32 = 4;

/// True if a prompt of `prefill` seconds should be held rather than sent to an engine that would start on it only after
/// `wait` seconds.
pub fn holds(wait: f64, prefill: f64) -> bool {
    wait > ENOUGH && prefill > SHORT
}

/// Time at which a prompt that arrived at `arrived` and takes `prefill` seconds should go.
pub fn due(arrived: Moment, prefill: f64) -> Moment {
    let prefill = if prefill > 0.0 { prefill.min(MAX_PREFILL) } else { 0.0 };
    arrived.plus(Duration::from_secs_f64(SLACK * prefill))
}

/// Time from which on a prompt that arrived at `arrived` and takes `prefill` seconds misses its `limit` on the first
/// token, wherever it goes, and is put back; `None` where it keeps its place.
pub fn late(overload: Overload, arrived: Moment, prefill: f64, limit: Option<Duration>) -> Option<Moment> {
    let limit = limit.filter(|_| overload == Overload::Attainment);
    let prefill = if prefill > 0.0 { prefill.min(MAX_PREFILL) } else { 0.0 };
    limit.map(|limit| arrived.plus(limit.saturating_sub(Duration::from_secs_f64(prefill))))
}

/// Limit on a request's wait.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct WaitLimit {
    /// Longest wait.
    pub time: Duration,
    /// True if an answer after it is useless, because its first token would be late.
    pub ends_late: bool,
}

/// Limit on the wait in a queue that allows `queue`. `left` is the route's remaining time for the whole answer, `bound`
/// that for the first token. A request that is only `held` although there is room must keep time for its answer too.
pub fn wait_limit(queue: Duration, left: Option<Duration>, bound: Option<Duration>, held: bool) -> WaitLimit {
    let left = left.map(|left| if held { left / HELD_SHARE } else { left });
    let time = [left, bound].into_iter().flatten().fold(queue, Duration::min);
    WaitLimit { time, ends_late: bound == Some(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn only_busy_engines_hold_prompts_and_invalid_times_hold_none() {
        assert!(!holds(0.0, 1.0) && !holds(0.5, 1.0) && holds(0.6, 1.0));
        assert!(!holds(9.0, 0.02), "what is short passes");
        assert!(!holds(f64::NAN, 1.0) && !holds(-1.0, 1.0) && !holds(1.0, f64::NAN));
    }

    #[test]
    fn a_short_prompt_overtakes_a_long_one_that_waited_briefly() {
        let long = due(at(0), 4.0);
        assert!(due(at(5_000), 0.1) < long);
        assert!(due(at(11_000), 0.1) > long);
        for odd in [f64::NAN, -1.0] {
            assert_eq!(due(at(7), odd), at(7));
        }
        assert!(due(at(7), f64::INFINITY) > at(7));
    }

    #[test]
    fn a_prompt_is_late_when_its_prefill_no_longer_fits() {
        let limit = Some(Duration::from_secs(1));
        let late = |prefill, limit| super::late(Overload::Attainment, at(500), prefill, limit);
        assert_eq!(late(0.25, limit), Some(at(1_250)));
        assert_eq!(late(9.0, limit), Some(at(500)));
        assert_eq!(late(f64::NAN, limit), Some(at(1_500)));
        assert_eq!(late(0.25, None), None);
        assert_eq!(super::late(Overload::Tail, at(500), 0.25, limit), None, "each keeps its place");
    }

    #[test]
    fn the_shortest_ends_it_and_one_that_is_kept_leaves_time_for_its_answer() {
        let s = Duration::from_secs;
        let of = |left: Option<u64>, bound: Option<u64>, held| wait_limit(s(30), left.map(s), bound.map(s), held);
        let ends = |seconds, ends_late| WaitLimit { time: s(seconds), ends_late };
        assert_eq!(of(None, None, true), ends(30, false));
        assert_eq!((of(Some(40), None, false), of(Some(40), None, true)), (ends(30, false), ends(10, false)));
        assert_eq!((of(Some(8), Some(5), false), of(Some(8), Some(5), true)), (ends(5, true), ends(2, false)));
        assert_eq!(of(None, Some(0), false), ends(0, true));
    }
}
