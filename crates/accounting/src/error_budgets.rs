//! Error budgets of pools and routes. Each finished request is counted once.
//!
//! Rules:
//!
//! * For availability, a complete answer is good and a failure is bad, whether the engine or the gateway failed or the gateway refused the
//!   request (bound, queue, `limits.in_flight`). Requests that end by the client do not count: the client left, asked for something invalid,
//!   exceeded its key's limits or its team's budget, or did not read a shared answer.
//! * Latencies count where they were measured, also for clients that left. A client that leaves a stream after the deadline of the first token
//!   counts as a missed deadline; otherwise an engine that hangs would look healthy as long as its clients give up.
//! * A kept or shared answer counts for its route, with the latency that its client saw. It does not count for a pool, since no engine worked.
//! * A pool accounts for the requests that it answered, and for those that it failed, even if another pool answered them.
//! * Background requests of the gateway do not count.
//!
//! The objectives in force when a request ends apply. A budget outlives a change of the policy if its objective, including the limit, stays the
//! same. Budgets are lost with the process.

use std::sync::Arc;

use arc_swap::ArcSwap;
use indexmap::IndexMap;

use signalbox_journal::JournalEntry;
use signalbox_measure::{BudgetState, BurnRules, ErrorBudget, Rate, RateSpan};
use signalbox_policy::{Judged, Objective, Objectives, Policy, RequestEnd, RequestResult};
use signalbox_telemetry::SloLive;
use signalbox_types::{Blame, Moment, Name, Outcome};

/// Faults of the gateway that the caller causes: limits of a key, a team's budget, a shared answer that was not read.
const CAUSED_BY_CALLER: [&str; 3] = ["rate_limited", "over_budget", "too_slow"];

/// The error budgets of all pools and routes.
#[derive(Debug, Default)]
pub struct ErrorBudgets(ArcSwap<Tracked>);

#[derive(Debug, Default)]
struct Tracked {
    pools: IndexMap<Name, Arc<Tracker>>,
    routes: IndexMap<Name, Arc<Tracker>>,
}

/// The budgets of a pool or a route.
#[derive(Debug)]
struct Tracker {
    budgets: Vec<(Objective, Arc<ErrorBudget>)>,
    recent: Arc<Recent>,
}

/// Recently finished requests, and those of them that met all objectives.
#[derive(Debug)]
struct Recent {
    finished: Rate,
    met: Rate,
}

// === impl ErrorBudgets ===

impl ErrorBudgets {
    /// Applies the objectives of another policy.
    pub(super) fn apply_policy(&self, policy: &Policy, now: Moment) {
        let old = self.0.load();
        let pools = policy.pools.iter().map(|pool| (&pool.name, &pool.objectives));
        let routes = policy.models.rules().flat_map(|rule| rule.way.routes());
        let routes = routes.map(|route| (&route.name, &route.objectives));
        self.0.store(Arc::new(Tracked {
            pools: carry_over(&old.pools, pools, &policy.error_budgets, now),
            routes: carry_over(&old.routes, routes, &policy.error_budgets, now),
        }));
    }

    /// Counts a finished request.
    pub(super) fn settle(&self, entry: &JournalEntry, outcome: Outcome, now: Moment) {
        let Some(end) = end(entry, outcome) else { return };
        let tracked = self.0.load();
        let result = result(entry, end);
        if let Some(route) = entry.route.as_ref().and_then(|name| tracked.routes.get(name)) {
            route.record(&result, now);
        }
        let count = |pool: &Name, result: &RequestResult| {
            if let Some(pool) = tracked.pools.get(pool) {
                pool.record(result, now);
            }
        };
        let responsible = responsible_pool(entry, end);
        if let Some(pool) = responsible {
            count(pool, &result);
        }
        for pool in failed_pools(entry).filter(|pool| Some(*pool) != responsible) {
            let none = RequestResult { end: RequestEnd::Failed, ttft_ms: None, tpot_ms: None, gaps: None, ..result };
            count(pool, &none);
        }
    }

    /// True if a complete answer of this pool met all objectives of the pool and of its route; true where they have none.
    pub(super) fn met_objectives(&self, entry: &JournalEntry, pool: &str) -> bool {
        let (tracked, result) = (self.0.load(), result(entry, RequestEnd::Complete));
        let route = entry.route.as_ref().and_then(|name| tracked.routes.get(name));
        let all = tracked.pools.get(pool).into_iter().chain(route).flat_map(|tracker| &tracker.budgets);
        all.map(|(objective, _)| objective.is_met(&result)).all(|met| met != Some(false))
    }

    /// Share of a pool's requests over the last minute that met its objectives; 1 where there was none.
    pub fn attainment(&self, pool: &str, now: Moment) -> f64 {
        self.0.load().pools.get(pool).map_or(1.0, |pool| pool.recent.attainment(now))
    }

    /// Highest burn rate of a pool's objectives over the last five minutes; 0 where it has none.
    pub fn pool_burn(&self, pool: &str, now: Moment) -> f64 {
        self.0.load().pools.get(pool).map_or(0.0, |pool| pool.burn(now))
    }

    /// Worst state of a pool's objectives; `Ok` where it has none.
    pub fn pool_state(&self, pool: &str, now: Moment) -> BudgetState {
        self.0.load().pools.get(pool).map_or(BudgetState::Ok, |pool| pool.state(now))
    }

    /// Highest burn rate of a route's objectives, like that of a pool.
    pub fn route_burn(&self, route: &str, now: Moment) -> f64 {
        self.0.load().routes.get(route).map_or(0.0, |route| route.burn(now))
    }

    /// Worst state of a route's objectives, like that of a pool.
    pub fn route_state(&self, route: &str, now: Moment) -> BudgetState {
        self.0.load().routes.get(route).map_or(BudgetState::Ok, |route| route.state(now))
    }

    /// Status of the objectives of each pool.
    pub fn pools(&self, now: Moment) -> Vec<(Name, Vec<SloLive>)> {
        standings(&self.0.load().pools, now)
    }

    /// Status of the objectives of each route.
    pub fn routes(&self, now: Moment) -> Vec<(Name, Vec<SloLive>)> {
        standings(&self.0.load().routes, now)
    }
}

/// Builds trackers for `all`, with the budgets of the `old` ones whose objectives and `rules` stay the same.
fn carry_over<'a>(
    old: &IndexMap<Name, Arc<Tracker>>,
    all: impl Iterator<Item = (&'a Name, &'a Objectives)>,
    rules: &BurnRules,
    now: Moment,
) -> IndexMap<Name, Arc<Tracker>> {
    let mut new = IndexMap::new();
    for (name, objectives) in all {
        // Routes of several tiers have one name, and aliases share their routes.
        new.entry(name.clone())
            .or_insert_with(|| Arc::new(Tracker::new(old.get(name).map(|old| &**old), objectives, rules, now)));
    }
    new
}

fn standings(trackers: &IndexMap<Name, Arc<Tracker>>, now: Moment) -> Vec<(Name, Vec<SloLive>)> {
    let standing = |(objective, budget): &(Objective, Arc<ErrorBudget>)| {
        SloLive::new(objective.name.clone(), objective.target, budget.standing(now))
    };
    trackers.iter().map(|(name, tracker)| (name.clone(), tracker.budgets.iter().map(standing).collect())).collect()
}

/// The result of a request, as objectives need it.
fn result(entry: &JournalEntry, end: RequestEnd) -> RequestResult {
    let reported = entry.usage.map(|usage| usage.prompt_tokens).filter(|tokens| *tokens > 0);
    RequestResult {
        prompt_tokens: reported.unwrap_or(entry.estimated_prompt_tokens),
        streamed: entry.stream,
        end,
        e2e_ms: entry.e2e_ms,
        ttft_ms: entry.ttft_ms,
        tpot_ms: entry.tpot_ms,
        gaps: entry.gaps,
    }
}

/// The end of a request; `None` where it does not count.
fn end(entry: &JournalEntry, outcome: Outcome) -> Option<RequestEnd> {
    match outcome {
        Outcome::Complete => Some(RequestEnd::Complete),
        Outcome::ClientGone => Some(RequestEnd::Left),
        Outcome::Failed(kind) if entry.blame != Some(Blame::Client) && !CAUSED_BY_CALLER.contains(&kind) => {
            Some(RequestEnd::Failed)
        }
        _ => None,
    }
}

/// The pool that accounts for the request: the one that answered, else the last one tried, else the one that refused admission. None for kept
/// answers and for requests that ended before any pool was chosen.
fn responsible_pool(entry: &JournalEntry, end: RequestEnd) -> Option<&Name> {
    let answered = entry.answered.and_then(|at| entry.attempts.get(at));
    let last = || entry.attempts.last().filter(|_| end != RequestEnd::Complete);
    let refused = || entry.admission.as_ref().filter(|_| end != RequestEnd::Complete).map(|admission| &admission.pool);
    answered.or_else(last).map(|attempt| &attempt.pool).or_else(refused)
}

/// Pools whose engines failed, each once.
fn failed_pools(entry: &JournalEntry) -> impl Iterator<Item = &Name> {
    let attempts = entry.attempts.iter().enumerate().filter(|(_, attempt)| attempt.failed);
    let repeated =
        |at: usize, pool: &Name| entry.attempts[..at].iter().any(|before| before.failed && before.pool == *pool);
    attempts.filter(move |(at, attempt)| !repeated(*at, &attempt.pool)).map(|(_, attempt)| &attempt.pool)
}

// === impl Tracker ===

impl Tracker {
    fn new(old: Option<&Self>, objectives: &Objectives, rules: &BurnRules, now: Moment) -> Self {
        let known = |objective: &Objective| {
            let (_, budget) = old?.budgets.iter().find(|(known, _)| known == objective)?;
            Some(budget.clone()).filter(|budget| budget.rules() == rules)
        };
        let budget = |objective: &Objective| {
            let budget = known(objective).unwrap_or_else(|| Arc::new(ErrorBudget::new(objective.target, *rules, now)));
            (objective.clone(), budget)
        };
        let recent = old.map(|old| old.recent.clone());
        let none = || Arc::new(Recent { finished: Rate::new(), met: Rate::new() });
        Self { budgets: objectives.iter().map(budget).collect(), recent: recent.unwrap_or_else(none) }
    }

    fn record(&self, result: &RequestResult, now: Moment) {
        let mut met_all = result.end == RequestEnd::Complete;
        for (objective, budget) in &self.budgets {
            if let Some(Judged { bad, total }) = objective.judge(result) {
                budget.record(bad, total, now);
                met_all &= objective.is_met(result) != Some(false);
            }
        }
        if result.end != RequestEnd::Left {
            self.recent.finished.record(1, now);
            self.recent.met.record(u64::from(met_all), now);
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
        let finished = rate(&self.finished);
        if finished > 0.0 { (rate(&self.met) / finished).min(1.0) } else { 1.0 }
    }
}
