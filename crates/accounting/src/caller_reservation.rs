//! The reservation of one request on its caller's limits and on the budgets of its key and team. Dropping it without settling releases everything.

use std::sync::Arc;

use parking_lot::Mutex;

use http::HeaderMap;

use super::{
    callers::Caller,
    demand::Demand,
    distributed::{SharedLimitExceeded, SharedReservation},
    limit_headers,
    refusal::{over_budget, rate_limited},
};
use signalbox_journal::JournalEntry;
use signalbox_quota::{
    BudgetExceeded, BudgetOwner, ConcurrencyPermit, Exceeded, SpendReservation, Spent, TokenReservation,
};
use signalbox_schedule::predict::OutputForecast;
use signalbox_telemetry::{KeyMetrics, Stage};
use signalbox_types::{Fault, Moment, Name, Outcome, wall_clock};

/// The possible cost of a request.
pub struct CostBounds {
    /// The prompt alone.
    pub prompt: Spent,
    /// With an answer of the expected length.
    pub expected: Spent,
    /// With the longest possible answer.
    pub most: Spent,
    /// True if the client limits the answer's length. If not, only the prompt can make the request too large for a limit.
    pub declared: bool,
}

/// The reservation of one request.
pub struct CallerReservation {
    caller: Arc<Caller>,
    held: Mutex<Held>,
    /// The reservation on limits shared with other gateways, if the policy shares them.
    shared: Option<SharedReservation>,
}

#[derive(Default)]
struct Held {
    stay: Option<ConcurrencyPermit>,
    tokens: Option<TokenReservation>,
    grants: Vec<SpendReservation>,
    /// The cost of the prompt alone.
    prompt: Spent,
}

impl CallerReservation {
    /// An empty reservation.
    pub fn new(caller: Arc<Caller>) -> Self {
        let shared = caller.shared.as_ref().map(|(server, keys)| SharedReservation::new(server.clone(), keys.clone()));
        Self { caller, held: Mutex::default(), shared }
    }

    /// The caller's team.
    pub(crate) fn team(&self) -> Option<&Name> {
        self.caller.team.as_ref()
    }

    /// The caller's metrics.
    pub(crate) fn metrics(&self) -> &Arc<KeyMetrics> {
        &self.caller.metrics
    }

    /// Counts the request against the limits of requests per minute and of concurrent requests.
    pub async fn enter(&self, now: Moment) -> Result<(), Fault> {
        let stay = self.caller.state.allowance.enter(now).map_err(|exceeded| self.limit_exceeded(&exceeded))?;
        self.held.lock().stay = Some(stay);
        let Some(shared) = &self.shared else { return Ok(()) };
        shared.enter(now).await.map_err(|exceeded| {
            if let Some(stay) = self.held.lock().stay.take() {
                stay.cancel();
            }
            self.limit_exceeded(&exceeded)
        })
    }

    /// Forecasts the length of the caller's answers, within a limit.
    pub fn forecast(&self, limit: Option<u64>) -> OutputForecast {
        self.caller.state.outputs.forecast(limit)
    }

    /// Reserves the tokens and the budget of a request that goes to an engine.
    pub async fn reserve(&self, cost: &CostBounds, now: Moment) -> Result<(), Fault> {
        let Caller { budgets, state, .. } = &*self.caller;
        let unix = wall_clock::seconds();
        let CostBounds { prompt, expected, most, declared } = *cost;
        let certain = if declared { expected.tokens } else { prompt.tokens };
        let tokens = state.allowance.reserve(certain, expected.tokens, now);
        let tokens = tokens.map_err(|exceeded| self.limit_exceeded(&exceeded))?;
        let mut grants = Vec::with_capacity(budgets.len());
        for (owner, account) in budgets {
            let grant = account.reserve(prompt, most, unix);
            grants.push(grant.map_err(|exceeded| self.budget_exceeded(owner, &exceeded, unix))?);
        }
        // On a refusal, `tokens` and `grants` are dropped and thereby released.
        if let Some(shared) = &self.shared {
            let amounts: Vec<_> = grants.iter().map(SpendReservation::amount).collect();
            let tokens = (certain, expected.tokens);
            let reserved = shared.reserve(tokens, (budgets, prompt, &amounts), (now, unix)).await;
            reserved.map_err(|exceeded| match exceeded {
                SharedLimitExceeded::Key(exceeded) => self.limit_exceeded(&exceeded),
                SharedLimitExceeded::Budget(owner, exceeded) => self.budget_exceeded(&owner, &exceeded, unix),
            })?;
        }
        let mut held = self.held.lock();
        (held.tokens, held.grants, held.prompt) = (Some(tokens), grants, prompt);
        Ok(())
    }

    /// Releases the reservation of a request that no engine worked for.
    pub fn release(&self) {
        let Held { stay: _stay, .. } = std::mem::take(&mut *self.held.lock());
        if let Some(shared) = &self.shared {
            shared.settle(None, &self.caller.budgets, wall_clock::seconds());
        }
    }

    /// Settles the reservation with the actual usage of a finished request.
    pub fn settle(&self, entry: &JournalEntry, demand: Option<&Demand>) {
        self.learn(entry, demand);
        let Held { stay: _stay, tokens, grants, prompt } = std::mem::take(&mut *self.held.lock());
        let mut spent = entry.spent();
        // A client that left during prefill has used the prompt; otherwise leaving early would make prompts free.
        let left_early = entry.outcome == Outcome::ClientGone.label() && entry.stage == Stage::Prefill;
        if left_early && spent.tokens == 0 && !entry.attempts.is_empty() {
            spent = prompt;
        }
        let used = tokens.map(|tokens| {
            tokens.settle(spent.tokens);
            spent.tokens
        });
        let unix = wall_clock::seconds();
        for grant in grants {
            grant.settle(spent, unix);
        }
        if let Some(shared) = &self.shared {
            shared.settle(used, &self.caller.budgets, unix);
        }
    }

    /// Updates the forecast of the caller's answer lengths.
    fn learn(&self, entry: &JournalEntry, demand: Option<&Demand>) {
        let complete = entry.outcome == Outcome::Complete.label();
        let usage = entry.usage.or_else(|| entry.attempts.iter().filter_map(|attempt| attempt.uncounted).next_back());
        let Some((tokens, is_cut)) = usage.and_then(|usage| demand?.answer_length(&usage)) else { return };
        let outputs = &self.caller.state.outputs;
        if complete && !is_cut {
            outputs.observe(tokens);
        } else if tokens > 0 {
            outputs.observe_cut(tokens);
        }
    }

    /// Writes the rate-limit headers of the caller.
    pub fn write_headers(&self, headers: &mut HeaderMap, now: Moment) {
        let here = self.caller.state.allowance.standing(now);
        limit_headers::insert(headers, &self.shared.as_ref().map_or(here, |shared| shared.standing(here, now)));
    }

    fn budget_exceeded(&self, owner: &BudgetOwner, exceeded: &BudgetExceeded, unix: i64) -> Fault {
        let Caller { id, state, .. } = &*self.caller;
        state.count_refusal(None);
        over_budget(id, owner, exceeded, unix)
    }

    fn limit_exceeded(&self, exceeded: &Exceeded) -> Fault {
        self.caller.state.count_refusal(Some(exceeded.kind));
        rate_limited(&self.caller.id, exceeded)
    }
}
