//! A budget for a day or a month and the amount spent of it. Exact: money is counted in integer parts, so that returned
//! reservations leave no rounding errors.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use super::calendar::Period;
use signalbox_types::{Name, Price, Usage};

/// Parts of a US dollar: a token at one cent per million tokens is 10,000 of them.
const PARTS: f64 = 1e12;

/// The amount that requests used.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// Tokens of prompts and answers together.
    pub tokens: u64,
    /// Cost in US dollars, where prices are known.
    pub usd: f64,
}

/// The size of a budget.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Amount {
    /// US dollars, at the prices of the policy.
    Usd(f64),
    /// Tokens of prompts and answers together.
    Tokens(u64),
}

/// The amount that may be spent in a period.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Budget {
    /// The amount.
    pub amount: Amount,
    /// The period after which it is renewed.
    pub per: Period,
}

/// The owner of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BudgetOwner {
    /// The team of this name.
    Team(Name),
    /// The key with this id.
    Key(Name),
}

impl fmt::Display for BudgetOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Team(name) => write!(f, "the team '{name}'"),
            Self::Key(id) => write!(f, "the key '{id}'"),
        }
    }
}

/// The error for a request that does not fit into a budget.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BudgetExceeded {
    /// The budget.
    pub budget: Budget,
    /// The start of the next period, in seconds since 1970.
    pub renewed: i64,
    /// True if only reservations of requests in flight stand in the way: they are returned as those requests end.
    pub under_way: bool,
}

/// The amount spent in one period, as stored across restarts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// The first second of the period, since 1970.
    pub since: i64,
    /// Tokens.
    pub tokens: u64,
    /// 10⁻¹² US dollars.
    pub picodollars: u64,
}

/// A budget's status, as exchanged between gateways that share it: in its own unit, tokens or 10⁻¹² US dollars.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Statement {
    /// The budget.
    pub budget: Budget,
    /// The first second of its period, since 1970.
    pub since: i64,
    /// The first second of the one after it.
    pub until: i64,
    /// The size of the budget.
    pub most: u64,
    /// The amount spent by this gateway.
    pub spent: u64,
}

/// The amounts spent and reserved of a budget.
#[derive(Debug)]
pub struct BudgetAccount(Mutex<State>);

#[derive(Debug)]
struct State {
    budget: Budget,
    spent: Tally,
    /// The amount that other gateways spent in the same period, as far as known.
    elsewhere: Tally,
    reserved: Tally,
}

/// An amount reserved for a request; dropping the reservation returns all of it.
#[derive(Debug)]
pub struct SpendReservation {
    account: Arc<BudgetAccount>,
    amount: u64,
    reserved: Option<Tally>,
}

impl BudgetAccount {
    /// An account without spending, or with `before` if that belongs to the period of `unix`.
    pub fn new(budget: Budget, before: Option<Tally>, unix: i64) -> Self {
        let since = budget.per.start(unix);
        let spent = before.filter(|before| before.since == since).unwrap_or(Tally { since, ..Tally::default() });
        Self(Mutex::new(State { budget, spent, elsewhere: Tally::default(), reserved: Tally::default() }))
    }

    /// The budget.
    pub fn budget(&self) -> Budget {
        self.0.lock().budget
    }

    /// Replaces the budget. Spending in the period is kept unless a new period has begun.
    pub fn set_budget(&self, budget: Budget, unix: i64) {
        let mut state = self.0.lock();
        state.budget = budget;
        state.renew(unix);
    }

    /// Reserves the most that a request may cost, or the whole remainder if that is less but covers `least`.
    ///
    /// A request with its whole maximum reserved cannot overspend. One with less takes the whole remainder until it
    /// ends, so there is only one of these at a time, and none after one that overspent. The budget is therefore
    /// exceeded by less than the maximum of one request.
    ///
    /// # Errors
    /// The budget that cannot cover `least`; nothing is taken then.
    pub fn reserve(self: &Arc<Self>, least: Spent, most: Spent, unix: i64) -> Result<SpendReservation, BudgetExceeded> {
        let mut state = self.0.lock();
        state.renew(unix);
        let State { budget, spent, elsewhere, reserved } = &mut *state;
        let counted = |tally: &Tally| budget.amount.counted(tally);
        let gone = counted(spent).saturating_add(counted(elsewhere));
        let unspent = budget.amount.most().saturating_sub(gone);
        let left = unspent.saturating_sub(counted(reserved));
        let (least, wanted) = (budget.amount.of(least), budget.amount.of(most));
        // What cannot cost anything is admitted even when everything is spent.
        if wanted > 0 && (left == 0 || left < least) {
            let under_way = unspent > 0 && unspent >= least;
            return Err(BudgetExceeded { budget: *budget, renewed: budget.per.end(unix), under_way });
        }
        let mut taken = Tally { since: 0, tokens: most.tokens, picodollars: parts(most.usd) };
        let amount = wanted.clamp(least.min(left), left);
        *budget.amount.counted_mut(&mut taken) = amount;
        reserved.add(&taken);
        Ok(SpendReservation { account: self.clone(), amount, reserved: Some(taken) })
    }

    /// The budget, and the amount spent in the period of `unix` by all gateways.
    pub fn standing(&self, unix: i64) -> (Budget, Spent) {
        let mut state = self.0.lock();
        state.renew(unix);
        let State { spent, elsewhere, .. } = &*state;
        let tokens = spent.tokens.saturating_add(elsewhere.tokens);
        let picodollars = spent.picodollars.saturating_add(elsewhere.picodollars);
        (state.budget, Spent { tokens, usd: picodollars as f64 / PARTS })
    }

    /// This gateway's status, for the other gateways that share the budget.
    pub fn statement(&self, unix: i64) -> Statement {
        let mut state = self.0.lock();
        state.renew(unix);
        let State { budget, spent, .. } = &*state;
        // If the clock was set back, the period that has begun stays current.
        let unix = unix.max(spent.since);
        let (since, until) = (budget.per.start(unix), budget.per.end(unix));
        Statement { budget: *budget, since, until, most: budget.amount.most(), spent: budget.amount.counted(spent) }
    }

    /// Merges the shared state for `statement`: `here` is the amount recorded for this gateway, which counts if it is
    /// higher than the local one, and `all` the amount of all gateways.
    pub fn learn(&self, statement: &Statement, here: u64, all: u64) {
        let mut state = self.0.lock();
        let State { budget, spent, elsewhere, .. } = &mut *state;
        if *budget != statement.budget || !(statement.since..statement.until).contains(&spent.since) {
            return;
        }
        let (own, others) = match budget.amount {
            Amount::Usd(_) => (&mut spent.picodollars, &mut elsewhere.picodollars),
            Amount::Tokens(_) => (&mut spent.tokens, &mut elsewhere.tokens),
        };
        *own = here.max(*own);
        // The others' spending never decreases within a period: a lower value means that the server has lost data.
        *others = all.saturating_sub(here).max(*others);
    }

    /// The amount to store across a restart: the spending of this gateway.
    pub fn tally(&self) -> Tally {
        self.0.lock().spent
    }

    fn settle(&self, reserved: &Tally, used: Spent, unix: Option<i64>) {
        let mut state = self.0.lock();
        if let Some(unix) = unix {
            state.renew(unix);
        }
        state.reserved.subtract(reserved);
        state.spent.add(&Tally { since: 0, tokens: used.tokens, picodollars: parts(used.usd) });
    }
}

impl State {
    /// Begins the period of `unix` if it is a later one. A clock that was set back changes nothing.
    fn renew(&mut self, unix: i64) {
        let since = self.budget.per.start(unix);
        if since > self.spent.since {
            self.spent = Tally { since, ..Tally::default() };
            self.elsewhere = Tally::default();
        }
    }
}

impl Amount {
    /// The size in tokens or in parts of a dollar.
    fn most(self) -> u64 {
        match self {
            Self::Usd(usd) => parts(usd),
            Self::Tokens(tokens) => tokens,
        }
    }

    /// The amount `spent` in this budget's unit.
    pub fn of(self, spent: Spent) -> u64 {
        match self {
            Self::Usd(_) => parts(spent.usd),
            Self::Tokens(_) => spent.tokens,
        }
    }

    fn counted(self, tally: &Tally) -> u64 {
        match self {
            Self::Usd(_) => tally.picodollars,
            Self::Tokens(_) => tally.tokens,
        }
    }

    fn counted_mut(self, tally: &mut Tally) -> &mut u64 {
        match self {
            Self::Usd(_) => &mut tally.picodollars,
            Self::Tokens(_) => &mut tally.tokens,
        }
    }

    /// The unit's name.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Usd(_) => "usd",
            Self::Tokens(_) => "tokens",
        }
    }
}

impl Tally {
    fn add(&mut self, more: &Self) {
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.picodollars = self.picodollars.saturating_add(more.picodollars);
    }

    fn subtract(&mut self, less: &Self) {
        self.tokens = self.tokens.saturating_sub(less.tokens);
        self.picodollars = self.picodollars.saturating_sub(less.picodollars);
    }
}

/// NaN and negative values become 0.
fn parts(usd: f64) -> u64 {
    (usd * PARTS).round() as u64
}

impl Spent {
    /// Tokens of a prompt and an answer, and their cost.
    pub fn of(usage: &Usage, price: Option<&Price>) -> Self {
        Self { tokens: usage.total(), usd: price.map_or(0.0, |price| price.cost(usage)) }
    }
}

impl SpendReservation {
    /// The reserved amount in the budget's unit: tokens or 10⁻¹² US dollars.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Ends the request, which has used `used`.
    pub fn settle(mut self, used: Spent, unix: i64) {
        if let Some(reserved) = self.reserved.take() {
            self.account.settle(&reserved, used, Some(unix));
        }
    }
}

impl Drop for SpendReservation {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.account.settle(&reserved, Spent::default(), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400;

    fn usd(usd: f64) -> Spent {
        Spent { tokens: 10, usd }
    }

    fn account(amount: Amount) -> Arc<BudgetAccount> {
        Arc::new(BudgetAccount::new(Budget { amount, per: Period::Day }, None, 0))
    }

    #[test]
    fn a_budget_ends_and_begins_anew() {
        let account = account(Amount::Usd(1.0));
        account.reserve(usd(0.5), usd(0.5), 10).unwrap().settle(usd(0.7), 20);
        let refused = account.reserve(usd(0.4), usd(0.4), 30).unwrap_err();
        assert_eq!((refused.renewed, refused.budget.amount), (DAY, Amount::Usd(1.0)));
        let held = account.reserve(usd(0.3), usd(0.3), 30).unwrap();
        assert!(account.reserve(usd(0.0), usd(0.1), 30).is_err(), "what is reserved is not there for others");
        assert!(account.reserve(usd(0.0), usd(0.0), 30).is_ok(), "what costs nothing needs none");
        drop(held);
        assert!(account.reserve(usd(0.3), usd(0.3), 30).is_ok());
        assert!(account.reserve(usd(1.0), usd(1.0), DAY).is_ok());
        assert_eq!(account.standing(DAY).1, Spent::default());
    }

    #[test]
    fn requests_are_charged_to_the_period_in_which_they_end() {
        let account = account(Amount::Tokens(100));
        let held = account.reserve(Spent { tokens: 60, usd: 0.0 }, Spent { tokens: 60, usd: 0.0 }, DAY - 1).unwrap();
        assert!(
            account.reserve(Spent { tokens: 60, usd: 0.0 }, Spent { tokens: 60, usd: 0.0 }, DAY).is_err(),
            "it is under way still"
        );
        held.settle(Spent { tokens: 50, usd: 0.0 }, DAY + 5);
        assert_eq!(account.standing(DAY + 5).1.tokens, 50);
    }

    #[test]
    fn a_restart_and_a_reload_keep_spending() {
        let first = account(Amount::Tokens(100));
        first
            .reserve(Spent { tokens: 60, usd: 0.1 }, Spent { tokens: 60, usd: 0.1 }, 5)
            .unwrap()
            .settle(Spent { tokens: 60, usd: 0.1 }, 5);
        let budget = Budget { amount: Amount::Tokens(70), per: Period::Day };
        let again = Arc::new(BudgetAccount::new(budget, Some(first.tally()), 100));
        assert!(again.reserve(Spent { tokens: 11, usd: 0.0 }, Spent { tokens: 11, usd: 0.0 }, 100).is_err());
        again.set_budget(Budget { amount: Amount::Usd(0.15), per: Period::Day }, 100);
        assert!(again.reserve(usd(0.06), usd(0.06), 100).is_err() && again.reserve(usd(0.05), usd(0.05), 100).is_ok());
        assert_eq!(
            BudgetAccount::new(budget, Some(first.tally()), DAY).standing(DAY).1,
            Spent::default(),
            "it is another day"
        );
        // A clock that is set back does not renew the budget.
        again.set_budget(budget, DAY);
        again
            .reserve(Spent { tokens: 70, usd: 0.0 }, Spent { tokens: 70, usd: 0.0 }, DAY)
            .unwrap()
            .settle(Spent { tokens: 70, usd: 0.0 }, DAY);
        assert!(again.reserve(Spent { tokens: 1, usd: 0.0 }, Spent { tokens: 1, usd: 0.0 }, DAY - 1).is_err());
    }

    #[test]
    fn spending_by_others_counts_and_is_not_stored() {
        let account = account(Amount::Tokens(100));
        account
            .reserve(Spent { tokens: 30, usd: 0.0 }, Spent { tokens: 30, usd: 0.0 }, 5)
            .unwrap()
            .settle(Spent { tokens: 30, usd: 0.0 }, 5);
        let statement = account.statement(5);
        assert_eq!((statement.since, statement.until, statement.most, statement.spent), (0, DAY, 100, 30));
        // The shared amount exceeds the local one: the process ended before it had stored its own.
        account.learn(&statement, 40, 90);
        assert_eq!((account.standing(5).1.tokens, account.tally().tokens), (90, 40));
        assert!(account.reserve(Spent { tokens: 11, usd: 0.0 }, Spent { tokens: 11, usd: 0.0 }, 5).is_err());
        account.learn(&statement, 35, 85);
        assert_eq!((account.standing(5).1.tokens, account.tally().tokens), (90, 40), "nothing is taken back");
        assert!(
            account.reserve(Spent { tokens: 50, usd: 0.0 }, Spent { tokens: 50, usd: 0.0 }, DAY).is_ok(),
            "it is another day"
        );
        account.learn(&statement, 40, 90);
        assert_eq!(account.standing(DAY).1.tokens, 0, "a report on the day before comes too late");
    }

    #[test]
    fn a_small_remainder_goes_to_one_request_at_a_time() {
        let account = account(Amount::Tokens(100));
        let tokens = |tokens| Spent { tokens, usd: 0.0 };
        let first = account.reserve(tokens(5), tokens(70), 0).unwrap();
        let second = account.reserve(tokens(5), tokens(70), 0).unwrap();
        assert_eq!((first.amount(), second.amount()), (70, 30));
        let refused = account.reserve(tokens(5), tokens(70), 0).unwrap_err();
        assert!(refused.under_way, "nothing is spent yet");
        first.settle(tokens(20), 0);
        assert_eq!(account.reserve(tokens(5), tokens(70), 0).unwrap().amount(), 50);
        second.settle(tokens(76), 0);
        assert!(!account.reserve(tokens(5), tokens(70), 0).unwrap_err().under_way, "4 of 100 hold no prompt of 5");
        assert_eq!(account.reserve(tokens(4), tokens(70), 0).unwrap().amount(), 4);
    }

    proptest! {
        #[test]
        fn a_budget_is_exceeded_by_less_than_one_request(
            steps in prop::collection::vec((1_u64..50, 0_u64..500, 0_usize..1000, any::<bool>()), 0..200),
        ) {
            let account = account(Amount::Tokens(2_000));
            let mut held: Vec<(SpendReservation, u64)> = Vec::new();
            let settle = |held: &mut Vec<(SpendReservation, u64)>, at: usize| {
                let (grant, used) = held.swap_remove(at);
                grant.settle(Spent { tokens: used, usd: 0.0 }, 0);
            };
            for (least, answer, at, begins) in steps {
                let most = least + answer;
                if begins {
                    // Whatever a request may take, it takes.
                    let reserve = |tokens| Spent { tokens, usd: 0.0 };
                    held.extend(account.reserve(reserve(least), reserve(most), 0).ok().map(|grant| (grant, most)));
                } else if !held.is_empty() {
                    let at = at % held.len();
                    settle(&mut held, at);
                }
            }
            while !held.is_empty() {
                settle(&mut held, 0);
            }
            prop_assert!(account.tally().tokens < 2_000 + 550, "{}", account.tally().tokens);
        }

        #[test]
        fn amounts_are_conserved(
            steps in prop::collection::vec((0_u64..1000, prop::option::of(0_u64..2000)), 0..60),
        ) {
            let account = account(Amount::Usd(1e6));
            let (mut held, mut used) = (Vec::new(), 0);
            // Fractions that floats cannot hold.
            let spent = |n: u64| Spent { tokens: n, usd: n as f64 * 1e-7 };
            for (expected, actual) in steps {
                let grant = account.reserve(spent(expected), spent(expected), 0).unwrap();
                match actual {
                    Some(actual) => {
                        grant.settle(spent(actual), 0);
                        used += actual;
                    }
                    None => held.push(grant),
                }
            }
            held.clear();
            prop_assert_eq!(account.0.lock().reserved, Tally::default());
            prop_assert_eq!(account.tally(), Tally { since: 0, tokens: used, picodollars: used * 100_000 });
        }
    }
}
