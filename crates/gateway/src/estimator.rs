//! Estimates from the bytes of a request: the length of its prompt, and the hashes that identify prefixes and
//! conversations.
//!
//! Tokens are counted as exactly as each question needs: first an estimate by length, then bounds from the bytes, then a
//! count by the tokenizer if there is one and the bounds leave the question open.

use std::{
    cell::OnceCell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use dashmap::DashMap;
use http::{HeaderMap, HeaderName};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use signalbox_measure::BytesPerToken;
use signalbox_policy::Tokenizer;
use signalbox_prompt::{
    BlockHasher, Blocks,
    tokens::{self, CountBasis, Counter, Rendered, TokenizerSlot},
};
use signalbox_protocol::RequestBody;
use signalbox_types::{Name, Tokens};

/// Estimates the work of requests from the usage that earlier answers reported. Threads share it, and it outlives
/// policies.
pub(super) struct Estimator {
    /// Salt of the hashes of conversations, and of prompts without a group. Secret, so that no client can craft prompts
    /// whose hashes collide.
    pub(super) salt: u64,
    /// Salt of the hashes of prompts: the group's, if there is one.
    prompt_salt: AtomicU64,
    /// Bytes per token over all answers.
    pub(super) bytes_per_token: BytesPerToken,
    /// Token counter of each pool, with the corrections learned for the pool's templates.
    counters: DashMap<Name, (Tokenizer, Arc<Counter>)>,
}

/// Estimated work of one request.
#[derive(Clone)]
pub(super) struct Estimate {
    /// Tokens of the prompt, by its length alone.
    pub(super) tokens: u64,
    /// Hashes of the prompt's blocks.
    pub(super) blocks: Blocks,
    /// Hash of the conversation, if the client names one.
    pub(super) session: Option<u64>,
}

impl Default for Estimator {
    fn default() -> Self {
        let salt = fastrand::u64(..);
        let (prompt_salt, bytes_per_token) = (AtomicU64::new(salt), BytesPerToken::new());
        Self { salt, prompt_salt, bytes_per_token, counters: DashMap::new() }
    }
}

impl Estimator {
    /// Hashes prompts with the salt of a group of gateways, or without one with the gateway's own.
    pub(super) fn set_group_salt(&self, salt: Option<u64>) {
        self.prompt_salt.store(salt.unwrap_or(self.salt), Relaxed);
    }

    pub(super) fn estimate(&self, headers: &HeaderMap, body: &RequestBody) -> Estimate {
        let mut hasher = BlockHasher::new(&self.prompt_salt.load(Relaxed).to_le_bytes());
        body.rendered().for_each(|part| hasher.push(part));
        let tokens = self.bytes_per_token.prompt_tokens(body.prompt_bytes as u64);
        Estimate { tokens, blocks: hasher.finish(), session: session(headers, self.salt) }
    }

    /// Returns the token counter of a pool, or a new one if the pool's tokenizer changed.
    pub(super) fn counter(
        &self,
        pool: &Name,
        tokenizer: &Tokenizer,
        source: impl Fn(&Tokenizer) -> Arc<TokenizerSlot>,
    ) -> Arc<Counter> {
        let new = || (tokenizer.clone(), Arc::new(Counter::new(source(tokenizer))));
        let mut known = self.counters.entry(pool.clone()).or_insert_with(new);
        if known.0 != *tokenizer {
            *known = new();
        }
        known.1.clone()
    }
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
    /// Estimate by length alone.
    rough: Tokens,
    counter: &'a Arc<Counter>,
    body: &'a RequestBody,
    bounds: OnceCell<tokens::Estimate>,
}

impl<'a> Counting<'a> {
    /// Starts with about `expected` tokens for `body`, by its length.
    pub(super) fn of(body: &'a RequestBody, expected: u64, counter: &'a Arc<Counter>) -> Self {
        let rough = Tokens { least: expected / 2, expected, most: expected.saturating_mul(2) };
        Self { rough, counter, body, bounds: OnceCell::new() }
    }

    /// True if there are more than `limit` tokens, by the cheapest estimate that decides. Without a tokenizer, the
    /// expected number decides in the end.
    pub(super) fn exceed(&self, limit: u64) -> bool {
        if let Some(known) = self.rough.exceed(limit) {
            return known;
        }
        let bounds = self.bounds();
        match (bounds.exceeds(limit), self.counter.is_exact()) {
            (Some(certain), _) => certain,
            (None, true) => self.counter.exceeds(&self.rendered(), limit),
            (None, false) => bounds.expected > limit,
        }
    }

    /// True if there are certainly more than `limit` tokens, so that no engine would count fewer.
    pub(super) fn surely_exceed(&self, limit: u64) -> bool {
        // Length alone proves no excess: bytes that are not text count too.
        if self.rough.most <= limit {
            return false;
        }
        let bounds = self.bounds();
        if self.counter.is_exact() { self.exceed(limit) } else { bounds.lo > limit }
    }

    /// Returns the best estimate so far.
    pub(super) fn tokens(&self) -> Tokens {
        self.bounds.get().map_or(self.rough, |bounds| Tokens {
            least: bounds.lo,
            expected: bounds.expected,
            most: bounds.hi,
        })
    }

    /// Returns the counter and the basis of its bounds, to be corrected by the engine's own count. `None` if the bounds
    /// were never needed.
    pub(super) fn known(&self) -> Option<(Arc<Counter>, CountBasis)> {
        self.bounds.get().map(|bounds| (self.counter.clone(), bounds.known))
    }

    fn bounds(&self) -> &tokens::Estimate {
        self.bounds.get_or_init(|| self.counter.estimate(&self.rendered()))
    }

    fn rendered(&self) -> Rendered<'_> {
        rendered(self.body)
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
