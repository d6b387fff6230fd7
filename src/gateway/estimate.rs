//! How much work it is: tokens of the prompt, by the bytes per token that answers have reported so far; and the hashes of its
//! blocks, by which prefixes are known again.

use std::sync::Arc;

use super::{
    Desk, Reply, Step,
    session::session,
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
    salt: u64,
}

impl<S> Estimate<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk, salt: fastrand::u64(..) }
    }
}

impl<S: Step<Estimated>> Step<Call> for Estimate<S> {
    async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let prompt_tokens = self.desk.bytes_per_token.prompt_tokens(call.body.prompt_bytes as u64);
        let blocks = self.blocks(&call.body);
        let session = session(&call.headers, self.salt);
        self.inner.call(Estimated { call, prompt_tokens, blocks, session }).await
    }
}

impl<S> Estimate<S> {
    fn blocks(&self, body: &RequestBody) -> Blocks {
        let mut hasher = BlockHasher::new(&self.salt.to_le_bytes());
        body.rendered().for_each(|part| hasher.push(part));
        hasher.finish()
    }
}
