//! How many tokens a prompt has, as exactly as a question about it needs: a guess by its length first, then bounds from its bytes, and a
//! count where there is a tokenizer and only that decides.

use std::{cell::OnceCell, sync::Arc};

use crate::{
    prompt::tokens::{CountBasis, Counter, Estimate, Rendered},
    protocol::RequestBody,
    types::Tokens,
};

/// Texts longer than this, in bytes, are counted on a thread that may block.
const LONG: usize = 8 << 10;

/// Whether counting the tokens of `body` may take so long that a worker should not do it.
pub(super) fn is_slow(counter: &Counter, body: &RequestBody) -> bool {
    counter.is_exact() && body.prompt_bytes > LONG
}

/// What is known of one prompt's tokens so far.
pub(super) struct Counting<'a> {
    /// By its length alone.
    rough: Tokens,
    counter: &'a Arc<Counter>,
    body: &'a RequestBody,
    bounds: OnceCell<Estimate>,
}

impl<'a> Counting<'a> {
    /// Of `body`, which by its length has about `expected` tokens.
    pub(super) fn of(body: &'a RequestBody, expected: u64, counter: &'a Arc<Counter>) -> Self {
        let rough = Tokens { least: expected / 2, expected, most: expected.saturating_mul(2) };
        Self { rough, counter, body, bounds: OnceCell::new() }
    }

    /// Whether there are more than `limit`, by the best that can be known.
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

    /// Whether there are more than `limit` for all that can be known: no engine's own count would be less.
    pub(super) fn surely_exceed(&self, limit: u64) -> bool {
        // Twice as much as it seems is no more than a guess: bytes that are no text count as well.
        if self.rough.most <= limit {
            return false;
        }
        let bounds = self.bounds();
        if self.counter.is_exact() { self.exceed(limit) } else { bounds.lo > limit }
    }

    /// What is known by now.
    pub(super) fn tokens(&self) -> Tokens {
        self.bounds.get().map_or(self.rough, |bounds| Tokens {
            least: bounds.lo,
            expected: bounds.expected,
            most: bounds.hi,
        })
    }

    /// What is to be learned from once the engine's own count is there, where anything was looked at.
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
