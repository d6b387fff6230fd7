//! A further try after one that failed: whether there may be one, and after which pause.
//!
//! Tries are what keeps an answer from being lost, and what turns a short outage into a long one: everybody who tries again adds
//! load to what is failing. Hence a [budget]: retries are a share of what is dispatched, and where all is failing they
//! cease (the AWS Builders' Library, "Timeouts, retries, and backoff with jitter", 2019; Finagle's `RetryBudget`).

use std::time::Duration;

use super::budget::Budget;

/// The longest pause that a provider may ask for and get: for a longer one, the request goes elsewhere.
pub const WORTH_WAITING: Duration = Duration::from_secs(3);
/// The mean of the first pause, where the provider asks for none; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The same after a refusal for coming too often.
const FIRST_PAUSE_LIMITED: Duration = Duration::from_millis(800);
/// The longest mean.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// How many retries there may be: one in ten of the requests dispatched lately, and twenty saved up at most, which is also what there is to
/// begin with.
pub const fn budget() -> Budget {
    Budget::new(10, 20, 20)
}

/// How long to wait before the same backend is tried again after `failures` in a row: what it `asked` for and a little more, or a pause that
/// doubles, between half of it and one and a half (`chance` is uniform in `0..1`). `limited`: it refused for coming too often.
/// `None` where it asked for more than is [worth waiting for](WORTH_WAITING).
pub fn pause(asked: Option<Duration>, failures: u32, limited: bool, chance: f64) -> Option<Duration> {
    match asked {
        Some(asked) if asked > WORTH_WAITING => None,
        // Many were refused in the same moment; they should not come back in the same moment.
        Some(asked) => Some(asked + FIRST_PAUSE.mul_f64(chance)),
        None => {
            let first = if limited { FIRST_PAUSE_LIMITED } else { FIRST_PAUSE };
            let mean = first.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(LONGEST_PAUSE);
            Some(mean.mul_f64(0.5 + chance))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn retries_are_one_in_ten_of_what_is_dispatched() {
        let budget = budget();
        let taken = |budget: &Budget| std::iter::from_fn(|| budget.take().then_some(())).count();
        assert_eq!(taken(&budget), 20);
        // A full outage: every request fails, and would be tried again.
        let retries: u32 = (0..6_000).map(|_| (budget.earn(), u32::from(budget.take())).1).sum();
        assert_eq!(retries, 600);
        (0..100_000).for_each(|_| budget.earn());
        assert_eq!(taken(&budget), 20);
    }

    proptest! {
        #[test]
        fn pauses_are_bounded_and_never_shorter_than_asked(
            asked in prop::option::of(0u64..10_000), failures in 0u32..100, limited: bool, chance in 0.0..1.0_f64,
        ) {
            let asked = asked.map(Duration::from_millis);
            match (asked, pause(asked, failures, limited, chance)) {
                (Some(asked), None) => prop_assert!(asked > WORTH_WAITING),
                (Some(asked), Some(pause)) => prop_assert!(pause >= asked && pause <= asked + FIRST_PAUSE),
                (None, Some(pause)) => prop_assert!(pause >= FIRST_PAUSE / 2 && pause <= LONGEST_PAUSE * 3 / 2),
                (None, None) => prop_assert!(false, "there is always a pause of our own"),
            }
        }
    }
}
