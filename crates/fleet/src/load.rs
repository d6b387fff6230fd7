//! Counters of a backend's requests under way, for metrics and the status page.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Requests under way on a backend. Changed only by [`Ticket`](super::Ticket)s.
#[derive(Debug, Default)]
pub struct Load {
    pub(super) in_flight: AtomicU32,
    pub(super) queued_tokens: AtomicU64,
    pub(super) decoding: AtomicU32,
    pub(super) context_tokens: AtomicU64,
}

impl Load {
    /// Requests dispatched and not over.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Prompt tokens dispatched, uncached, and still without a first token.
    pub fn queued_tokens(&self) -> u64 {
        self.queued_tokens.load(Relaxed)
    }

    /// Requests that have shown their first token.
    pub fn decoding(&self) -> u32 {
        self.decoding.load(Relaxed)
    }

    /// Prompt tokens of the requests that are decoding.
    pub fn context_tokens(&self) -> u64 {
        self.context_tokens.load(Relaxed)
    }
}
