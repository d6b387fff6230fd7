//! What will it use of its caller's limits: the tokens of its prompt and of the answer to expect are reserved, and settled by the usage when
//! the request is over. An answer that is given again costs none, and does not come here.

use std::sync::Arc;

use super::{
    Desk, Reply, Step,
    stages::{Covered, Missed, Routed},
};
use crate::{
    quota::Spent,
    types::{Fault, Usage},
};

pub(super) struct Limit<S> {
    inner: S,
    desk: Arc<Desk>,
}

impl<S> Limit<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk }
    }
}

impl<S: Step<Covered>> Step<Missed> for Limit<S> {
    async fn call(&self, Missed(routed): Missed) -> Result<Reply, Fault> {
        if let Some(bill) = routed.call.record.bill() {
            let (prompt, whole) = expected(&self.desk, &routed);
            bill.reserve(prompt, whole, self.desk.clock.now()).await?;
        }
        self.inner.call(Covered(routed)).await
    }
}

/// What a request will probably take: its prompt alone, and with the answer that such requests have had, within its own limit, at the prices of
/// the pool that it goes to first.
fn expected(desk: &Desk, Routed { call, route, .. }: &Routed) -> (Spent, Spent) {
    let mut usage =
        Usage { prompt_tokens: desk.bytes_per_token.prompt_tokens(call.body.prompt_bytes as u64), ..Usage::default() };
    let Some(target) = route.targets.first() else { return Default::default() };
    let pool = &call.serving.snapshot.pools[target.pool];
    let spent = |usage: &Usage| Spent {
        tokens: usage.prompt_tokens + usage.completion_tokens,
        usd: pool.spec.price.map_or(0.0, |price| price.cost(usage)),
    };
    let prompt = spent(&usage);
    if call.endpoint.generates() {
        let outputs = pool.learned.outputs.of(target, &route.name);
        usage.completion_tokens = outputs.forecast(call.body.max_tokens).mean.ceil() as u64;
    }
    (prompt, spent(&usage))
}
