//! What one request has taken of its caller's limits. Settled with the request's record; what is not settled comes back with it.

use std::sync::{Arc, Mutex};

use http::HeaderMap;

use super::{
    callers::Caller,
    demand::Demand,
    distributed::{Full, Share},
    limit_headers,
    refusal::{overspent, refused},
};
use crate::{
    journal::JournalEntry,
    measure::lock,
    quota::{BudgetExceeded, ConcurrencyPermit, Exceeded, SpendReservation, Spent, TokenReservation},
    schedule::predict::OutputForecast,
    telemetry::{KeyMetrics, Stage},
    types::{Fault, Moment, Name, Outcome, wall_clock},
};

/// What a request may cost.
pub(crate) struct Cost {
    /// Its prompt alone.
    pub(crate) prompt: Spent,
    /// With answers as its caller had them before.
    pub(crate) expected: Spent,
    /// With the longest answers there may be.
    pub(crate) most: Spent,
    /// True if the client itself says how long they may be: else nothing but its prompt makes it too large for a limit.
    pub(crate) declared: bool,
}

/// What one request has taken.
pub(crate) struct CallerReservation {
    caller: Arc<Caller>,
    held: Mutex<Held>,
    /// What it took of what gateways count together, where they do.
    share: Option<Share>,
}

#[derive(Default)]
struct Held {
    stay: Option<ConcurrencyPermit>,
    tokens: Option<TokenReservation>,
    grant: Option<SpendReservation>,
    /// What its prompt alone will take.
    prompt: Spent,
}

impl CallerReservation {
    /// Nothing taken yet.
    pub(crate) fn new(caller: Arc<Caller>) -> Self {
        let share = caller.joint.as_ref().map(|(joint, names)| Share::new(joint.clone(), names.clone()));
        Self { caller, held: Mutex::default(), share }
    }

    /// The caller's team.
    pub(crate) fn team(&self) -> Option<&Name> {
        self.caller.team.as_ref()
    }

    /// Where the caller's use is counted for metrics.
    pub(crate) fn metrics(&self) -> &Arc<KeyMetrics> {
        &self.caller.metrics
    }

    /// The request comes in, and counts as one.
    pub(crate) async fn enter(&self, now: Moment) -> Result<(), Fault> {
        let stay = self.caller.known.allowance.enter(now).map_err(|exceeded| self.refuse(&exceeded))?;
        lock(&self.held).stay = Some(stay);
        let Some(share) = &self.share else { return Ok(()) };
        share.enter(now).await.map_err(|exceeded| {
            if let Some(stay) = lock(&self.held).stay.take() {
                stay.cancel();
            }
            self.refuse(&exceeded)
        })
    }

    /// What to expect of an answer to its caller, within a limit.
    pub(crate) fn forecast(&self, limit: Option<u64>) -> OutputForecast {
        self.caller.known.outputs.forecast(limit)
    }

    /// An engine is to work for it.
    pub(crate) async fn reserve(&self, cost: &Cost, now: Moment) -> Result<(), Fault> {
        let Caller { fund, known, .. } = &*self.caller;
        let unix = wall_clock::seconds();
        let Cost { prompt, expected, most, declared } = *cost;
        let certain = if declared { expected.tokens } else { prompt.tokens };
        let tokens = known.allowance.reserve(certain, expected.tokens, now);
        let tokens = tokens.map_err(|exceeded| self.refuse(&exceeded))?;
        let grant = match fund {
            Some(fund) => Some(fund.reserve(prompt, most, unix).map_err(|exceeded| self.overspent(&exceeded, unix))?),
            None => None,
        };
        // Refused, it gives back here what it has reserved.
        if let Some(share) = &self.share {
            let budget = fund.as_ref().zip(grant.as_ref()).map(|(fund, grant)| (fund, prompt, grant.amount()));
            share.reserve((certain, expected.tokens), budget, (now, unix)).await.map_err(|full| match full {
                Full::Key(exceeded) => self.refuse(&exceeded),
                Full::Budget(exceeded) => self.overspent(&exceeded, unix),
            })?;
        }
        let mut held = lock(&self.held);
        (held.tokens, held.grant, held.prompt) = (Some(tokens), grant, prompt);
        Ok(())
    }

    /// The request is over, and no engine had any part in it.
    pub(crate) fn leave(&self) {
        let Held { stay: _stay, .. } = std::mem::take(&mut *lock(&self.held));
        if let Some(share) = &self.share {
            share.settle(None, self.caller.fund.as_ref(), wall_clock::seconds());
        }
    }

    /// The request is over.
    pub(crate) fn settle(&self, line: &JournalEntry, demand: Option<&Demand>) {
        self.learn(line, demand);
        let Held { stay: _stay, tokens, grant, prompt } = std::mem::take(&mut *lock(&self.held));
        let mut spent = line.spent();
        // A client that left while its prompt was read has used that: else prompts would cost nothing who leave early.
        let left_early = line.outcome == Outcome::ClientGone.label() && line.stage == Stage::Prefill;
        if left_early && spent.tokens == 0 && !line.attempts.is_empty() {
            spent = prompt;
        }
        let used = tokens.map(|tokens| {
            tokens.settle(spent.tokens);
            spent.tokens
        });
        let unix = wall_clock::seconds();
        if let Some(grant) = grant {
            grant.settle(spent, unix);
        }
        if let Some(share) = &self.share {
            share.settle(used, self.caller.fund.as_ref(), unix);
        }
    }

    /// Learns how long its caller's answers are.
    fn learn(&self, line: &JournalEntry, demand: Option<&Demand>) {
        let complete = line.outcome == Outcome::Complete.label();
        let usage = line.usage.or_else(|| line.attempts.iter().filter_map(|attempt| attempt.uncounted).next_back());
        let Some((tokens, is_cut)) = usage.and_then(|usage| demand?.answered(&usage)) else { return };
        let outputs = &self.caller.known.outputs;
        if complete && !is_cut {
            outputs.observe(tokens);
        } else if tokens > 0 {
            outputs.observe_cut(tokens);
        }
    }

    /// Tells the caller how it stands.
    pub(crate) fn put(&self, headers: &mut HeaderMap, now: Moment) {
        let here = self.caller.known.allowance.standing(now);
        limit_headers::put(headers, &self.share.as_ref().map_or(here, |share| share.standing(here, now)));
    }

    fn overspent(&self, exceeded: &BudgetExceeded, unix: i64) -> Fault {
        let Caller { id, team, known, .. } = &*self.caller;
        known.refuse(None);
        overspent(id, team.as_deref().unwrap_or_default(), exceeded, unix)
    }

    fn refuse(&self, exceeded: &Exceeded) -> Fault {
        self.caller.known.refuse(Some(exceeded.kind));
        refused(&self.caller.id, exceeded)
    }
}
