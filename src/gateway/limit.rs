//! Do its caller's limits leave room for it? The tokens of its prompt and of the answer to expect are reserved of what its key may use, and
//! the most that it may cost of its team's budget. Both are settled by the usage when the request is over. An answer that is given again
//! costs nothing, and does not come here.

use std::sync::Arc;

use super::{
    Reply, Step,
    estimator::Estimator,
    stages::{Covered, Missed, Routed},
};
use crate::{
    accounting::{CostBounds, Demand, DemandInput, most_expensive},
    policy::Target,
    quota::Spent,
    schedule::predict::OutputLengths,
    types::{Clock, Fault},
};

pub(super) struct Limit<S> {
    inner: S,
    clock: Clock,
    estimator: Arc<Estimator>,
}

impl<S> Limit<S> {
    pub(super) fn new(inner: S, clock: Clock, estimator: Arc<Estimator>) -> Self {
        Self { inner, clock, estimator }
    }
}

impl<S: Step<Covered>> Step<Missed> for Limit<S> {
    async fn call(&self, Missed(routed): Missed) -> Result<Reply, Fault> {
        let record = &routed.call.record;
        let demand = demand(&self.estimator, &routed);
        if let Some(bill) = record.bill() {
            bill.reserve(&cost(&routed, &demand), self.clock.now()).await?;
        }
        record.demands(demand);
        self.inner.call(Covered(routed)).await
    }
}

/// What a request may take, its answer's length told by those that its caller had before. Where there is no caller, by those of its kind
/// in the pool that it goes to first: nothing is decided by it.
fn demand(estimator: &Estimator, routed: &Routed) -> Demand {
    let Routed { call, route, .. } = routed;
    let (pools, bill) = (&call.serving.snapshot.pools, call.record.bill());
    let context = |target: &Target| pools[target.pool].context(target);
    let given = DemandInput {
        prompt: estimator.bytes_per_token.prompt_tokens(call.body.prompt_bytes as u64),
        // Whichever of its pools answers: one whose context is not known may have any.
        context: route.targets.iter().map(context).try_fold(0, |most, own| Some(own?.max(most))),
        limited: bill.is_some(),
    };
    Demand::of(&call.body, call.endpoint, given, |declared| match (bill, route.targets.first()) {
        (Some(bill), _) => bill.forecast(declared),
        (None, Some(target)) => pools[target.pool].learned.outputs.of(target, &route.name).forecast(declared),
        (None, None) => OutputLengths::new().forecast(declared),
    })
}

/// What it costs: its prompt and what to expect at the prices of the pool that it goes to first, the most at those of the dearest.
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
