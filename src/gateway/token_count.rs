//! Token count of a prompt, as exact as each question needs: first an estimate by length, then bounds from the bytes,
//! then a count by the tokenizer if there is one and the bounds leave the question open.

use std::{cell::OnceCell, sync::Arc};

use crate::{
    prompt::tokens::{CountBasis, Counter, Estimate, Rendered},
    protocol::RequestBody,
    types::Tokens,
};

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
    bounds: OnceCell<Estimate>,
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

    fn bounds(&self) -> &Estimate {
        self.bounds.get_or_init(|| self.counter.estimate(&self.rendered()))
    }

    fn rendered(&self) -> Rendered<'_> {
        Rendered::of(self.body.members())
    }
}
