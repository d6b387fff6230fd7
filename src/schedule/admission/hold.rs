//! Late binding: a prompt is not sent to an engine that has enough prompts to go on with.
//!
//! Engines compute prompts in the order in which they came. One that waits in an engine's queue can neither be passed by a
//! shorter one nor go where room comes up first; one that waits here can. An engine is given work for [`ENOUGH`] and no more:
//! so it never has to wait for the next, and what is learned of it goes on.
//!
//! Who waits goes when it is [due], which is the sooner the shorter its prompt is: to wait for a second is much for one that
//! takes a tenth of that, and little for one that takes three. That is the rule of the earliest deadline, with a deadline that is
//! a multiple of the time that a prompt takes by itself, as objectives for first tokens mostly are.

use std::time::Duration;

use crate::types::Moment;

/// Work for so long is enough for an engine, in seconds. Less than a few of its steps leaves it idle now and then; more gives up what
/// is to be had. Between 0.3 and 0.8 the placement bench sees little difference.
const ENOUGH: f64 = 0.5;
/// Whoever takes less by itself passes at once, in seconds: it holds up nobody for long, and those of a burst that begin alike find
/// their beginning at an engine that is at work on it.
const SHORT: f64 = 0.08;
/// So many times as long as it takes by itself may a prompt wait before it is due.
const SLACK: f64 = 2.5;
/// No prompt takes longer, in seconds.
const LONGEST: f64 = 3600.0;

/// Whether a prompt that takes `prefill` seconds by itself is better kept here for now than sent to an engine that would begin with it
/// after `wait`, because of what was sent there before.
pub fn holds(wait: f64, prefill: f64) -> bool {
    wait > ENOUGH && prefill > SHORT
}

/// When a prompt that came at `arrived`, and takes `prefill` seconds by itself, should go.
pub fn due(arrived: Moment, prefill: f64) -> Moment {
    let prefill = if prefill > 0.0 { prefill.min(LONGEST) } else { 0.0 };
    arrived.plus(Duration::from_secs_f64(SLACK * prefill))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn an_engine_with_little_to_do_gets_more_and_what_is_no_time_holds_nobody() {
        assert!(!holds(0.0, 1.0) && !holds(0.5, 1.0) && holds(0.6, 1.0));
        assert!(!holds(9.0, 0.02), "what is short passes");
        assert!(!holds(f64::NAN, 1.0) && !holds(-1.0, 1.0) && !holds(1.0, f64::NAN));
    }

    #[test]
    fn a_short_prompt_passes_a_long_one_that_did_not_wait_for_long() {
        let long = due(at(0), 4.0);
        assert!(due(at(5_000), 0.1) < long);
        assert!(due(at(11_000), 0.1) > long);
        for odd in [f64::NAN, -1.0] {
            assert_eq!(due(at(7), odd), at(7));
        }
        assert!(due(at(7), f64::INFINITY) > at(7));
    }
}
