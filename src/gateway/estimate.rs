//! How much work it is: tokens of the prompt, by the bytes per token that answers have reported so far; and the hashes of its
//! blocks, by which prefixes are known again, and by which it is seen whether its caller's prompts begin alike.

use std::sync::Arc;

use super::{
    Desk, Reply, Step,
    stages::{Call, Estimated},
    work::Estimate,
};
use crate::{telemetry::NOBODY, types::Fault};

pub(super) struct Estimation<S> {
    inner: S,
    desk: Arc<Desk>,
}

impl<S> Estimation<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk }
    }
}

impl<S: Step<Estimated>> Step<Call> for Estimation<S> {
    async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let began = self.desk.clock.now();
        let estimate = Estimate::of(&self.desk, &call.headers, &call.body);
        call.record.note(|line| line.estimated_prompt_tokens = estimate.tokens);
        compare(&self.desk, &call, &estimate);
        call.record.took("estimate", began);
        self.inner.call(Estimated { call, estimate }).await
    }
}

/// Compares a request's prompt with those before it of its caller, where an answer is to be made of it.
pub(super) fn compare(desk: &Desk, call: &Call, estimate: &Estimate) {
    if !call.endpoint.generates() {
        return;
    }
    let caller = call.key.map(|at| call.serving.caller(at));
    let nobody = || (NOBODY, &**desk.metrics.nobody());
    let caller = caller.map_or_else(nobody, |caller| (&*caller.id, &*caller.metrics));
    desk.accounting.prefix_stability.observe(caller, &call.body, &estimate.blocks, estimate.session);
}
