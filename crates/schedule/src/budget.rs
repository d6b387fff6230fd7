//! Budget of extra requests (retries, hedges), as a share of first attempts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Units per request.
const UNITS: u64 = 100;

/// Balance of extra requests, earned by dispatched requests.
#[derive(Debug)]
pub struct Budget {
    balance: AtomicU64,
    earned: u64,
    cap: u64,
}

impl Budget {
    /// Creates a budget that earns `percent` of the dispatched requests, starts with `first` and saves at most `most`.
    pub const fn new(percent: u64, first: u64, most: u64) -> Self {
        Self { balance: AtomicU64::new(first * UNITS), earned: percent, cap: most * UNITS }
    }

    /// Adds the share that one dispatched request earns.
    pub fn earn(&self) {
        self.add(self.earned);
    }

    /// Gives back one extra request that was taken and not used.
    pub fn give_back(&self) {
        self.add(UNITS);
    }

    fn add(&self, more: u64) {
        let more = |balance: u64| (balance < self.cap).then(|| (balance + more).min(self.cap));
        // An error means that the balance is at its maximum.
        let _ = self.balance.fetch_update(Relaxed, Relaxed, more);
    }

    /// Takes one extra request. Returns false if the balance is too low.
    pub fn take(&self) -> bool {
        self.balance.fetch_update(Relaxed, Relaxed, |balance| balance.checked_sub(UNITS)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hedge_budget_starts_with_three_and_earns_two_per_hundred() {
        let budget = Budget::new(2, 3, 10);
        let taken = |budget: &Budget| std::iter::from_fn(|| budget.take().then_some(())).count();
        assert_eq!(taken(&budget), 3);
        (0..49).for_each(|_| budget.earn());
        assert!(!budget.take());
        budget.earn();
        assert_eq!(taken(&budget), 1);
        (0..100_000).for_each(|_| budget.earn());
        assert_eq!(taken(&budget), 10);
    }

    #[test]
    fn concurrent_takers_never_exceed_the_earned_balance() {
        let budget = Budget::new(2, 3, 10);
        let worker = || (0..1_000).map(|_| (budget.earn(), u32::from(budget.take())).1).sum::<u32>();
        let taken: u32 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert!((80..=83).contains(&taken), "{taken}");
    }
}
