//! Estimates from the bytes of a request: the tokens of its prompt, and the hashes that identify prefixes and
//! conversations.
//!
//! Tokens are counted as exactly as each question needs: bounds from the bytes, then a count by the tokenizer if there is
//! one and the bounds leave the question open.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use dashmap::DashMap;
use http::{HeaderMap, HeaderName};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use signalbox_policy::{Pool, Tokenizer};
use signalbox_prompt::{
    BlockHasher, Blocks,
    attachments::Prices,
    tokens::{self, Attachments, CountBasis, Counter, Rendered, TokenizerSlot, Weighed},
};
use signalbox_protocol::RequestBody;
use signalbox_types::{Name, Passage, Tokens};

/// Estimates the work of requests from the usage that earlier answers reported. Threads share it, and it outlives
/// policies.
pub(super) struct Estimator {
    /// Salt of the hashes of conversations, and of prompts without a group. Secret, so that no client can craft prompts
    /// whose hashes collide.
    pub(super) salt: u64,
    /// Salt of the hashes of prompts: the group's, if there is one.
    prompt_salt: AtomicU64,
    /// Token counter of each pool, with the corrections learned for the pool's templates.
    counters: DashMap<Name, (Tokenizer, Prices, Arc<Counter>)>,
}

/// Estimated work of one request.
#[derive(Clone)]
pub(super) struct Estimate {
    /// Tokens of the prompt, as its pool's counter expects them from its bytes. All questions start from it.
    pub(super) tokens: tokens::Estimate,
    /// Its attachments.
    pub(super) attachments: Attachments,
    /// Hashes of the prompt's blocks.
    pub(super) blocks: Blocks,
    /// Hash of the conversation, if the client names one.
    pub(super) session: Option<u64>,
}

impl Default for Estimator {
    fn default() -> Self {
        let salt = fastrand::u64(..);
        Self { salt, prompt_salt: AtomicU64::new(salt), counters: DashMap::new() }
    }
}

impl Estimator {
    /// Hashes prompts with the salt of a group of gateways, or without one with the gateway's own.
    pub(super) fn set_group_salt(&self, salt: Option<u64>) {
        self.prompt_salt.store(salt.unwrap_or(self.salt), Relaxed);
    }

    /// Estimates a request, by the `counter` of the pool that it goes to first.
    pub(super) fn estimate(&self, headers: &HeaderMap, body: &RequestBody, counter: &Counter) -> Estimate {
        let mut hasher = BlockHasher::new(&self.prompt_salt.load(Relaxed).to_le_bytes());
        body.rendered().for_each(|part| hasher.push(part));
        let Weighed { estimate, attachments, passages, escapes } = counter.weigh(&rendered(body));
        let blocks = hasher.finish().with_passages(places(body, passages), escapes);
        Estimate { tokens: estimate, attachments, blocks, session: session(headers, self.salt) }
    }

    /// Returns the token counter of a pool, or a new one if the pool's tokenizer changed.
    pub(super) fn counter(&self, pool: &Pool, source: impl Fn(&Tokenizer) -> Arc<TokenizerSlot>) -> Arc<Counter> {
        let tokenizer = &pool.tokenizer;
        let model = pool.backends.first().and_then(|backend| backend.model.as_deref()).unwrap_or(&pool.name);
        let prices = Prices::of_model(model);
        let new = || (tokenizer.clone(), prices, Arc::new(Counter::with_prices(source(tokenizer), prices)));
        let mut known = self.counters.entry(pool.name.clone()).or_insert_with(new);
        if (&known.0, known.1) != (tokenizer, prices) {
            *known = new();
        }
        known.2.clone()
    }
}

/// The places in the rendered prompt of passages that are given by their addresses.
fn places(body: &RequestBody, mut passages: Vec<tokens::Passage>) -> Arc<[Passage]> {
    if passages.is_empty() {
        return Arc::default();
    }
    passages.sort_unstable_by_key(|passage| passage.at.start);
    let (mut places, mut before) = (Vec::with_capacity(passages.len()), 0);
    for part in body.rendered() {
        let first = part.as_ptr() as usize;
        let from = passages.partition_point(|passage| passage.at.start < first);
        let within = passages[from..].iter().take_while(|passage| passage.at.end <= first + part.len());
        places.extend(within.map(|tokens::Passage { at, tokens }| {
            let place = |address: usize| before + (address - first) as u64;
            Passage { start: place(at.start), end: place(at.end), tokens: *tokens }
        }));
        before += part.len() as u64;
    }
    places.into()
}

/// Headers that name a conversation, the gateway's own first. Coding agents send the others by default:
///
/// * `x-claude-code-session-id`: Claude Code, with every request (<https://code.claude.com/docs/en/llm-gateway>,
///   "Request headers").
/// * `session_id`: Codex, with every request of a conversation (`build_conversation_headers` in
///   `codex-rs/codex-api/src/requests/headers.rs` of <https://github.com/openai/codex>). Earlier versions also sent the
///   same value as `conversation_id`. Other clients of that API, and proxies that drop underscores, send `session-id`
///   or `x-session-id`.
const HEADERS: [HeaderName; 6] = [
    HeaderName::from_static("x-signalbox-session"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("conversation_id"),
];

/// Hashes the conversation's name with the secret `salt`. The name itself is never stored.
pub(super) fn session(headers: &HeaderMap, salt: u64) -> Option<u64> {
    let named = HEADERS.iter().find_map(|name| headers.get(name).filter(|value| !value.is_empty()))?;
    Some(xxh3_64_with_seed(named.as_bytes(), salt))
}

/// Longest text, in bytes, that is counted on a worker. Longer ones are counted on a blocking thread.
const LONG: usize = 8 << 10;

/// True if counting the tokens of `body` may take too long for a worker.
pub(super) fn is_slow(counter: &Counter, body: &RequestBody) -> bool {
    counter.is_exact() && body.prompt_bytes > LONG
}

/// Estimate of one prompt's tokens. It is refined as questions require.
pub(super) struct Counting<'a> {
    estimate: tokens::Estimate,
    counter: &'a Arc<Counter>,
    body: &'a RequestBody,
}

impl<'a> Counting<'a> {
    /// Starts with the `counter`'s estimate of `body`.
    pub(super) const fn of(body: &'a RequestBody, estimate: tokens::Estimate, counter: &'a Arc<Counter>) -> Self {
        Self { estimate, counter, body }
    }

    /// True if there are more than `limit` tokens, by the cheapest estimate that decides. Without a tokenizer, the
    /// expected number decides in the end.
    pub(super) fn exceed(&self, limit: u64) -> bool {
        match (self.estimate.exceeds(limit), self.counter.is_exact()) {
            (Some(certain), _) => certain,
            (None, true) => self.counter.exceeds(&rendered(self.body), limit),
            (None, false) => self.estimate.expected > limit,
        }
    }

    /// True if there are certainly more than `limit` tokens, so that no engine would count fewer.
    pub(super) fn surely_exceed(&self, limit: u64) -> bool {
        self.estimate.lo > limit || self.counter.is_exact() && !self.estimate.is_doubtful() && self.exceed(limit)
    }

    /// Returns the estimate.
    pub(super) const fn tokens(&self) -> Tokens {
        Tokens { least: self.estimate.lo, expected: self.estimate.expected, most: self.estimate.hi }
    }

    /// Returns the counter and the basis of its estimate, to be corrected by the engine's own count.
    pub(super) fn known(&self) -> (Arc<Counter>, CountBasis) {
        (self.counter.clone(), self.estimate.known)
    }
}

/// The parts of `body` that the model reads.
pub(super) fn rendered(body: &RequestBody) -> Rendered<'_> {
    Rendered { input_is_message: body.input_is_message(), ..Rendered::of(body.members()) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn each_name_of_a_conversation_is_understood_and_ours_comes_first() {
        let of = |pairs: &[(&str, &'static str)]| {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value)))
                .collect();
            session(&headers, 7)
        };
        assert_eq!((of(&[]), of(&[("session_id", "")])), (None, None));
        for name in HEADERS {
            assert_eq!(of(&[(name.as_str(), "a")]), of(&[("x-signalbox-session", "a")]), "{name}");
        }
        assert_eq!(of(&[("session_id", "b"), ("x-signalbox-session", "a")]), of(&[("x-session-id", "a")]));
        assert_ne!(of(&[("session_id", "a")]), of(&[("session_id", "b")]));
    }
}
