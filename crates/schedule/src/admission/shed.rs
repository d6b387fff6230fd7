//! Load shedding: refuses requests that will hardly be served in time, and computes when they may return.

use std::time::Duration;

/// Probability of meeting the bound from which on every request is served.
const SERVED: f64 = 0.5;
/// Probability up to which every request is refused: twenty prefills, which all delay others, would yield one in time.
const HOPELESS: f64 = 0.05;
/// Shortest and longest `Retry-After`, in seconds. A shorter one would return into the same queue, and no load forecast
/// reaches further than two minutes.
const MIN_RETRY_AFTER: f64 = 1.0;
const MAX_RETRY_AFTER: f64 = 120.0;

/// Decides whether to refuse a request. `attainment` is the probability that its best candidate meets the bound,
/// `in_flight` our requests on that candidate; `chance` is uniform in `0..1`.
///
/// A request without a bound (`None`) is never shed. The probability of refusal rises from 0 at 0.5 to 1 at 0.05 along
/// a smoothstep. With a cliff, all requests that arrive at one moment would be refused or served together, and load
/// would oscillate. A request for an idle backend is not shed either: it harms no other request, and its result
/// corrects a prediction that has become too pessimistic.
pub fn shed(attainment: Option<f64>, in_flight: u32, chance: f64) -> bool {
    attainment.is_some_and(|attainment| in_flight > 0 && chance < refusal(attainment))
}

/// Probability of refusal.
fn refusal(attainment: f64) -> f64 {
    // A value that is not a number is unknown, and an unknown request is served.
    let attainment = if attainment.is_nan() { SERVED } else { attainment };
    let x = ((SERVED - attainment) / (SERVED - HOPELESS)).clamp(0.0, 1.0);
    x * x * (3.0 - 2.0 * x)
}

/// Prefill work ahead of a pool.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Backlog {
    /// Uncached prompt tokens that are dispatched or wait in the gateway, without a first token yet.
    pub tokens: u64,
    /// Recent throughput of such tokens per second; 0 where unknown.
    pub tokens_per_second: f64,
}

/// Time after which a refused request would probably meet its `bound` (to the first token, in seconds), given that its
/// best candidate would take `ttft` seconds now (the median): the time until the median has fallen to the bound. In
/// whole seconds, 1 to 120.
///
/// The share `1 − bound / ttft` of the backlog must be computed first, at the pool's recent rate. It takes no less than
/// `ttft − bound`, because a wait shrinks by at most one second per second.
pub fn retry_after(ttft: f64, bound: f64, backlog: Backlog) -> Duration {
    let excess = (ttft - bound).max(0.0);
    let share = if excess > 0.0 { excess / ttft } else { 0.0 };
    let drain = backlog.tokens as f64 * share / backlog.tokens_per_second;
    let known = backlog.tokens_per_second > 0.0 && drain.is_finite();
    let seconds = if known { drain.max(excess) } else { excess };
    Duration::from_secs(seconds.ceil().clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refusal_is_a_ramp() {
        let share = |attainment| (0..1_000).filter(|&n| shed(Some(attainment), 1, f64::from(n) / 1_000.0)).count();
        assert_eq!([0.9, 0.5, 0.275, 0.05, 0.0].map(share), [0, 0, 500, 1_000, 1_000]);
        assert!((1..150).contains(&share(0.4)) && (850..1_000).contains(&share(0.15)));
    }

    #[test]
    fn requests_without_a_bound_or_with_an_idle_backend_are_served() {
        assert!(!shed(None, 9, 0.0));
        assert!(!shed(Some(0.0), 0, 0.0));
        assert!(!shed(Some(f64::NAN), 9, 0.0));
    }

    #[test]
    fn clients_come_back_when_the_backlog_has_drained() {
        let backlog = Backlog { tokens: 80_000, tokens_per_second: 5_000.0 };
        // Three quarters of 16 seconds of work.
        assert_eq!(retry_after(4.0, 1.0, backlog), Duration::from_secs(12));
        assert_eq!(retry_after(4.0, 1.0, Backlog::default()), Duration::from_secs(3));
        assert_eq!(retry_after(9.0, 1.0, Backlog { tokens: 100, ..backlog }), Duration::from_secs(8));
        assert_eq!(retry_after(0.5, 1.0, backlog), Duration::from_secs(1));
        assert_eq!(retry_after(4.0, 1.0, Backlog { tokens_per_second: 1e-9, ..backlog }), Duration::from_mins(2));
    }

    proptest! {
        #[test]
        fn the_ramp_only_falls_and_the_wait_stays_in_its_bounds(
            one in 0.0..=1.0_f64, other in 0.0..=1.0_f64,
            ttft: f64, bound: f64, tokens: u64, tokens_per_second: f64,
        ) {
            prop_assert!(refusal(one.min(other)) >= refusal(one.max(other)));
            let after = retry_after(ttft, bound, Backlog { tokens, tokens_per_second }).as_secs();
            prop_assert!((1..=120).contains(&after));
        }
    }
}
