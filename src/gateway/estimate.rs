//! How much work it is: tokens of the prompt, by the bytes per token that answers have reported so far; and the hashes of its
//! blocks, by which prefixes are known again.

use std::sync::Arc;

use super::{
    Desk, Reply, Step,
    stages::{Call, Estimated},
    work::Estimate,
};
use crate::types::Fault;

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
        call.record.took("estimate", began);
        self.inner.call(Estimated { call, estimate }).await
    }
}
