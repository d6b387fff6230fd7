//! How much work it is: tokens of the prompt, by the bytes per token that answers have reported so far; and the hashes of its
//! blocks, by which prefixes are known again.

use std::sync::Arc;

use super::{
    Desk, Reply, Step,
    stages::{Call, Estimated},
};
use crate::{
    prompt::{BlockHasher, Blocks},
    protocol::RequestBody,
    types::Fault,
};

pub(super) struct Estimate<S> {
    inner: S,
    desk: Arc<Desk>,
    /// Known to nobody, so that nobody can make prompts whose hashes collide.
    salt: [u8; 8],
}

impl<S> Estimate<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk, salt: fastrand::u64(..).to_le_bytes() }
    }
}

impl<S: Step<Estimated>> Step<Call> for Estimate<S> {
    async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let prompt_tokens = self.desk.bytes_per_token.tokens(call.body.prompt_bytes as u64);
        let blocks = self.blocks(&call.body);
        self.inner.call(Estimated { call, prompt_tokens, blocks }).await
    }
}

impl<S> Estimate<S> {
    fn blocks(&self, body: &RequestBody) -> Blocks {
        let mut hasher = BlockHasher::new(&self.salt);
        body.rendered().for_each(|part| hasher.push(part));
        hasher.finish()
    }
}
