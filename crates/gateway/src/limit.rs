//! Limits of the caller: reserves the tokens of the prompt and of the expected answer from the key's quota, and the
//! request's maximum cost from the team's budget. When the request ends, its usage settles both. Requests answered by
//! reuse cost nothing and skip this step.

use super::{
    Reply, Step,
    stages::{Covered, Missed, Routed},
};
use signalbox_accounting::{CostBounds, Demand, DemandInput, most_expensive};
use signalbox_policy::Target;
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
    async fn call(&self, Missed(routed): Missed) -> Result<Reply, Fault> {
        let record = &routed.call.record;
        let demand = demand(&routed);
        if let Some(reservation) = record.caller_reservation() {
            reservation.reserve(&cost(&routed, &demand), self.clock.now()).await?;
        }
        record.demands(demand);
        self.inner.boxed(Covered(routed)).await
    }
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
