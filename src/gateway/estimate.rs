//! How much work it is: tokens of the prompt, by the bytes per token that answers have reported so far.

use std::sync::Arc;

use super::{
    Desk, Reply, Step,
    stages::{Call, Estimated},
};
use crate::types::Fault;

pub(super) struct Estimate<S> {
    inner: S,
    desk: Arc<Desk>,
}

impl<S> Estimate<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk }
    }
}

impl<S: Step<Estimated>> Step<Call> for Estimate<S> {
    async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let prompt_tokens = self.desk.bytes_per_token.tokens(call.body.prompt_bytes as u64);
        self.inner.call(Estimated { call, prompt_tokens }).await
    }
}
