//! What placing a request on a backend costs by each strategy. The smallest cost wins.

use crate::types::{Candidate, Strategy};

/// A prompt costs at least this many tokens to prefill, however much of it is cached.
const LEAST_UNCACHED: u64 = 32;

/// The cost of placing the request on `candidate`; strategies that do not weigh candidates give all the same.
pub(super) fn cost(strategy: Strategy, candidate: &Candidate) -> f64 {
    let requests = f64::from(candidate.in_flight) + f64::from(candidate.foreign);
    match strategy {
        Strategy::LeastCost => least_cost(candidate, requests),
        Strategy::LeastRequest | Strategy::PowerOfTwo => requests,
        Strategy::PeakEwma => candidate.latency * (requests + 1.0),
        Strategy::RoundRobin => 0.0,
    }
}

/// The marginal cost in tokens: the request waits for the prompt tokens ahead of it and for its own, and its prefill delays
/// every request already there by as much.
fn least_cost(candidate: &Candidate, requests: f64) -> f64 {
    let own = candidate.uncached_tokens.max(LEAST_UNCACHED) as f64;
    candidate.queued_tokens as f64 + own * (requests + 1.0)
}
