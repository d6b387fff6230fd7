//! A budget for a day or a month, and what was spent of it. Exact: money is counted in whole parts, so that what is given back leaves no
//! crumbs.

use std::sync::{Arc, Mutex};

use super::calendar::Period;
use crate::{
    measure::lock,
    types::{Price, Usage},
};

/// Parts of a US dollar that are counted: a token at a cent per million is 10,000 of them.
const PARTS: f64 = 1e12;

/// What requests used.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// Tokens, of prompts and answers together.
    pub tokens: u64,
    /// What they cost in US dollars, where prices are known.
    pub usd: f64,
}

/// How much may be spent.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Amount {
    /// US dollars, at the prices of the policy.
    Usd(f64),
    /// Tokens, of prompts and answers together.
    Tokens(u64),
}

/// How much may be spent in a period.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Budget {
    /// How much.
    pub amount: Amount,
    /// Until when.
    pub per: Period,
}

/// A budget that has no room for a request.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Overspent {
    /// The budget.
    pub budget: Budget,
    /// When it begins anew, in seconds since 1970.
    pub renewed: i64,
    /// True if only requests under way stand in the way: their reservations come back as they end.
    pub under_way: bool,
}

/// What was spent in one period, to be kept across a restart.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// The first second of the period, since 1970.
    pub since: i64,
    /// Tokens.
    pub tokens: u64,
    /// 10⁻¹² US dollars.
    pub picodollars: u64,
}

/// What gateways that count together tell of a budget: in its own unit, tokens or 10⁻¹² US dollars.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Statement {
    /// The budget.
    pub budget: Budget,
    /// The first second of its period, since 1970.
    pub since: i64,
    /// The first second of the one after it.
    pub until: i64,
    /// What may be spent.
    pub most: u64,
    /// What was spent here.
    pub spent: u64,
}

/// What is spent of a budget, and what is reserved.
#[derive(Debug)]
pub struct Fund(Mutex<State>);

#[derive(Debug)]
struct State {
    budget: Budget,
    spent: Tally,
    /// What other gateways have spent in the same period, as far as it is known.
    elsewhere: Tally,
    reserved: Tally,
}

/// What is reserved for a request; dropping it gives all of it back.
#[derive(Debug)]
pub struct Grant {
    fund: Arc<Fund>,
    amount: u64,
    reserved: Option<Tally>,
}

impl Fund {
    /// Nothing spent yet; or `before`, where that is of the period of `unix`.
    pub fn new(budget: Budget, before: Option<Tally>, unix: i64) -> Self {
        let since = budget.per.start(unix);
        let spent = before.filter(|before| before.since == since).unwrap_or(Tally { since, ..Tally::default() });
        Self(Mutex::new(State { budget, spent, elsewhere: Tally::default(), reserved: Tally::default() }))
    }

    /// Goes on under another budget. What was spent in the period counts, unless that began anew.
    pub fn follow(&self, budget: Budget, unix: i64) {
        let mut state = lock(&self.0);
        state.budget = budget;
        state.roll(unix);
    }

    /// Reserves the most that a request may take, or all that is left where that is less but holds `least`.
    ///
    /// A request that gets its whole maximum cannot overspend. One that gets less leaves nothing for others until it ends, so there is
    /// one of these at a time, and none after one that overspent. The budget is therefore exceeded by less than the maximum of one request.
    ///
    /// # Errors
    /// The budget that has no room for `least`; then nothing is taken.
    pub fn reserve(self: &Arc<Self>, least: Spent, most: Spent, unix: i64) -> Result<Grant, Overspent> {
        let mut state = lock(&self.0);
        state.roll(unix);
        let State { budget, spent, elsewhere, reserved } = &mut *state;
        let counted = |tally: &Tally| budget.amount.counted(tally);
        let gone = counted(spent).saturating_add(counted(elsewhere));
        let unspent = budget.amount.most().saturating_sub(gone);
        let left = unspent.saturating_sub(counted(reserved));
        let least = budget.amount.of(least);
        // What costs nothing goes on until all is spent.
        if left == 0 || left < least {
            let under_way = unspent > 0 && unspent >= least;
            return Err(Overspent { budget: *budget, renewed: budget.per.end(unix), under_way });
        }
        let mut taken = Tally { since: 0, tokens: most.tokens, picodollars: parts(most.usd) };
        let amount = budget.amount.counted(&taken).clamp(least, left);
        *budget.amount.counted_mut(&mut taken) = amount;
        reserved.add(&taken);
        Ok(Grant { fund: self.clone(), amount, reserved: Some(taken) })
    }

    /// The budget, and what was spent in the period of `unix`.
    pub fn standing(&self, unix: i64) -> (Budget, Spent) {
        let mut state = lock(&self.0);
        state.roll(unix);
        let State { spent, elsewhere, .. } = &*state;
        let tokens = spent.tokens.saturating_add(elsewhere.tokens);
        let picodollars = spent.picodollars.saturating_add(elsewhere.picodollars);
        (state.budget, Spent { tokens, usd: picodollars as f64 / PARTS })
    }

    /// How it stands here, for gateways that count together.
    pub fn statement(&self, unix: i64) -> Statement {
        let mut state = lock(&self.0);
        state.roll(unix);
        let State { budget, spent, .. } = &*state;
        // A clock that was set back is in the period that has begun.
        let unix = unix.max(spent.since);
        let (since, until) = (budget.per.start(unix), budget.per.end(unix));
        Statement { budget: *budget, since, until, most: budget.amount.most(), spent: budget.amount.counted(spent) }
    }

    /// What the others answer to `statement`: what was spent `here`, which counts where it is more than is known here, and by `all`.
    pub fn learn(&self, statement: &Statement, here: u64, all: u64) {
        let mut state = lock(&self.0);
        let State { budget, spent, elsewhere, .. } = &mut *state;
        if *budget != statement.budget || !(statement.since..statement.until).contains(&spent.since) {
            return;
        }
        let (own, others) = match budget.amount {
            Amount::Usd(_) => (&mut spent.picodollars, &mut elsewhere.picodollars),
            Amount::Tokens(_) => (&mut spent.tokens, &mut elsewhere.tokens),
        };
        *own = here.max(*own);
        // Others spend nothing less: a server that says so has lost something.
        *others = all.saturating_sub(here).max(*others);
    }

    /// What is to be kept across a restart: what was spent here.
    pub fn tally(&self) -> Tally {
        lock(&self.0).spent
    }

    fn settle(&self, reserved: &Tally, used: Spent, unix: Option<i64>) {
        let mut state = lock(&self.0);
        if let Some(unix) = unix {
            state.roll(unix);
        }
        state.reserved.subtract(reserved);
        state.spent.add(&Tally { since: 0, tokens: used.tokens, picodollars: parts(used.usd) });
    }
}

impl State {
    /// Begins the period of `unix`, if that is another one. A clock that was set back changes nothing.
    fn roll(&mut self, unix: i64) {
        let since = self.budget.per.start(unix);
        if since > self.spent.since {
            self.spent = Tally { since, ..Tally::default() };
            self.elsewhere = Tally::default();
        }
    }
}

impl Amount {
    /// How much it is, in tokens or in parts of a dollar.
    fn most(self) -> u64 {
        match self {
            Self::Usd(usd) => parts(usd),
            Self::Tokens(tokens) => tokens,
        }
    }

    /// What `spent` is in its unit.
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

/// No number and what is below zero count as nothing.
fn parts(usd: f64) -> u64 {
    (usd * PARTS).round() as u64
}

impl Spent {
    /// Tokens of a prompt and an answer, and their cost.
    pub fn of(usage: &Usage, price: Option<&Price>) -> Self {
        Self { tokens: usage.total(), usd: price.map_or(0.0, |price| price.cost(usage)) }
    }
}

impl Grant {
    /// How much is reserved, in the budget's unit: tokens or 10⁻¹² US dollars.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// The request is over, and has used this much.
    pub fn settle(mut self, used: Spent, unix: i64) {
        if let Some(reserved) = self.reserved.take() {
            self.fund.settle(&reserved, used, Some(unix));
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.fund.settle(&reserved, Spent::default(), None);
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

    fn fund(amount: Amount) -> Arc<Fund> {
        Arc::new(Fund::new(Budget { amount, per: Period::Day }, None, 0))
    }

    #[test]
    fn a_budget_ends_and_begins_anew() {
        let fund = fund(Amount::Usd(1.0));
        fund.reserve(usd(0.5), usd(0.5), 10).unwrap().settle(usd(0.7), 20);
        let refused = fund.reserve(usd(0.4), usd(0.4), 30).unwrap_err();
        assert_eq!((refused.renewed, refused.budget.amount), (DAY, Amount::Usd(1.0)));
        let held = fund.reserve(usd(0.3), usd(0.3), 30).unwrap();
        assert!(fund.reserve(usd(0.0), usd(0.0), 30).is_err(), "what is reserved is not there for others");
        drop(held);
        assert!(fund.reserve(usd(0.3), usd(0.3), 30).is_ok());
        assert!(fund.reserve(usd(1.0), usd(1.0), DAY).is_ok());
        assert_eq!(fund.standing(DAY).1, Spent::default());
    }

    #[test]
    fn what_ends_in_the_next_period_is_spent_there() {
        let fund = fund(Amount::Tokens(100));
        let held = fund.reserve(Spent { tokens: 60, usd: 0.0 }, Spent { tokens: 60, usd: 0.0 }, DAY - 1).unwrap();
        assert!(
            fund.reserve(Spent { tokens: 60, usd: 0.0 }, Spent { tokens: 60, usd: 0.0 }, DAY).is_err(),
            "it is under way still"
        );
        held.settle(Spent { tokens: 50, usd: 0.0 }, DAY + 5);
        assert_eq!(fund.standing(DAY + 5).1.tokens, 50);
    }

    #[test]
    fn a_restart_and_a_reload_forget_nothing() {
        let first = fund(Amount::Tokens(100));
        first
            .reserve(Spent { tokens: 60, usd: 0.1 }, Spent { tokens: 60, usd: 0.1 }, 5)
            .unwrap()
            .settle(Spent { tokens: 60, usd: 0.1 }, 5);
        let budget = Budget { amount: Amount::Tokens(70), per: Period::Day };
        let again = Arc::new(Fund::new(budget, Some(first.tally()), 100));
        assert!(again.reserve(Spent { tokens: 11, usd: 0.0 }, Spent { tokens: 11, usd: 0.0 }, 100).is_err());
        again.follow(Budget { amount: Amount::Usd(0.15), per: Period::Day }, 100);
        assert!(again.reserve(usd(0.06), usd(0.06), 100).is_err() && again.reserve(usd(0.05), usd(0.05), 100).is_ok());
        assert_eq!(Fund::new(budget, Some(first.tally()), DAY).standing(DAY).1, Spent::default(), "it is another day");
        // A clock that is set back does not give the budget a second time.
        again.follow(budget, DAY);
        again
            .reserve(Spent { tokens: 70, usd: 0.0 }, Spent { tokens: 70, usd: 0.0 }, DAY)
            .unwrap()
            .settle(Spent { tokens: 70, usd: 0.0 }, DAY);
        assert!(again.reserve(Spent { tokens: 1, usd: 0.0 }, Spent { tokens: 1, usd: 0.0 }, DAY - 1).is_err());
    }

    #[test]
    fn what_others_spent_counts_and_is_not_kept() {
        let fund = fund(Amount::Tokens(100));
        fund.reserve(Spent { tokens: 30, usd: 0.0 }, Spent { tokens: 30, usd: 0.0 }, 5)
            .unwrap()
            .settle(Spent { tokens: 30, usd: 0.0 }, 5);
        let statement = fund.statement(5);
        assert_eq!((statement.since, statement.until, statement.most, statement.spent), (0, DAY, 100, 30));
        // More was told there than is known here: the process ended before it had written that down.
        fund.learn(&statement, 40, 90);
        assert_eq!((fund.standing(5).1.tokens, fund.tally().tokens), (90, 40));
        assert!(fund.reserve(Spent { tokens: 11, usd: 0.0 }, Spent { tokens: 11, usd: 0.0 }, 5).is_err());
        fund.learn(&statement, 35, 85);
        assert_eq!((fund.standing(5).1.tokens, fund.tally().tokens), (90, 40), "nothing is taken back");
        assert!(
            fund.reserve(Spent { tokens: 50, usd: 0.0 }, Spent { tokens: 50, usd: 0.0 }, DAY).is_ok(),
            "it is another day"
        );
        fund.learn(&statement, 40, 90);
        assert_eq!(fund.standing(DAY).1.tokens, 0, "what is told of the day before comes too late");
    }

    #[test]
    fn little_that_is_left_goes_to_one_request_at_a_time() {
        let fund = fund(Amount::Tokens(100));
        let tokens = |tokens| Spent { tokens, usd: 0.0 };
        let first = fund.reserve(tokens(5), tokens(70), 0).unwrap();
        let second = fund.reserve(tokens(5), tokens(70), 0).unwrap();
        assert_eq!((first.amount(), second.amount()), (70, 30));
        let refused = fund.reserve(tokens(5), tokens(70), 0).unwrap_err();
        assert!(refused.under_way, "nothing is spent yet");
        first.settle(tokens(20), 0);
        assert_eq!(fund.reserve(tokens(5), tokens(70), 0).unwrap().amount(), 50);
        second.settle(tokens(76), 0);
        assert!(!fund.reserve(tokens(5), tokens(70), 0).unwrap_err().under_way, "4 of 100 hold no prompt of 5");
        assert_eq!(fund.reserve(tokens(4), tokens(70), 0).unwrap().amount(), 4);
    }

    proptest! {
        #[test]
        fn a_budget_is_exceeded_by_less_than_one_request(
            steps in prop::collection::vec((1_u64..50, 0_u64..500, 0_usize..1000, any::<bool>()), 0..200),
        ) {
            let fund = fund(Amount::Tokens(2_000));
            let mut held: Vec<(Grant, u64)> = Vec::new();
            let settle = |held: &mut Vec<(Grant, u64)>, at: usize| {
                let (grant, used) = held.swap_remove(at);
                grant.settle(Spent { tokens: used, usd: 0.0 }, 0);
            };
            for (least, answer, at, begins) in steps {
                let most = least + answer;
                if begins {
                    // Whatever a request may take, it takes.
                    let reserve = |tokens| Spent { tokens, usd: 0.0 };
                    held.extend(fund.reserve(reserve(least), reserve(most), 0).ok().map(|grant| (grant, most)));
                } else if !held.is_empty() {
                    let at = at % held.len();
                    settle(&mut held, at);
                }
            }
            while !held.is_empty() {
                settle(&mut held, 0);
            }
            prop_assert!(fund.tally().tokens < 2_000 + 550, "{}", fund.tally().tokens);
        }

        #[test]
        fn nothing_is_lost_or_made(
            steps in prop::collection::vec((0_u64..1000, prop::option::of(0_u64..2000)), 0..60),
        ) {
            let fund = fund(Amount::Usd(1e6));
            let (mut held, mut used) = (Vec::new(), 0);
            // Fractions that floats cannot hold.
            let spent = |n: u64| Spent { tokens: n, usd: n as f64 * 1e-7 };
            for (expected, actual) in steps {
                let grant = fund.reserve(spent(expected), spent(expected), 0).unwrap();
                match actual {
                    Some(actual) => {
                        grant.settle(spent(actual), 0);
                        used += actual;
                    }
                    None => held.push(grant),
                }
            }
            held.clear();
            prop_assert_eq!(lock(&fund.0).reserved, Tally::default());
            prop_assert_eq!(fund.tally(), Tally { since: 0, tokens: used, picodollars: used * 100_000 });
        }
    }
}
