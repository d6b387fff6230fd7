//! How much work it is: tokens of the prompt, by the bytes per token that answers have reported so far; and the hashes of its
//! blocks, by which prefixes are known again.

use std::sync::Arc;

use http::HeaderMap;

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

pub(super) struct Estimation<S> {
    inner: S,
    desk: Arc<Desk>,
}

/// What a request will take, as far as its bytes tell.
pub(super) struct Estimate {
    /// About how many tokens the prompt has, by its length alone.
    pub(super) tokens: u64,
    /// Its blocks, hashed.
    pub(super) blocks: Blocks,
    /// The conversation it belongs to, where its client names one.
    pub(super) session: Option<u64>,
}

impl<S> Estimation<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk }
    }
}

impl<S: Step<Estimated>> Step<Call> for Estimation<S> {
    async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let estimate = Estimate::of(&self.desk, &call.headers, &call.body);
        call.record.note(|line| line.estimated_prompt_tokens = estimate.tokens);
        self.inner.call(Estimated { call, estimate }).await
    }
}

impl Estimate {
    pub(super) fn of(desk: &Desk, headers: &HeaderMap, body: &RequestBody) -> Self {
        let mut hasher = BlockHasher::new(&desk.salt.to_le_bytes());
        body.rendered().for_each(|part| hasher.push(part));
        let tokens = desk.bytes_per_token.prompt_tokens(body.prompt_bytes as u64);
        Self { tokens, blocks: hasher.finish(), session: session(headers, desk.salt) }
    }
}
