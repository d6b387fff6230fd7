//! What is true at the moment of a scrape, handed in by those who know it.

use crate::types::Name;

/// The state of the fleet when `/metrics` is read.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Every backend of every pool. Of two with the same names the later one counts.
    pub backends: Vec<BackendLive>,
    /// Every engine. Of two with the same name the later one counts.
    pub engines: Vec<EngineLive>,
}

/// What is under way for a backend, by the gateway's own count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendLive {
    /// Its pool.
    pub pool: Name,
    /// Its name.
    pub backend: Name,
    /// Attempts under way.
    pub in_flight: u64,
    /// Estimated prompt tokens of attempts that still wait for their first token.
    pub queued_prompt_tokens: u64,
    /// Attempts past their first token.
    pub decoding: u64,
    /// Estimated prompt tokens of those attempts.
    pub context_tokens: u64,
}

/// What an engine says of itself; `None` for what it does not say. It stands apart from [`BackendLive`], because an
/// engine shared by several backends would otherwise be counted once for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineLive {
    /// Its name.
    pub engine: Name,
    /// Whether the last scrape succeeded; `None` where it is not scraped.
    pub up: Option<bool>,
    /// Seconds since the last scrape that succeeded.
    pub scrape_age: Option<f64>,
    /// Requests being computed.
    pub running: Option<f64>,
    /// Requests in its queue.
    pub waiting: Option<f64>,
    /// Share of its KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Share of prompt tokens found in its prefix cache, 0 to 1.
    pub prefix_hits: Option<f64>,
    /// Requests interrupted since it started.
    pub preemptions: Option<f64>,
}
