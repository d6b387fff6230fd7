//! Cost of placing a request on a backend, by strategy. The smallest cost wins.
//!
//! `least_cost` is the request's marginal cost to all requests, in prompt tokens to be computed:
//!
//! > `S = f · [ (Q + ov)·(1 + z·u/ū) + u + w·u·(n + X) + v·(u − u₀)·N + E·(d·D + d′) ] + t·L`
//!
//! * `f` is the backend's slowness relative to the others.
//! * `Q`: queued tokens. `ov`: tokens of KV cache that are promised to others, and the time to load the model in
//!   prompt tokens. The request itself waits for all of them.
//! * `u`: uncached tokens of its own prompt. `ū`: their mean in the pool. `u₀`: the least that any candidate would
//!   compute.
//! * `n`, `X`: requests of the gateway and of other clients there, which the prompt delays by `u`. On an engine with a
//!   known number of slots they count at most as many as share the slots: a request ahead in the queue for a slot is
//!   not delayed.
//! * `N`: mean number of requests per candidate, external ones included.
//! * `E`: tokens of its answer, which lengthen the steps of the `D` streams there.
//!
//! **Prices of delay.** Work that any engine would have to do (`u₀`) delays requests wherever it is done. Work beyond
//! that recomputes what another engine has cached: it takes time from the pool and delays all later requests. Prompt
//! time is dear where little of it is left: `v = 2 ρ² / (1 − ρ)` for each of the `N` requests, with `ρ` the share of
//! the engine's time that recent prompts took. `ρ² / (1 − ρ)` is the mean number of waiting requests in a queue with
//! Poisson arrivals (M/M/1). Requests already there are delayed at `w = 2 ρ³ / (1 − ρ) + 20 / M`: little on an engine
//! at half load, whose streams catch up, and more the fewer tokens a stream has (`M` is the pool's mean), since an
//! interruption then costs more of its pace. The interrupted streams count here, not the limit of the interrupting
//! request. Neither price exceeds 2.
//!
//! **Streams.** Longer steps matter where the time per token comes near its limit: `d` is 0.36 times the tokens that an
//! idle step has time for, × strain³, capped at 2. Streams count half by number and half by the tokens promised on
//! their engine, since a long stream lengthens each step more than a short one. The request's own answer is one more
//! stream: `d′` is the same × (strain · f)³ where `f` is above 1, capped at 8. On an engine that was slowed four times
//! prompts may start in time, and every token after that is late.
//!
//! **Queue.** Joining a queue delays all requests that arrive before it is empty, and these are more the longer it is.
//! With Poisson arrivals work `u` costs them `u·λ·Q / (1 − ρ)`, which is `ρ / (1 − ρ)` times `Q·u/ū` for prompts of
//! mean `ū`. So a long prompt avoids a long queue more than a short one does: `z = ¼ ρ / (1 − ρ)`. The full factor
//! shortens the tail of first tokens further, but lowers attainment for all.
//!
//! **Lateness.** A prompt's cost to streams may exceed a while of waiting, and the longest prompts wait for it: the
//! price that is best for all makes the latest first tokens later. Therefore a first token is late from two mean
//! prompts on, and lateness costs its square: `L = (T − 2ū)² / ū`, `t = 60`. A slightly late request still weighs the
//! other terms; a very late one goes where lateness is least. `T` is the time to first token, expressed as work at the
//! speed at which the engine would compute this prompt. That speed includes the fixed cost of a step, so that short or
//! mostly cached prompts count as late later, and a slow engine is not idle for it. Work already done on earlier
//! prompts counts for 0.35 (`T` is 0.65 of the prediction and 0.35 of `f·(Q + ov + u)`), since the first token of an
//! almost finished prompt comes later when another joins its steps. `t` fades where answers take less of the engines'
//! time (with the 16th power, below a mean answer of five mean prompts' time on an idle engine), since an interruption
//! is then much of an answer. It is zero where even the soonest engine needs more than six mean prompts' time, this
//! prompt included: the tail then consists of the longest prompts, wherever they go.
//!
//! With `w = 1` and without the other terms this is `Q + u (n + 1)`, and without `Q` it is `LMetric`. Both charge a
//! fixed price for delaying others, which is too high on an idle engine, where it lengthens the tail, and too low on a
//! busy one. `docs/benchmarks/scheduler.md` compares them.

use crate::types::{Candidate, Strategy};

/// Least prefill cost of a prompt in tokens, however much of it is cached.
const LEAST_UNCACHED: u64 = 32;
/// Largest share of time that is used in prices: above it, the rest is too uncertain to divide by.
const FULL: f64 = 0.9;
/// Price of time taken from others per mean number of waiting requests, and its maximum.
const CROWD: f64 = 2.0;
const DEAREST: f64 = 2.0;
/// Length of an answer, in tokens, at which delaying it costs as much as waiting.
const BRIEF: f64 = 20.0;
/// Cost of a mean prompt to later requests, per queued token and per mean number of requests served or waiting; and the
/// largest prompt size that counts, in means.
const LATER: f64 = 0.25;
const LARGEST_SIZE: f64 = 8.0;
/// Lengthening of the others' steps by one more stream, in idle steps at a strain of 1; its maximum, and its maximum
/// for the request's own answer.
const STREAM: f64 = 0.36;
const MOST_STRAIN: f64 = 2.0;
const MOST_STRAIN_OWN: f64 = 8.0;

/// Lateness of a first token starts at this many mean prompts; and the cost of being late by one mean prompt, in mean
/// prompts.
const LATE: f64 = 2.0;
const LATENESS: f64 = 60.0;
/// Share of the work already done on earlier prompts that still counts.
const SHARED: f64 = 0.35;
/// The price of lateness is full where a mean answer takes an idle engine this many times as long as a mean prompt, and
/// fades below with this power. It is zero where the first token is more than this many mean prompts' work away on
/// every engine.
const ANSWERS_PER_PROMPT: f64 = 5.0;
const FADES: i32 = 16;
const FAR_BEHIND: f64 = 6.0;

/// Properties of all candidates together that the cost on one of them depends on.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct CandidateStats {
    /// Prompt tokens that must be computed on any candidate.
    pub least_uncached: f64,
    /// Mean number of requests per engine, capped at its slots where they are known.
    pub requests: f64,
    /// Least work before the first token over all candidates, in prompt tokens.
    pub soonest: f64,
}

impl CandidateStats {
    /// Computes the values for `candidates`; zero without any.
    pub fn of<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Self {
        let (mut least, mut soonest, mut sum, mut count) = (f64::INFINITY, f64::INFINITY, 0.0, 0.0);
        for candidate in candidates {
            least = least.min(own(candidate));
            soonest = soonest.min(candidate.speed * (queue(candidate) + own(candidate)));
            sum += requests(candidate).min(candidate.slots.map_or(f64::INFINITY, f64::from));
            count += 1.0;
        }
        if count > 0.0 { Self { least_uncached: least, requests: sum / count, soonest } } else { Self::NOTHING }
    }

    /// For strategies that do not use it.
    pub(super) const NOTHING: Self = Self { least_uncached: 0.0, requests: 0.0, soonest: 0.0 };
}

/// Cost of placing the request on `candidate`, given the stats of all candidates. Strategies that do not weigh
/// candidates return the same for all.
pub fn cost(strategy: Strategy, candidate: &Candidate, stats: &CandidateStats) -> f64 {
    match strategy {
        Strategy::LeastCost => least_cost(candidate, stats),
        Strategy::LeastRequest | Strategy::PowerOfTwo => requests(candidate),
        Strategy::PeakEwma => candidate.latency * (requests(candidate) + 1.0),
        Strategy::RoundRobin => 0.0,
    }
}

fn least_cost(candidate: &Candidate, stats: &CandidateStats) -> f64 {
    let (own, requests) = (own(candidate), requests(candidate));
    let waiting = queue(candidate);
    let output = candidate.output_tokens.max(1) as f64;
    let busy = candidate.utilisation.clamp(0.0, FULL);
    let queueing = busy / (1.0 - busy);
    let crowd = CROWD * busy * queueing;
    let brief = BRIEF / candidate.mean_output_tokens.max(1) as f64;
    let there = candidate.slots.map_or(requests, |slots| requests.min(f64::from(slots.saturating_sub(1))));
    let held_up = (crowd * busy + brief).min(DEAREST) * own * there;
    let wasted = crowd.min(DEAREST) * (own - stats.least_uncached).max(0.0) * stats.requests;
    let theirs = candidate.strain.powi(3).min(MOST_STRAIN);
    let its = (candidate.strain * candidate.speed.max(1.0)).powi(3).min(MOST_STRAIN_OWN);
    let streams = candidate.streams * theirs + its;
    let decoding = STREAM * candidate.step_tokens * output * streams;
    let size = (own / candidate.mean_uncached_tokens.max(LEAST_UNCACHED as f64)).min(LARGEST_SIZE);
    let waiting = waiting * (1.0 + LATER * size * queueing);
    candidate.speed * (waiting + own + held_up + wasted + decoding) + lateness(candidate, stats)
}

/// Cost of a late first token.
fn lateness(candidate: &Candidate, stats: &CandidateStats) -> f64 {
    let mean = candidate.mean_uncached_tokens.max(LEAST_UNCACHED as f64);
    let whole = candidate.speed * (queue(candidate) + own(candidate));
    let late = candidate.ttft_tokens + SHARED * (whole - candidate.ttft_tokens) - LATE * mean;
    // Most first tokens are in time.
    if late <= 0.0 || stats.soonest > FAR_BEHIND * mean {
        return 0.0;
    }
    let answer = candidate.mean_output_tokens as f64 * candidate.step_tokens;
    LATENESS * (answer / (ANSWERS_PER_PROMPT * mean)).min(1.0).powi(FADES) * late * late / mean
}

fn own(candidate: &Candidate) -> f64 {
    candidate.uncached_tokens.max(LEAST_UNCACHED) as f64
}

fn queue(candidate: &Candidate) -> f64 {
    (candidate.queued_tokens + candidate.overflow_tokens) as f64
}

fn requests(candidate: &Candidate) -> f64 {
    f64::from(candidate.in_flight) + f64::from(candidate.foreign)
}
