//! The reservation of one request on shared limits.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    leases::Lease,
    server::LimitServer,
    server_keys::{ServerKeys, TeamKeys},
    transaction::{Answer, Hold, Transaction},
};
use crate::{
    quota::{Bucket, BudgetAccount, BudgetExceeded, Exceeded, Kind, LimitStatus, Spent, Standing, Statement, within},
    redis::Unavailable,
    types::Moment,
};

/// The reservation of one request on shared limits.
pub(crate) struct SharedReservation {
    server: Arc<LimitServer>,
    keys: Arc<ServerKeys>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The lease on the limit of concurrent requests.
    concurrency: Option<Lease>,
    /// The lease on the team's budget.
    budget: Option<Lease>,
    /// Tokens taken of the shared rate, as far as known.
    tokens: u64,
    /// The shared rates, as the server reported them last.
    requests_left: Option<Bucket>,
    tokens_left: Option<Bucket>,
}

/// A shared limit that leaves no room for the request.
pub(crate) enum SharedLimitExceeded {
    /// A limit of the key.
    Key(Exceeded),
    /// The budget of the team.
    Budget(BudgetExceeded),
}

impl SharedReservation {
    pub(crate) fn new(server: Arc<LimitServer>, keys: Arc<ServerKeys>) -> Self {
        Self { server, keys, state: Mutex::default() }
    }

    /// Counts a request that has passed the local limits against the shared limits of requests per minute and of concurrent requests.
    pub(crate) async fn enter(&self, now: Moment) -> Result<(), Exceeded> {
        let ServerKeys { limits, requests, concurrency, .. } = &*self.keys;
        let mut transaction = Transaction::default();
        let concurrent = limits.concurrency.map(|most| {
            let lease = self.server.leases.create(concurrency, 1);
            let hold = Hold { most, least: 1, amount: 1 };
            let at = transaction.hold(concurrency, hold, lease.member(), None);
            // Stored before the server is asked, so that it is released with the request whatever the answer is.
            self.state.lock().concurrency = Some(lease);
            (at, most)
        });
        let rate = limits.rpm.map(|rpm| (transaction.take(requests, rpm, 1), rpm));
        if transaction.is_empty() {
            return Ok(());
        }
        let answer = self.server.ask("enter", &transaction).await;
        let mut taken = self.state.lock();
        activate(taken.concurrency.as_ref(), &answer);
        let Ok((refused, figures)) = answer else { return Ok(()) };
        let first = |at: usize| figures.get(at).and_then(|part| part.first()).copied().unwrap_or_default();
        let bucket = rate.map(|(at, rpm)| Bucket::used(rpm, first(at), now));
        taken.requests_left.clone_from(&bucket);
        if refused == 0 {
            return Ok(());
        }
        // A refused transaction takes nothing.
        taken.concurrency = None;
        Err(match (concurrent, bucket) {
            (Some((at, most)), _) if refused == at + 1 => {
                let remaining = most.saturating_sub(first(at));
                Exceeded { kind: Kind::Concurrency, limit: most, remaining, asked: 1, after: None }
            }
            (_, Some(mut bucket)) => Exceeded::of(Kind::Requests, &mut bucket, 1, now),
            (_, None) => return Ok(()),
        })
    }

    /// Reserves the tokens and the budget of a request that goes to an engine and has passed the local limits. Of the `expected` tokens, only the
    /// `certain` ones can make the request too large. `budget`: the team's fund, the minimum that must be left of it, and the local reservation.
    pub(crate) async fn reserve(
        &self,
        (certain, expected): (u64, u64),
        budget: Option<(&Arc<BudgetAccount>, Spent, u64)>,
        (now, unix): (Moment, i64),
    ) -> Result<(), SharedLimitExceeded> {
        let ServerKeys { limits, tokens, .. } = &*self.keys;
        let mut transaction = Transaction::default();
        let asked = limits.tpm.map_or(expected, |tpm| within(tpm, certain, expected));
        let rate = limits.tpm.map(|tpm| (transaction.take(tokens, tpm, asked), tpm));
        let team_budget =
            budget.and_then(|(fund, least, amount)| Some((self.budget(Some(fund), unix)?, least, amount)));
        let budget = team_budget.map(|((team, fund, statement, spent), least, amount)| {
            let least = statement.budget.amount.of(least).min(amount);
            let created = self.server.leases.create(&team.reserved, amount);
            let hold = Hold { most: statement.most, least, amount };
            let spending = Some((&spent, &statement, &self.server.gateway));
            let at = transaction.hold(&team.reserved, hold, created.member(), spending);
            self.state.lock().budget = Some(created);
            (at, fund, statement, hold)
        });
        if transaction.is_empty() {
            return Ok(());
        }
        let answer = self.server.ask("reserve", &transaction).await;
        let mut taken = self.state.lock();
        // Where less is left than was asked for, the lease holds the rest.
        if let (Some((at, _, _, hold)), Ok((0, figures)), Some(lease)) = (&budget, &answer, &mut taken.budget) {
            let used = figures.get(*at).and_then(|part| part.first()).copied().unwrap_or_default();
            lease.shrink(hold.amount.min(hold.most.saturating_sub(used)));
        }
        activate(taken.budget.as_ref(), &answer);
        let (refused, figures) = match answer {
            Ok(answer) => answer,
            Err(absent) => {
                // A late answer means that the server has the question and may have granted it.
                taken.tokens = if absent == Unavailable::Late { asked } else { 0 };
                return Ok(());
            }
        };
        let figure = |at: usize, of: usize| figures.get(at).and_then(|part| part.get(of)).copied().unwrap_or_default();
        if let Some((at, fund, statement, _)) = &budget {
            fund.learn(statement, figure(*at, 2), figure(*at, 1));
        }
        let bucket = rate.map(|(at, tpm)| Bucket::used(tpm, figure(at, 0), now));
        taken.tokens_left.clone_from(&bucket);
        if refused == 0 {
            taken.tokens = asked;
            return Ok(());
        }
        taken.budget = None;
        match (budget, bucket) {
            (Some((at, _, statement, hold)), _) if refused == at + 1 => {
                let unspent = hold.most.saturating_sub(figure(at, 1));
                let under_way = unspent > 0 && unspent >= hold.least;
                Err(SharedLimitExceeded::Budget(BudgetExceeded {
                    budget: statement.budget,
                    renewed: statement.until,
                    under_way,
                }))
            }
            (_, Some(mut bucket)) => Err(SharedLimitExceeded::Key(Exceeded::of(Kind::Tokens, &mut bucket, asked, now))),
            (_, None) => Ok(()),
        }
    }

    /// Settles a request that is settled locally. `used`: tokens used of the reserved ones; `None` where none were reserved.
    pub(crate) fn settle(&self, used: Option<u64>, fund: Option<&Arc<BudgetAccount>>, unix: i64) {
        let (concurrency, budget, before) = {
            let mut taken = self.state.lock();
            let (before, used) = (taken.tokens, used.unwrap_or(taken.tokens));
            if let Some(bucket) = &mut taken.tokens_left {
                bucket.give_back(before.saturating_sub(used));
                bucket.take(used.saturating_sub(before));
            }
            (taken.concurrency.take(), taken.budget.take(), before)
        };
        let mut transaction = Transaction::default();
        if let Some(lease) = concurrency {
            lease.release(&mut transaction);
        }
        if let (Some(tpm), Some(used)) = (self.keys.limits.tpm, used)
            && used != before
        {
            transaction.correct(&self.keys.tokens, tpm, used.cast_signed().saturating_sub(before.cast_signed()));
        }
        if let Some(lease) = budget {
            lease.release(&mut transaction);
            if let Some((_, _, statement, spent)) = self.budget(fund, unix) {
                transaction.spend(&spent, &statement, &self.server.gateway);
            }
        }
        if !transaction.is_empty() {
            self.server.report(&transaction);
        }
    }

    /// The caller's status: of the shared limits where known, else the local one (`here`).
    pub(crate) fn standing(&self, here: Standing, now: Moment) -> Standing {
        let mut taken = self.state.lock();
        let State { requests_left, tokens_left, .. } = &mut *taken;
        let figures = |bucket: &mut Option<Bucket>| bucket.as_mut().map(|bucket| LimitStatus::of(bucket, now));
        Standing {
            requests: figures(requests_left).or(here.requests),
            tokens: figures(tokens_left).or(here.tokens),
            in_flight: here.in_flight,
        }
    }

    /// The team's budget, with its state at `unix` and the server's key of its spending.
    fn budget<'a>(
        &'a self,
        fund: Option<&'a Arc<BudgetAccount>>,
        unix: i64,
    ) -> Option<(&'a TeamKeys, &'a Arc<BudgetAccount>, Statement, Arc<str>)> {
        let (team, fund) = self.keys.team.as_ref().zip(fund)?;
        let statement = fund.statement(unix);
        let spent = team.spending_key(&statement)?;
        Some((team, fund, statement, spent))
    }
}

/// Activates a lease unless the server refused it.
fn activate(lease: Option<&Lease>, answer: &Result<Answer, Unavailable>) {
    if let (Some(lease), Ok((0, _)) | Err(_)) = (lease, answer) {
        lease.activate();
    }
}
