//! The reservation of one request on shared limits.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    leases::Lease,
    server::LimitServer,
    server_keys::ServerKeys,
    transaction::{Answer, Hold, Transaction},
};
use signalbox_quota::{
    Bucket, BudgetAccount, BudgetExceeded, BudgetOwner, Exceeded, Kind, LimitStatus, Spent, Standing, within,
};
use signalbox_redis::Unavailable;
use signalbox_types::Moment;

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
    /// The leases on budgets.
    budgets: Vec<Lease>,
    /// Tokens taken of the shared rate, as far as known.
    tokens: u64,
    /// The shared rates, as the server reported them last.
    requests_left: Option<Bucket>,
    tokens_left: Option<Bucket>,
}

/// A budget with its owner.
pub(crate) type OwnedBudget = (BudgetOwner, Arc<BudgetAccount>);

/// A shared limit that leaves no room for the request.
pub(crate) enum SharedLimitExceeded {
    /// A limit of the key.
    Key(Exceeded),
    /// A budget.
    Budget(BudgetOwner, BudgetExceeded),
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
    /// `certain` ones can make the request too large. The second argument: the
    /// caller's budgets, the minimum that must be left of each, and the local reservations.
    pub(crate) async fn reserve(
        &self,
        (certain, expected): (u64, u64),
        (budgets, least, amounts): (&[OwnedBudget], Spent, &[u64]),
        (now, unix): (Moment, i64),
    ) -> Result<(), SharedLimitExceeded> {
        let ServerKeys { limits, tokens, .. } = &*self.keys;
        let mut transaction = Transaction::default();
        let asked = limits.tpm.map_or(expected, |tpm| within(tpm, certain, expected));
        let rate = limits.tpm.map(|tpm| (transaction.take(tokens, tpm, asked), tpm));
        let mut holds = Vec::with_capacity(budgets.len());
        for ((keys, (owner, account)), &amount) in self.keys.budgets.iter().zip(budgets).zip(amounts) {
            let statement = account.statement(unix);
            // A free request takes nothing; the server would refuse it once everything is spent.
            if amount == 0 {
                continue;
            }
            let Some(spent) = keys.spending_key(&statement) else { continue };
            let least = statement.budget.amount.of(least).min(amount);
            let created = self.server.leases.create(&keys.reserved, amount);
            let hold = Hold { most: statement.most, least, amount };
            let spending = Some((&spent, &statement, &self.server.gateway));
            let at = transaction.hold(&keys.reserved, hold, created.member(), spending);
            self.state.lock().budgets.push(created);
            holds.push((at, owner, account, statement, hold));
        }
        if transaction.is_empty() {
            return Ok(());
        }
        let answer = self.server.ask("reserve", &transaction).await;
        let mut taken = self.state.lock();
        for ((at, .., hold), lease) in holds.iter().zip(&mut taken.budgets) {
            // Where less is left than was asked for, the lease holds the rest.
            if let Ok((0, figures)) = &answer {
                let used = figures.get(*at).and_then(|part| part.first()).copied().unwrap_or_default();
                lease.shrink(hold.amount.min(hold.most.saturating_sub(used)));
            }
            activate(Some(lease), &answer);
        }
        let (refused, figures) = match answer {
            Ok(answer) => answer,
            Err(absent) => {
                // A late answer means that the server has the question and may have granted it.
                taken.tokens = if absent == Unavailable::Late { asked } else { 0 };
                return Ok(());
            }
        };
        let figure = |at: usize, of: usize| figures.get(at).and_then(|part| part.get(of)).copied().unwrap_or_default();
        for (at, _, account, statement, _) in &holds {
            account.learn(statement, figure(*at, 2), figure(*at, 1));
        }
        let bucket = rate.map(|(at, tpm)| Bucket::used(tpm, figure(at, 0), now));
        taken.tokens_left.clone_from(&bucket);
        if refused == 0 {
            taken.tokens = asked;
            return Ok(());
        }
        taken.budgets.clear();
        if let Some((at, owner, _, statement, hold)) = holds.iter().find(|(at, ..)| refused == at + 1) {
            let unspent = hold.most.saturating_sub(figure(*at, 1));
            let under_way = unspent > 0 && unspent >= hold.least;
            let exceeded = BudgetExceeded { budget: statement.budget, renewed: statement.until, under_way };
            return Err(SharedLimitExceeded::Budget((*owner).clone(), exceeded));
        }
        match bucket {
            Some(mut bucket) => Err(SharedLimitExceeded::Key(Exceeded::of(Kind::Tokens, &mut bucket, asked, now))),
            None => Ok(()),
        }
    }

    /// Settles a request that is settled locally. `used`: tokens used of the reserved ones; `None` where none were reserved.
    pub(crate) fn settle(&self, used: Option<u64>, budgets: &[OwnedBudget], unix: i64) {
        let (concurrency, leases, before) = {
            let mut taken = self.state.lock();
            let (before, used) = (taken.tokens, used.unwrap_or(taken.tokens));
            if let Some(bucket) = &mut taken.tokens_left {
                bucket.give_back(before.saturating_sub(used));
                bucket.take(used.saturating_sub(before));
            }
            (taken.concurrency.take(), std::mem::take(&mut taken.budgets), before)
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
        if !leases.is_empty() {
            for (keys, (_, account)) in self.keys.budgets.iter().zip(budgets) {
                let statement = account.statement(unix);
                if let Some(spent) = keys.spending_key(&statement) {
                    transaction.spend(&spent, &statement, &self.server.gateway);
                }
            }
        }
        for lease in leases {
            lease.release(&mut transaction);
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
}

/// Activates a lease unless the server refused it.
fn activate(lease: Option<&Lease>, answer: &Result<Answer, Unavailable>) {
    if let (Some(lease), Ok((0, _)) | Err(_)) = (lease, answer) {
        lease.activate();
    }
}
