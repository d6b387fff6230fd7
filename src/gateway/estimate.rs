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
    types::{Fault, Tokens},
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
        let tokens = self.tokens(&call.body);
        call.record.note(|line| line.estimated_prompt_tokens = tokens.expected);
        let blocks = self.blocks(&call.body);
        let session = session(&call.headers, self.salt);
        self.inner.call(Estimated { call, tokens, blocks, session }).await
    }
}

impl<S> Estimate<S> {
    fn tokens(&self, body: &RequestBody) -> Tokens {
        let expected = self.desk.bytes_per_token.tokens(body.prompt_bytes as u64);
        Tokens { least: expected * 2 / 3, expected, most: expected * 3 / 2 }
    }

    fn blocks(&self, body: &RequestBody) -> Blocks {
        let mut hasher = BlockHasher::new(&self.salt.to_le_bytes());
        body.rendered().for_each(|part| hasher.push(part));
        hasher.finish()
    }
}
