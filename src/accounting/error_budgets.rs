//! The error budgets of pools and routes: what came of each request is counted here once, when it is over.
//!
//! What counts:
//!
//! * A request that was answered in full is good for availability, one that failed is bad: by an engine's fault, by the gateway's, or by
//!   its refusal (bound, queue, `limits.in_flight`). What is its client's own doing does not count: it left, asked for what cannot be
//!   had, exceeded its key's limits or its team's budget, or did not read what it shared with others.
//! * Latencies count where they were measured, also of answers that were left; and who left a stream after the time for its first token was
//!   over had none in time, or an engine that hangs would be in order for as long as its clients give up.
//! * An answer that was given again, or shared with another request, counts for its route, by the time that its own client saw. It does not
//!   count for a pool: no engine there was asked.
//! * A pool answers for the requests that it answered, and for those that it failed though another pool made good for it.
//! * Requests of the gateway's own making do not count.
//!
//! Requests are judged by the objectives in force when they end. Budgets outlive a change of the policy where their objective stays the
//! same, limit included; they are lost with the process.

use std::sync::Arc;

use arc_swap::ArcSwap;
use indexmap::IndexMap;

use crate::{
    journal::JournalEntry,
    measure::{BudgetState, ErrorBudget, Rate, RateSpan},
    policy::{Objective, Objectives, Policy, RequestEnd, RequestResult},
    telemetry::SloLive,
    types::{Blame, Moment, Name, Outcome},
};

/// What the gateway ends though its caller is the cause: limits of a key, a team's budget, a shared answer that was not read.
const CALLERS_OWN: [&str; 3] = ["rate_limited", "over_budget", "too_slow"];

/// The error budgets of all pools and routes.
#[derive(Debug, Default)]
pub struct ErrorBudgets(ArcSwap<Watched>);

#[derive(Debug, Default)]
struct Watched {
    pools: IndexMap<Name, Arc<Watch>>,
    routes: IndexMap<Name, Arc<Watch>>,
}

/// A pool or a route.
#[derive(Debug)]
struct Watch {
    budgets: Vec<(Objective, Arc<ErrorBudget>)>,
    recent: Arc<Recent>,
}

/// Requests that ended lately, and of these the ones that kept all objectives.
#[derive(Debug)]
struct Recent {
    ended: Rate,
    kept: Rate,
}

// === impl ErrorBudgets ===

impl ErrorBudgets {
    /// Keeps to another policy.
    pub(crate) fn follow(&self, policy: &Policy, now: Moment) {
        let old = self.0.load();
        let pools = policy.pools.iter().map(|pool| (&pool.name, &pool.objectives));
        let routes = policy.models.rules().flat_map(|rule| rule.way.routes());
        let routes = routes.map(|route| (&route.name, &route.objectives));
        self.0.store(Arc::new(Watched {
            pools: follow(&old.pools, pools, now),
            routes: follow(&old.routes, routes, now),
        }));
    }

    /// Counts a request that is over.
    pub(crate) fn settle(&self, line: &JournalEntry, outcome: Outcome, now: Moment) {
        let Some(end) = end(line, outcome) else { return };
        let watched = self.0.load();
        let fared = fared(line, end);
        if let Some(route) = line.route.as_ref().and_then(|name| watched.routes.get(name)) {
            route.record(&fared, now);
        }
        let count = |pool: &Name, fared: &RequestResult| {
            if let Some(pool) = watched.pools.get(pool) {
                pool.record(fared, now);
            }
        };
        let answered = responsible(line, end);
        if let Some(pool) = answered {
            count(pool, &fared);
        }
        for pool in failing(line).filter(|pool| Some(*pool) != answered) {
            count(pool, &RequestResult { end: RequestEnd::Failed, ttft_ms: None, tpot_ms: None, ..fared });
        }
    }

    /// Whether a complete answer of this pool kept all objectives of the pool and of its route; where they have none, it did.
    pub(crate) fn in_time(&self, line: &JournalEntry, pool: &str) -> bool {
        let (watched, fared) = (self.0.load(), fared(line, RequestEnd::Complete));
        let route = line.route.as_ref().and_then(|name| watched.routes.get(name));
        let all = watched.pools.get(pool).into_iter().chain(route).flat_map(|watch| &watch.budgets);
        all.map(|(objective, _)| objective.is_met(&fared)).all(|kept| kept != Some(false))
    }

    /// The share of a pool's requests over the last minute that kept its objectives; 1 where there was none.
    pub fn attainment(&self, pool: &str, now: Moment) -> f64 {
        self.0.load().pools.get(pool).map_or(1.0, |pool| pool.recent.attainment(now))
    }

    /// The highest burn rate of a pool's objectives over the last five minutes; 0 where it has none.
    pub fn pool_burn(&self, pool: &str, now: Moment) -> f64 {
        self.0.load().pools.get(pool).map_or(0.0, |pool| pool.burn(now))
    }

    /// The worst state of a pool's objectives; `Ok` where it has none.
    pub fn pool_state(&self, pool: &str, now: Moment) -> BudgetState {
        self.0.load().pools.get(pool).map_or(BudgetState::Ok, |pool| pool.state(now))
    }

    /// The burn rate of a route, like that of a pool.
    pub fn route_burn(&self, route: &str, now: Moment) -> f64 {
        self.0.load().routes.get(route).map_or(0.0, |route| route.burn(now))
    }

    /// The state of a route, like that of a pool.
    pub fn route_state(&self, route: &str, now: Moment) -> BudgetState {
        self.0.load().routes.get(route).map_or(BudgetState::Ok, |route| route.state(now))
    }

    /// How the objectives of each pool stand, by its name.
    pub fn pools(&self, now: Moment) -> Vec<(Name, Vec<SloLive>)> {
        standings(&self.0.load().pools, now)
    }

    /// The same by route.
    pub fn routes(&self, now: Moment) -> Vec<(Name, Vec<SloLive>)> {
        standings(&self.0.load().routes, now)
    }
}

/// What is watched from now on: what was watched before goes on.
fn follow<'a>(
    old: &IndexMap<Name, Arc<Watch>>,
    all: impl Iterator<Item = (&'a Name, &'a Objectives)>,
    now: Moment,
) -> IndexMap<Name, Arc<Watch>> {
    let mut new = IndexMap::new();
    for (name, objectives) in all {
        // Routes of several tiers have one name, and aliases share their routes.
        new.entry(name.clone())
            .or_insert_with(|| Arc::new(Watch::new(old.get(name).map(|old| &**old), objectives, now)));
    }
    new
}

fn standings(watched: &IndexMap<Name, Arc<Watch>>, now: Moment) -> Vec<(Name, Vec<SloLive>)> {
    let standing = |(objective, budget): &(Objective, Arc<ErrorBudget>)| {
        SloLive::new(objective.name.clone(), objective.target, budget.standing(now))
    };
    watched.iter().map(|(name, watch)| (name.clone(), watch.budgets.iter().map(standing).collect())).collect()
}

/// What came of a request, as far as objectives ask.
fn fared(line: &JournalEntry, end: RequestEnd) -> RequestResult {
    let reported = line.usage.map(|usage| usage.prompt_tokens).filter(|tokens| *tokens > 0);
    RequestResult {
        prompt_tokens: reported.unwrap_or(line.estimated_prompt_tokens),
        streamed: line.stream,
        end,
        e2e_ms: line.e2e_ms,
        ttft_ms: line.ttft_ms,
        tpot_ms: line.tpot_ms,
    }
}

/// How a request ended; `None` where that does not count.
fn end(line: &JournalEntry, outcome: Outcome) -> Option<RequestEnd> {
    match outcome {
        Outcome::Complete => Some(RequestEnd::Complete),
        Outcome::ClientGone => Some(RequestEnd::Left),
        Outcome::Failed(kind) if line.blame != Some(Blame::Client) && !CALLERS_OWN.contains(&kind) => {
            Some(RequestEnd::Failed)
        }
        _ => None,
    }
}

/// The pool that answers for what its request's client saw: the one that answered, or, of a request that ended before there was an
/// answer, the one that it was at last. None where no engine was to be asked.
fn responsible(line: &JournalEntry, end: RequestEnd) -> Option<&Name> {
    let answered = line.answered.and_then(|at| line.attempts.get(at));
    let at_last = || line.attempts.last().filter(|_| end != RequestEnd::Complete);
    let refused = || line.admission.as_ref().filter(|_| end != RequestEnd::Complete).map(|admission| &admission.pool);
    answered.or_else(at_last).map(|attempt| &attempt.pool).or_else(refused)
}

/// The pools whose engines failed, each once.
fn failing(line: &JournalEntry) -> impl Iterator<Item = &Name> {
    let attempts = line.attempts.iter().enumerate().filter(|(_, attempt)| attempt.failed);
    let again = |at: usize, pool: &Name| line.attempts[..at].iter().any(|before| before.failed && before.pool == *pool);
    attempts.filter(move |(at, attempt)| !again(*at, &attempt.pool)).map(|(_, attempt)| &attempt.pool)
}

// === impl Watch ===

impl Watch {
    fn new(old: Option<&Self>, objectives: &Objectives, now: Moment) -> Self {
        let known = |objective: &Objective| {
            let (_, budget) = old?.budgets.iter().find(|(known, _)| known == objective)?;
            Some(budget.clone())
        };
        let budget = |objective: &Objective| {
            let budget = known(objective).unwrap_or_else(|| Arc::new(ErrorBudget::new(objective.target, now)));
            (objective.clone(), budget)
        };
        let recent = old.map(|old| old.recent.clone());
        let none = || Arc::new(Recent { ended: Rate::new(), kept: Rate::new() });
        Self { budgets: objectives.iter().map(budget).collect(), recent: recent.unwrap_or_else(none) }
    }

    fn record(&self, fared: &RequestResult, now: Moment) {
        let mut all = fared.end == RequestEnd::Complete;
        for (objective, budget) in &self.budgets {
            if let Some(kept) = objective.is_met(fared) {
                budget.record(kept, now);
                all &= kept;
            }
        }
        if fared.end != RequestEnd::Left {
            self.recent.ended.record(1, now);
            self.recent.kept.record(u64::from(all), now);
        }
    }

    fn burn(&self, now: Moment) -> f64 {
        self.budgets.iter().map(|(_, budget)| budget.recent_burn_rate(now)).fold(0.0, f64::max)
    }

    fn state(&self, now: Moment) -> BudgetState {
        self.budgets.iter().map(|(_, budget)| budget.state(now)).max().unwrap_or(BudgetState::Ok)
    }
}

impl Recent {
    fn attainment(&self, now: Moment) -> f64 {
        let rate = |of: &Rate| of.per_second(RateSpan::Minute, now);
        let ended = rate(&self.ended);
        if ended > 0.0 { (rate(&self.kept) / ended).min(1.0) } else { 1.0 }
    }
}
