//! What will it use of its caller's limits: the tokens of its prompt and of the answer to expect are reserved, and settled by the usage when
//! the request is over. An answer that is given again costs none, and does not come here.

use std::sync::Arc;

use super::{
    Desk, Reply, Step,
    stages::{Covered, Missed, Routed},
};
use crate::types::Fault;

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
            bill.reserve(tokens(&self.desk, &routed), self.desk.clock.now())?;
        }
        self.inner.call(Covered(routed)).await
    }
}

/// The tokens that a request will probably take: those of its prompt, and of the answer that such requests have had, within its own limit.
fn tokens(desk: &Desk, Routed { call, route, .. }: &Routed) -> u64 {
    let prompt = desk.bytes_per_token.prompt_tokens(call.body.prompt_bytes as u64);
    let Some(target) = route.targets.first().filter(|_| call.endpoint.generates()) else { return prompt };
    let outputs = call.serving.snapshot.pools[target.pool].learned.outputs.of(target, &route.name);
    prompt + outputs.forecast(call.body.max_tokens).mean.ceil() as u64
}
