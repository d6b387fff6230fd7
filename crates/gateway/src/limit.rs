//! Limits of the caller: reserves the tokens of the prompt and of the expected answer from the key's quota, and the
//! request's maximum cost from the team's budget. When the request ends, its usage settles both. Requests answered by
//! reuse cost nothing and skip this step.

use std::sync::Arc;

use super::{
    Reply, Step,
    stages::{Covered, Missed, Routed},
};
use signalbox_accounting::{CostBounds, Demand, DemandInput, OVER_BUDGET, most_expensive};
use signalbox_journal::Explained;
use signalbox_policy::{Route, Target};
use signalbox_quota::Spent;
use signalbox_schedule::predict::OutputLengths;
use signalbox_types::{Clock, Fault};

pub(super) struct Limit<S> {
    inner: S,
    clock: Clock,
}

impl<S> Limit<S> {
    pub(super) fn new(inner: S, clock: Clock) -> Self {
        Self { inner, clock }
    }
}

impl<S: Step<Covered>> Step<Missed> for Limit<S> {
    async fn call(&self, Missed(mut routed): Missed) -> Result<Reply, Fault> {
        let mut bounds = demand(&routed);
        let record = routed.call.record.clone();
        if let Some(reservation) = record.caller_reservation() {
            let reserved = reservation.reserve(&cost(&routed, &bounds), self.clock.now()).await;
            if let Err(fault) = reserved {
                routed = free_of_charge(routed, &fault).ok_or(fault)?;
                bounds = demand(&routed);
                reservation.reserve(&cost(&routed, &bounds), self.clock.now()).await?;
            }
        }
        record.demands(bounds);
        self.inner.boxed(Covered(routed)).await
    }
}

/// The request with the pools of its route that cost nothing, where `fault` says that its caller's budget does not suffice. `None` if
/// there are none, or none was left out.
fn free_of_charge(routed: Routed, fault: &Fault) -> Option<Routed> {
    let pools = &routed.call.serving.snapshot.pools;
    let is_free = |target: &Target| pools[target.pool].spec.price.is_none_or(|price| price.is_free());
    let (kept, dropped): (Vec<_>, Vec<_>) = routed.route.targets.iter().cloned().partition(is_free);
    let cascade = routed.route.cascade.clone().filter(|cascade| is_free(&cascade.to));
    let changes = !dropped.is_empty() || cascade.is_some() != routed.route.cascade.is_some();
    if fault.kind != OVER_BUDGET || kept.is_empty() || !changes {
        return None;
    }
    let lost = routed.route.cascade.iter().filter(|_| cascade.is_none()).map(|cascade| cascade.to.pool);
    let mut over_budget: Vec<_> = dropped.iter().map(|target| target.pool).chain(lost).collect();
    over_budget.sort_unstable();
    over_budget.dedup();
    let over_budget = over_budget.into_iter().map(|pool| pools[pool].spec.name.clone()).collect();
    let explained = Arc::new(Explained { over_budget, ..Explained::clone(&routed.explained) });
    let route = Arc::new(Route { targets: kept, cascade, ..Route::clone(&routed.route) });
    routed.call.record.progress().explained(explained.clone());
    Some(Routed { route, explained, ..routed })
}

/// Estimates the most that a request may use. The length of the answer is forecast from earlier answers to the caller.
/// Without a caller, answers of the same kind in the first pool are used, and nothing is decided by the forecast.
fn demand(routed: &Routed) -> Demand {
    let Routed { call, prompt_tokens, route, .. } = routed;
    let (pools, reservation) = (&call.serving.snapshot.pools, call.record.caller_reservation());
    let context = |target: &Target| pools[target.pool].context(target);
    let given = DemandInput {
        prompt: *prompt_tokens,
        // Any of its pools may answer, so the longest context counts. It is unknown if that of any pool is.
        context: route.targets.iter().map(context).try_fold(0, |most, own| Some(own?.max(most))),
        limited: reservation.is_some(),
    };
    Demand::of(&call.body, call.endpoint, given, |declared| match (reservation, route.targets.first()) {
        (Some(reservation), _) => reservation.forecast(declared),
        (None, Some(target)) => pools[target.pool].learned.outputs.of(target, &route.name).forecast(declared),
        (None, None) => OutputLengths::new().forecast(declared),
    })
}

/// Returns the cost: the prompt and the expected answer at the prices of the first pool, and the maximum at those of
/// the most expensive pool, including the one that the cascade escalates to.
fn cost(Routed { call, route, .. }: &Routed, demand: &Demand) -> CostBounds {
    let pools = &call.serving.snapshot.pools;
    let first = route.targets.first().and_then(|target| pools[target.pool].spec.price);
    let escalation = route.cascade.iter().map(|cascade| cascade.to.pool);
    let all = route.targets.iter().map(|target| target.pool).chain(escalation).map(|pool| &pools[pool].spec);
    CostBounds {
        prompt: Spent::of(&demand.prompt(), first.as_ref()),
        expected: Spent::of(&demand.expected(), first.as_ref()),
        most: most_expensive(&demand.most(), all),
        declared: demand.is_declared(),
    }
}
