//! What one request has taken of limits that gateways keep together.

use std::sync::{Arc, Mutex};

use super::{
    leases::Entry,
    names::{Names, TeamNames},
    server::Joint,
    transaction::{Answer, Room, Transaction},
};
use crate::{
    measure::lock,
    quota::{Bucket, BudgetAccount, BudgetExceeded, Exceeded, Kind, LimitStatus, Spent, Standing, Statement, within},
    redis::Unavailable,
    types::Moment,
};

/// What one request has taken.
pub(crate) struct Share {
    joint: Arc<Joint>,
    names: Arc<Names>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    stay: Option<Entry>,
    hold: Option<Entry>,
    /// Tokens that were taken there, as far as that is known.
    tokens: u64,
    /// What is left of its rates, as it was told last.
    requests_left: Option<Bucket>,
    tokens_left: Option<Bucket>,
}

/// The limit that gateways together leave no room under.
pub(crate) enum Full {
    /// Of the key.
    Key(Exceeded),
    /// Of its team.
    Budget(BudgetExceeded),
}

impl Share {
    pub(crate) fn new(joint: Arc<Joint>, names: Arc<Names>) -> Self {
        Self { joint, names, taken: Mutex::default() }
    }

    /// The request comes in, and has been counted here.
    pub(crate) async fn enter(&self, now: Moment) -> Result<(), Exceeded> {
        let Names { limits, requests, stays, .. } = &*self.names;
        let mut deal = Transaction::default();
        let at_once = limits.concurrency.map(|most| {
            let entry = self.joint.roll.enter(stays, 1);
            let room = Room { most, least: 1, amount: 1 };
            let at = deal.hold(stays, room, entry.member(), None);
            // From now on it ends with the request, whatever the server says, and whenever.
            lock(&self.taken).stay = Some(entry);
            (at, most)
        });
        let rate = limits.rpm.map(|rpm| (deal.take(requests, rpm, 1), rpm));
        if deal.is_empty() {
            return Ok(());
        }
        let answer = self.joint.ask("enter", &deal).await;
        let mut taken = lock(&self.taken);
        keep(taken.stay.as_ref(), &answer);
        let Ok((refused, told)) = answer else { return Ok(()) };
        let first = |at: usize| told.get(at).and_then(|told| told.first()).copied().unwrap_or_default();
        let bucket = rate.map(|(at, rpm)| Bucket::used(rpm, first(at), now));
        taken.requests_left.clone_from(&bucket);
        if refused == 0 {
            return Ok(());
        }
        // Nothing was taken there.
        taken.stay = None;
        Err(match (at_once, bucket) {
            (Some((at, most)), _) if refused == at + 1 => {
                let remaining = most.saturating_sub(first(at));
                Exceeded { kind: Kind::Concurrency, limit: most, remaining, asked: 1, after: None }
            }
            (_, Some(mut bucket)) => Exceeded::of(Kind::Requests, &mut bucket, 1, now),
            (_, None) => return Ok(()),
        })
    }

    /// An engine is to work for it, and what it will take has been reserved here: `expected` tokens, of which only `certain` ones can make it
    /// too large; and of its team's `budget`, where it has one: the fund, what has to be left of it, and what was reserved.
    pub(crate) async fn reserve(
        &self,
        (certain, expected): (u64, u64),
        budget: Option<(&Arc<BudgetAccount>, Spent, u64)>,
        (now, unix): (Moment, i64),
    ) -> Result<(), Full> {
        let Names { limits, tokens, .. } = &*self.names;
        let mut deal = Transaction::default();
        let asked = limits.tpm.map_or(expected, |tpm| within(tpm, certain, expected));
        let rate = limits.tpm.map(|tpm| (deal.take(tokens, tpm, asked), tpm));
        let held = budget.and_then(|(fund, least, amount)| Some((self.budget(Some(fund), unix)?, least, amount)));
        let budget = held.map(|((team, fund, statement, spent), least, amount)| {
            let least = statement.budget.amount.of(least).min(amount);
            let entry = self.joint.roll.enter(&team.holds, amount);
            let room = Room { most: statement.most, least, amount };
            let at = deal.hold(&team.holds, room, entry.member(), Some((&spent, &statement, &self.joint.gateway)));
            lock(&self.taken).hold = Some(entry);
            (at, fund, statement, room)
        });
        if deal.is_empty() {
            return Ok(());
        }
        let answer = self.joint.ask("reserve", &deal).await;
        let mut taken = lock(&self.taken);
        // Where less is left than was asked for, it holds that.
        if let (Some((at, _, _, room)), Ok((0, told)), Some(hold)) = (&budget, &answer, &mut taken.hold) {
            let used = told.get(*at).and_then(|told| told.first()).copied().unwrap_or_default();
            hold.shrink(room.amount.min(room.most.saturating_sub(used)));
        }
        keep(taken.hold.as_ref(), &answer);
        let (refused, told) = match answer {
            Ok(answer) => answer,
            Err(absent) => {
                // What was asked too slowly was asked all the same.
                taken.tokens = if absent == Unavailable::Late { asked } else { 0 };
                return Ok(());
            }
        };
        let figure = |at: usize, of: usize| told.get(at).and_then(|told| told.get(of)).copied().unwrap_or_default();
        if let Some((at, fund, statement, _)) = &budget {
            fund.learn(statement, figure(*at, 2), figure(*at, 1));
        }
        let bucket = rate.map(|(at, tpm)| Bucket::used(tpm, figure(at, 0), now));
        taken.tokens_left.clone_from(&bucket);
        if refused == 0 {
            taken.tokens = asked;
            return Ok(());
        }
        taken.hold = None;
        match (budget, bucket) {
            (Some((at, _, statement, room)), _) if refused == at + 1 => {
                let unspent = room.most.saturating_sub(figure(at, 1));
                let under_way = unspent > 0 && unspent >= room.least;
                Err(Full::Budget(BudgetExceeded { budget: statement.budget, renewed: statement.until, under_way }))
            }
            (_, Some(mut bucket)) => Err(Full::Key(Exceeded::of(Kind::Tokens, &mut bucket, asked, now))),
            (_, None) => Ok(()),
        }
    }

    /// The request is over, and was settled here. `used`: the tokens it used of those that were reserved; `None` where none were.
    pub(crate) fn settle(&self, used: Option<u64>, fund: Option<&Arc<BudgetAccount>>, unix: i64) {
        let (stay, hold, before) = {
            let mut taken = lock(&self.taken);
            let (before, used) = (taken.tokens, used.unwrap_or(taken.tokens));
            if let Some(bucket) = &mut taken.tokens_left {
                bucket.give_back(before.saturating_sub(used));
                bucket.take(used.saturating_sub(before));
            }
            (taken.stay.take(), taken.hold.take(), before)
        };
        let mut deal = Transaction::default();
        if let Some(stay) = stay {
            stay.release(&mut deal);
        }
        if let (Some(tpm), Some(used)) = (self.names.limits.tpm, used)
            && used != before
        {
            deal.correct(&self.names.tokens, tpm, used.cast_signed().saturating_sub(before.cast_signed()));
        }
        if let Some(hold) = hold {
            hold.release(&mut deal);
            if let Some((_, _, statement, spent)) = self.budget(fund, unix) {
                deal.spend(&spent, &statement, &self.joint.gateway);
            }
        }
        if !deal.is_empty() {
            self.joint.tell(&deal);
        }
    }

    /// How its caller stands: as all gateways together have it, where that is known.
    pub(crate) fn standing(&self, here: Standing, now: Moment) -> Standing {
        let mut taken = lock(&self.taken);
        let Taken { requests_left, tokens_left, .. } = &mut *taken;
        let figures = |bucket: &mut Option<Bucket>| bucket.as_mut().map(|bucket| LimitStatus::of(bucket, now));
        Standing {
            requests: figures(requests_left).or(here.requests),
            tokens: figures(tokens_left).or(here.tokens),
            in_flight: here.in_flight,
        }
    }

    fn budget<'a>(
        &'a self,
        fund: Option<&'a Arc<BudgetAccount>>,
        unix: i64,
    ) -> Option<(&'a TeamNames, &'a Arc<BudgetAccount>, Statement, Arc<str>)> {
        let (team, fund) = self.names.team.as_ref().zip(fund)?;
        let statement = fund.statement(unix);
        let spent = team.spent(&statement)?;
        Some((team, fund, statement, spent))
    }
}

/// What was asked for is held from now on, unless the server refused it.
fn keep(entry: Option<&Entry>, answer: &Result<Answer, Unavailable>) {
    if let (Some(entry), Ok((0, _)) | Err(_)) = (entry, answer) {
        entry.keep();
    }
}
