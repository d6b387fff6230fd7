//! What traffic of our own making may cost: a share of what callers' requests cost.

use std::sync::{Arc, Mutex};

use crate::{journal::AttemptEntry, measure::lock, policy::Background, types::Usage};

/// Errands under way at once.
const MOST_UNDER_WAY: usize = 4;
/// What is not spent is kept for later, up to the share of so many requests: after a quiet night there is no flood.
const KEPT_REQUESTS: f64 = 1000.0;
/// How much of a mean cost the newest one is.
const NEWEST: f64 = 0.05;

/// What a request cost.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestCost {
    /// In US dollars, as far as prices are known.
    pub(crate) dollars: f64,
    /// In tokens, prompt and answer.
    pub(crate) tokens: u64,
}

/// Keeps account of it. Shared by reference between threads.
#[derive(Debug, Default)]
pub(crate) struct BackgroundBudget {
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    budget: f64,
    in_dollars: bool,
    /// What may still be spent; below zero where an errand cost more than there was.
    balance: f64,
    /// Mean cost of a caller's request.
    request: f64,
    /// Mean cost of an errand.
    errand: f64,
    under_way: usize,
}

/// An errand under way; dropping it lets another go.
#[derive(Debug)]
pub(crate) struct BackgroundPermit(Arc<BackgroundBudget>);

impl RequestCost {
    /// What all attempts at a request cost.
    pub(crate) fn total(attempts: &[AttemptEntry]) -> Self {
        let tokens = attempts.iter().filter_map(|attempt| attempt.usage.as_ref()).map(Usage::total);
        Self {
            dollars: attempts.iter().filter_map(|attempt| attempt.cost_usd).sum(),
            tokens: tokens.fold(0, u64::saturating_add),
        }
    }
}

impl BackgroundBudget {
    /// Keeps to what the policy allows. Costs in another unit begin anew.
    pub(crate) fn follow(&self, allowed: Option<&Background>) {
        let (budget, in_dollars) = allowed.map_or((0.0, false), |it| (it.budget, it.in_dollars));
        let mut account = lock(&self.account);
        if account.in_dollars != in_dollars {
            *account = Account { under_way: account.under_way, ..Account::default() };
        }
        (account.budget, account.in_dollars) = (budget, in_dollars);
    }

    /// A caller's request cost so much.
    pub(crate) fn earn(&self, worth: RequestCost) {
        let mut account = lock(&self.account);
        let cost = account.cost(worth);
        account.request = mean(account.request, cost);
        let most = account.budget * account.request * KEPT_REQUESTS;
        account.balance = (account.balance + account.budget * cost).min(most.max(account.budget * cost));
    }

    /// An errand cost so much.
    pub(crate) fn spend(&self, worth: RequestCost) {
        let mut account = lock(&self.account);
        let cost = account.cost(worth);
        account.errand = mean(account.errand, cost);
        account.balance -= cost;
    }

    /// Lets one more errand go, if there is enough for it and for those under way.
    pub(crate) fn claim(self: &Arc<Self>) -> Option<BackgroundPermit> {
        let mut account = lock(&self.account);
        let held = account.errand.max(account.request) * account.under_way as f64;
        if account.under_way == MOST_UNDER_WAY || account.balance <= held {
            return None;
        }
        account.under_way += 1;
        Some(BackgroundPermit(self.clone()))
    }
}

impl Account {
    fn cost(&self, worth: RequestCost) -> f64 {
        let cost = if self.in_dollars { worth.dollars } else { worth.tokens as f64 };
        if cost.is_finite() { cost.max(0.0) } else { 0.0 }
    }
}

impl Drop for BackgroundPermit {
    fn drop(&mut self) {
        lock(&self.0.account).under_way -= 1;
    }
}

fn mean(before: f64, newest: f64) -> f64 {
    if before == 0.0 { newest } else { before + NEWEST * (newest - before) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purse(budget: f64) -> Arc<BackgroundBudget> {
        let purse = Arc::new(BackgroundBudget::default());
        purse.follow(Some(&Background { budget, in_dollars: false, pools: None, judge: None }));
        purse
    }

    fn tokens(tokens: u64) -> RequestCost {
        RequestCost { dollars: 0.0, tokens }
    }

    #[test]
    fn the_share_is_kept_in_the_long_run() {
        let purse = purse(0.02);
        let (mut earned, mut spent) = (0_u64, 0_u64);
        for request in 0..10_000_u64 {
            let cost = 100 + request % 700;
            purse.earn(tokens(cost));
            earned += cost;
            if let Some(claim) = purse.claim() {
                purse.spend(tokens(cost * 3));
                spent += cost * 3;
                drop(claim);
            }
        }
        let share = spent as f64 / earned as f64;
        assert!((0.0195..=0.0205).contains(&share), "{share}");
    }

    #[test]
    fn few_are_under_way_at_once_and_none_without_a_budget() {
        let rich = purse(0.5);
        (0..100).for_each(|_| rich.earn(tokens(100)));
        let claims: Vec<_> = std::iter::from_fn(|| rich.claim()).collect();
        assert_eq!(claims.len(), MOST_UNDER_WAY);
        drop(claims);
        assert!(rich.claim().is_some());
        rich.follow(None);
        rich.spend(tokens(100_000));
        assert!(rich.claim().is_none());
        let poor = purse(0.01);
        poor.earn(tokens(100));
        assert!(poor.claim().is_some(), "the first may cost more than there is: it is paid back first");
        poor.spend(tokens(100));
        poor.earn(tokens(100));
        assert!(poor.claim().is_none());
    }

    #[test]
    fn a_quiet_time_saves_up_no_flood() {
        let purse = purse(1.0);
        (0..100_000).for_each(|_| purse.earn(tokens(10)));
        assert!((lock(&purse.account).balance - 10.0 * KEPT_REQUESTS).abs() < 1e-6);
    }
}
