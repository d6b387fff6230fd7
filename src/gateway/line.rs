//! What is known of a request when it is over: a line of the journal, and what the page and the admin API show.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use crate::{
    telemetry::Stage,
    types::{Name, Usage},
};

/// A line of the journal: features, candidates, choice, outcome; never a prompt or an answer.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The request's id.
    pub id: Arc<str>,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// What it asked for.
    pub endpoint: &'static str,
    /// Whether it asked for a stream.
    pub stream: bool,
    /// Public name of the caller's key.
    pub key: Option<Name>,
    /// The model as the client named it.
    pub model: Option<String>,
    /// The route it took.
    pub route: Option<Name>,
    /// Length of what the model reads, in bytes.
    pub prompt_bytes: usize,
    /// About how many tokens that is, before anything was dispatched.
    pub estimated_prompt_tokens: u64,
    /// Every attempt, the last one being the one that answered, if any did.
    pub attempts: Vec<Attempted>,
    /// HTTP status of the answer; 0 when the client left before there was one.
    pub status: u16,
    /// `ok`, `client_gone`, or the kind of fault.
    pub outcome: &'static str,
    /// How far it had come when it ended.
    pub stage: Stage,
    /// Tokens as the engine reported them.
    pub usage: Option<Usage>,
    /// From arrival to the first token handed to the client's connection, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// From dispatch to the first token's arrival here, in milliseconds.
    pub upstream_ttft_ms: Option<f64>,
    /// (last token − first token) / (tokens − 1), in milliseconds.
    pub tpot_ms: Option<f64>,
    /// From arrival to the end, in milliseconds.
    pub e2e_ms: f64,
    /// Our own share of the time to the head of the answer, in microseconds.
    pub overhead_us: Option<f64>,
    /// Cost in US dollars, where prices are known.
    pub cost_usd: Option<f64>,
}

/// One attempt at a backend.
#[derive(Clone, Debug, Serialize)]
pub struct Attempted {
    /// The pool.
    pub pool: Name,
    /// The backend chosen.
    pub backend: Name,
    /// The model's name upstream, where the policy sets one.
    pub upstream_model: Option<Name>,
    /// Why that one.
    pub reason: &'static str,
    /// Every candidate, as it looked at that moment.
    pub candidates: Vec<Weighed>,
    /// How the attempt ended; `None` while it is under way.
    pub outcome: Option<&'static str>,
}

/// A candidate as the balancer saw it.
#[derive(Clone, Debug, Serialize)]
pub struct Weighed {
    /// The backend.
    pub backend: Name,
    /// What it would have cost, in the strategy's unit.
    pub cost: Option<f64>,
    /// Requests of ours on its engine.
    pub in_flight: u32,
    /// Requests of others there.
    pub foreign: u32,
    /// Prompt tokens waiting there.
    pub queued_tokens: u64,
    /// Prompt tokens of this request to compute there.
    pub uncached_tokens: u64,
    /// Whether it failed lately.
    pub avoided: bool,
}

impl Line {
    /// Time since the request's arrival, by the wall clock.
    pub fn age(&self) -> Duration {
        since_1970().saturating_sub(Duration::from_millis(self.time_ms))
    }
}

pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
