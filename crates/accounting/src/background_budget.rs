//! The budget of background requests, which the gateway makes itself: a share of the cost of callers' requests.

use std::sync::Arc;

use parking_lot::Mutex;

use signalbox_journal::AttemptEntry;
use signalbox_policy::Background;
use signalbox_types::Usage;

/// Maximum of concurrent background requests.
const MOST_RUNNING: usize = 4;
/// Bound of the unspent balance, as the share of so many requests, so that no burst follows a quiet night.
const KEPT_REQUESTS: f64 = 1000.0;
/// Weight of the newest cost in a mean.
const NEWEST: f64 = 0.05;

/// The cost of a request.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestCost {
    /// In US dollars, as far as prices are known.
    pub(crate) dollars: f64,
    /// In tokens, prompt and answer.
    pub(crate) tokens: u64,
}

/// The account of background requests. Shared by reference between threads.
#[derive(Debug, Default)]
pub struct BackgroundBudget {
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    budget: f64,
    in_dollars: bool,
    /// The amount that may still be spent; negative where a request cost more than was left.
    balance: f64,
    /// Mean cost of a caller's request.
    caller_mean: f64,
    /// Mean cost of a background request.
    background_mean: f64,
    running: usize,
}

/// Permission for one background request. Dropping it admits another.
#[derive(Debug)]
pub struct BackgroundPermit(Arc<BackgroundBudget>);

impl RequestCost {
    /// The cost of all attempts of a request.
    pub(crate) fn total(attempts: &[AttemptEntry]) -> Self {
        let tokens = attempts.iter().filter_map(|attempt| attempt.usage.as_ref()).map(Usage::total);
        Self {
            dollars: attempts.iter().filter_map(|attempt| attempt.cost_usd).sum(),
            tokens: tokens.fold(0, u64::saturating_add),
        }
    }
}

impl BackgroundBudget {
    /// Applies the policy's budget. A budget in another unit starts a new account.
    pub(super) fn apply_policy(&self, background: Option<&Background>) {
        let (budget, in_dollars) = background.map_or((0.0, false), |it| (it.budget, it.in_dollars));
        let mut account = self.account.lock();
        if account.in_dollars != in_dollars {
            *account = Account { running: account.running, ..Account::default() };
        }
        (account.budget, account.in_dollars) = (budget, in_dollars);
    }

    /// Adds the budget's share of the cost of a caller's request.
    pub(super) fn earn(&self, cost: RequestCost) {
        let mut account = self.account.lock();
        let cost = account.cost(cost);
        account.caller_mean = mean(account.caller_mean, cost);
        let most = account.budget * account.caller_mean * KEPT_REQUESTS;
        account.balance = (account.balance + account.budget * cost).min(most.max(account.budget * cost));
    }

    /// Subtracts the cost of a background request.
    pub(super) fn spend(&self, cost: RequestCost) {
        let mut account = self.account.lock();
        let cost = account.cost(cost);
        account.background_mean = mean(account.background_mean, cost);
        account.balance -= cost;
    }

    /// Admits one more background request, if the balance covers it and the running ones.
    pub fn try_acquire(self: &Arc<Self>) -> Option<BackgroundPermit> {
        let mut account = self.account.lock();
        let held = account.background_mean.max(account.caller_mean) * account.running as f64;
        if account.running == MOST_RUNNING || account.balance <= held {
            return None;
        }
        account.running += 1;
        Some(BackgroundPermit(self.clone()))
    }
}

impl Account {
    /// The cost in the budget's unit.
    fn cost(&self, cost: RequestCost) -> f64 {
        let cost = if self.in_dollars { cost.dollars } else { cost.tokens as f64 };
        if cost.is_finite() { cost.max(0.0) } else { 0.0 }
    }
}

impl Drop for BackgroundPermit {
    fn drop(&mut self) {
        self.0.account.lock().running -= 1;
    }
}

fn mean(before: f64, newest: f64) -> f64 {
    if before == 0.0 { newest } else { before + NEWEST * (newest - before) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_share(share: f64) -> Arc<BackgroundBudget> {
        let budget = Arc::new(BackgroundBudget::default());
        budget.apply_policy(Some(&Background { budget: share, in_dollars: false, pools: None, judge: None }));
        budget
    }

    fn tokens(tokens: u64) -> RequestCost {
        RequestCost { dollars: 0.0, tokens }
    }

    #[test]
    fn the_share_is_kept_in_the_long_run() {
        let budget = with_share(0.02);
        let (mut earned, mut spent) = (0_u64, 0_u64);
        for request in 0..10_000_u64 {
            let cost = 100 + request % 700;
            budget.earn(tokens(cost));
            earned += cost;
            if let Some(permit) = budget.try_acquire() {
                budget.spend(tokens(cost * 3));
                spent += cost * 3;
                drop(permit);
            }
        }
        let share = spent as f64 / earned as f64;
        assert!((0.0195..=0.0205).contains(&share), "{share}");
    }

    #[test]
    fn few_run_at_once_and_none_without_a_budget() {
        let rich = with_share(0.5);
        (0..100).for_each(|_| rich.earn(tokens(100)));
        let permits: Vec<_> = std::iter::from_fn(|| rich.try_acquire()).collect();
        assert_eq!(permits.len(), MOST_RUNNING);
        drop(permits);
        assert!(rich.try_acquire().is_some());
        rich.apply_policy(None);
        rich.spend(tokens(100_000));
        assert!(rich.try_acquire().is_none());
        let poor = with_share(0.01);
        poor.earn(tokens(100));
        assert!(poor.try_acquire().is_some(), "the first may overdraw the account, which is paid back before the next");
        poor.spend(tokens(100));
        poor.earn(tokens(100));
        assert!(poor.try_acquire().is_none());
    }

    #[test]
    fn the_unspent_balance_is_bounded() {
        let budget = with_share(1.0);
        (0..100_000).for_each(|_| budget.earn(tokens(10)));
        assert!((budget.account.lock().balance - 10.0 * KEPT_REQUESTS).abs() < 1e-6);
    }
}
