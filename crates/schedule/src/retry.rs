//! Retries after a failure: decides whether the same backend may be tried again, and after which pause.
//!
//! Retries on a failing backend add load to it and can turn a short outage into a long one, so they have a
//! [budget](Budgets): a share of the requests that recently succeeded. Where everything fails, nothing is earned and
//! retries cease (the AWS Builders' Library, "Timeouts, retries, and backoff with jitter", 2019; gRPC A6, retry
//! throttling; Finagle's `RetryBudget`). Failing over to a healthy backend puts no load on the failing one and costs
//! nothing here: the other backend's own admission limits it.

use std::time::Duration;

use dashmap::DashMap;

use super::budget::Budget;
use signalbox_types::Name;

/// Longest pause requested by a provider that is honoured. For a longer one, the request fails over to another backend.
pub const WORTH_WAITING: Duration = Duration::from_secs(3);
/// Mean of the first pause, where the provider requests none. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The same after a rate limit.
const FIRST_PAUSE_LIMITED: Duration = Duration::from_millis(800);
/// Longest mean pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Retries earned per success, in percent; and the most retries that are saved, which is also the initial balance.
const EARNED: u64 = 50;
const SAVED: u64 = 20;
/// Most callers with a budget of their own in one pool. Further callers share one.
const MOST_CALLERS: usize = 10_000;

/// Retry budgets of one pool: one per caller, so that one caller's failing requests do not use up the budgets of the
/// others. Each successful request earns half a retry, and at most twenty are saved.
#[derive(Debug)]
pub struct Budgets {
    /// For requests without a key, and for callers beyond the bound.
    common: Budget,
    /// A caller that never took a retry has a full budget and no entry.
    callers: DashMap<Name, Budget>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { common: full(), callers: DashMap::new() }
    }
}

impl Budgets {
    /// Counts a successful request of `caller`.
    pub fn earn(&self, caller: Option<&Name>) {
        match caller.filter(|_| !self.callers.is_empty()).and_then(|caller| self.callers.get(caller)) {
            Some(own) => own.earn(),
            None if caller.is_none() => self.common.earn(),
            None => {}
        }
    }

    /// Takes one retry. Returns false if the caller has none left.
    pub fn take(&self, caller: Option<&Name>) -> bool {
        self.with(caller, Budget::take)
    }

    /// Gives back a retry that was taken and not used.
    pub fn give_back(&self, caller: Option<&Name>) {
        self.with(caller, Budget::give_back);
    }

    fn with<T>(&self, caller: Option<&Name>, of: impl FnOnce(&Budget) -> T) -> T {
        let Some(caller) = caller else { return of(&self.common) };
        if let Some(own) = self.callers.get(caller) {
            return of(&own);
        }
        if self.callers.len() >= MOST_CALLERS {
            return of(&self.common);
        }
        of(&self.callers.entry(caller.clone()).or_insert_with(full))
    }
}

const fn full() -> Budget {
    Budget::new(EARNED, SAVED, SAVED)
}

/// Pause before the same backend is tried again after `failures` in a row: the `asked` pause plus a little, or a pause
/// that doubles, scattered between half and one and a half of its mean (`chance` is uniform in `0..1`). `limited` is
/// true after a rate limit. `None` where the requested pause is longer than `WORTH_WAITING`.
pub fn pause(asked: Option<Duration>, failures: u32, limited: bool, chance: f64) -> Option<Duration> {
    match asked {
        Some(asked) if asked > WORTH_WAITING => None,
        // Many requests were refused at the same moment. The scatter keeps them from returning at the same moment.
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

    fn taken(budgets: &Budgets, caller: Option<&Name>) -> usize {
        std::iter::from_fn(|| budgets.take(caller).then_some(())).count()
    }

    #[test]
    fn retries_cease_where_nothing_succeeds() {
        let budgets = Budgets::default();
        assert_eq!((0..6_000).filter(|_| budgets.take(None)).count(), 20);
        // Two in three requests fail at first: one success earns half a retry.
        let retried = |at: u32| {
            if at.is_multiple_of(3) {
                budgets.earn(None);
            }
            !at.is_multiple_of(3) && budgets.take(None)
        };
        assert_eq!((0..3_000).filter(|at| retried(*at)).count(), 500);
        (0..100_000).for_each(|_| budgets.earn(None));
        assert_eq!(taken(&budgets, None), 20);
    }

    #[test]
    fn a_caller_whose_requests_fail_leaves_the_others_their_budgets() {
        let budgets = Budgets::default();
        let (one, other): (Name, Name) = ("one".into(), "other".into());
        assert_eq!(taken(&budgets, Some(&one)), 20);
        budgets.earn(Some(&other));
        assert_eq!((taken(&budgets, Some(&one)), taken(&budgets, Some(&other)), taken(&budgets, None)), (0, 20, 20));
        (0..4).for_each(|_| budgets.earn(Some(&one)));
        budgets.give_back(Some(&other));
        assert_eq!((taken(&budgets, Some(&one)), taken(&budgets, Some(&other))), (2, 1));
    }

    #[test]
    fn callers_are_bounded() {
        let budgets = Budgets::default();
        (0..20_000).for_each(|at| _ = budgets.take(Some(&format!("caller-{at}").into())));
        assert_eq!(budgets.callers.len(), MOST_CALLERS);
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
