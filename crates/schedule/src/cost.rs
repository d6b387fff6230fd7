//! Cost of placing a request on a backend, by strategy. The smallest cost wins.
//!
//! `least_cost` is the request's marginal cost to all requests, in prompt tokens to be computed:
//!
//! > `S = f · [ Q + u · (n + 1) ]`
//!
//! * `f` is the backend's slowness relative to the others.
//! * `Q`: the tokens that the request waits for. Those queued on the engine, those by which its KV cache falls short of
//!   what is promised, and, in prompt tokens, the wait for a slot and the time to load the model.
//! * `u`: uncached tokens of its own prompt.
//! * `n`: requests there, each of which is delayed by `u`, whether it waits or decodes. Those of other clients count a
//!   quarter.
//!
//! Without `Q` this is `LMetric`, without `n` the predicted time to the first token. That quarter is its one free
//! constant, and no more elaborate cost that was tried beats it on engines, traffic and limits that it was not tuned on
//! (`docs/benchmarks/scheduler.md`, `docs/dev/decisions/056-plain-placement-cost.md`).

use signalbox_types::{Candidate, Strategy};

/// Least prefill cost of a prompt in tokens, however much of it is cached.
const LEAST_UNCACHED: u64 = 32;

/// Weight of a request of another client. Its delay is not the gateway's own, so it counts less than one; it may be that
/// of another gateway whose load nobody shares, so it counts (`docs/dev/decisions/074-requests-of-others.md`).
const FOREIGN_WEIGHT: f64 = 0.25;

/// Cost of placing the request on `candidate`. Strategies that do not weigh candidates return the same for all.
pub fn cost(strategy: Strategy, candidate: &Candidate) -> f64 {
    let (own, foreign) = (f64::from(candidate.in_flight), f64::from(candidate.foreign));
    match strategy {
        Strategy::LeastCost => {
            let waits = (candidate.queued_tokens + candidate.overflow_tokens) as f64;
            let prompt = candidate.uncached_tokens.max(LEAST_UNCACHED) as f64;
            candidate.speed * (waits + prompt * (own + FOREIGN_WEIGHT * foreign + 1.0))
        }
        Strategy::LeastRequest | Strategy::PowerOfTwo => own + foreign,
        Strategy::PeakEwma => candidate.latency * (own + foreign + 1.0),
        Strategy::RoundRobin => 0.0,
    }
}
