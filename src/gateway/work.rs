//! How much work a request is, as far as its bytes tell: the length of its prompt, and the hashes by which prefixes are known again.

use http::HeaderMap;

use super::{Desk, session::session};
use crate::{
    prompt::{BlockHasher, Blocks},
    protocol::RequestBody,
};

/// What a request will take, as far as its bytes tell.
#[derive(Clone)]
pub(super) struct Estimate {
    /// About how many tokens the prompt has, by its length alone.
    pub(super) tokens: u64,
    /// Its blocks, hashed.
    pub(super) blocks: Blocks,
    /// The conversation it belongs to, where its client names one.
    pub(super) session: Option<u64>,
}

impl Estimate {
    pub(super) fn of(desk: &Desk, headers: &HeaderMap, body: &RequestBody) -> Self {
        let mut hasher = BlockHasher::new(&desk.salt.to_le_bytes());
        body.rendered().for_each(|part| hasher.push(part));
        let tokens = desk.bytes_per_token.prompt_tokens(body.prompt_bytes as u64);
        Self { tokens, blocks: hasher.finish(), session: session(headers, desk.salt) }
    }
}
