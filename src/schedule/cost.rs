//! What placing a request on a backend costs by each strategy. The smallest cost wins.
//!
//! `least_cost` is the request's marginal cost to everybody, counted in prompt tokens to be computed:
//!
//! > `S = f · [ (Q + ov)·(1 + z·u/ū) + u + w·u·(n + X) + v·(u − u₀)·N + E·(d·D + d′) ] + t·L`
//!
//! The request itself waits for what is queued (`Q`), for its own uncached prompt (`u`), and for KV cache that is promised to
//! others (`ov`). Its prompt holds up the `n` requests of ours and the `X` of others by `u`, and its answer of `E` tokens makes
//! the steps of the `D` streams there longer. `f` is how slow the backend is beside the others. (An engine that is known to have
//! slots computes as many requests at once: who waits for one before it is not held up by it, and `n + X` counts no more than
//! share the slots with it.)
//!
//! What it does to others has the price of what it takes from them. Work that has to be done on whichever engine (`u₀`, the least
//! that any candidate would have to compute) delays somebody wherever it is done; work beyond that, to compute what another engine
//! has cached, takes time from the pool, and delays all who come. An engine's time for prompts is dear where little of it is left:
//! `v = 2 ρ² / (1 − ρ)`, for each of the `N` requests, others' too, that a candidate has on the mean, with `ρ` the share of its time that
//! prompts lately took.
//! `ρ² / (1 − ρ)` is the mean number of those who wait in a queue with Poisson arrivals (M/M/1). Who is there already is held
//! up for `w = 2 ρ³ / (1 − ρ) + 20 / M`: little on an engine at half its load, whose streams catch up, and the more the fewer tokens a
//! stream has (`M` in the pool's mean), for the more of its pace an interruption costs it: theirs count, not the limit of
//! the one who interrupts. Neither price is above 2. Longer steps hurt where the time per token comes near its limit: `d` is 0.36 times what prompts an
//! idle step has time for, × strain³, 2 at most. Streams count half by number and half by the tokens that their engine has promised, for a long one
//! makes each step longer than a short one does. The request's own answer is one stream more, `d′` the same × (strain · f)³ where `f` is
//! above 1, 8 at most: on an engine that was slowed four times prompts may begin in time, and every token after that is late.
//!
//! Who joins a queue delays all who come before it is empty, and they are the more the longer it is: in a queue with Poisson
//! arrivals work `u` costs them `u·λ·Q / (1 − ρ)`, which is `ρ / (1 − ρ)` times `Q·u/ū` for prompts of `ū` on the mean. So a long
//! prompt keeps away from a long queue more than a short one does: `z = ¼ ρ / (1 − ρ)`. The whole of it shortens the tail of first
//! tokens further, and takes from the attainment of all.
//!
//! What a prompt does to streams may well be dearer than a while of waiting, and those who wait for it are the longest prompts: the
//! price that is best for all makes the latest first tokens later. So a first token is late from two mean prompts on, and lateness
//! costs its square: `L = (T − 2ū)² / ū`, and `t = 60`. Who would be a little late looks at the rest as well; who would be very late goes
//! where that is the least. `T` is the time to the first token, as work at the pace at which the engine would compute this request's own:
//! that has the fixed cost of a step in it, so that a short prompt, or one that is nearly all cached, is late later, and an engine that
//! is slow is not left alone for that. What has been computed already of the prompts before it counts for 0.35 (`T` is 0.65 of what is
//! predicted and 0.35 of `f·(Q + ov + u)`): the first token of a prompt that is nearly through comes later where another joins it, for
//! they share steps.
//! `t` fades where answers take less of the engines' time (with the 16th power, from where a mean one takes an idle engine five times
//! as long as a mean prompt), for there an interruption is much of an answer. It is nothing where even the soonest engine would take more
//! than six mean prompts' time, this prompt's own in it: then the tail is made of the longest prompts, wherever they go.
//!
//! With `w = 1` and the rest left out this is `Q + u (n + 1)`, and without `Q` it is `LMetric`: both hold others up at a fixed
//! price, which is too high on an idle engine, where it lengthens the tail, and too low on a busy one. `docs/benchmarks/scheduler.md` has
//! them side by side.

use crate::types::{Candidate, Strategy};

/// A prompt costs at least this many tokens to prefill, however much of it is cached.
const LEAST_UNCACHED: u64 = 32;
/// Above this share of time, what is left is not known well enough to divide by.
const FULL: f64 = 0.9;
/// The prices of time taken from others, per mean number of those who wait; and at most.
const CROWD: f64 = 2.0;
const DEAREST: f64 = 2.0;
/// Tokens of an answer that is so short that holding it up costs as much as waiting oneself.
const BRIEF: f64 = 20.0;
/// What a prompt of the pool's mean size takes from those who come later, per token of the queue that it joins and of the mean number
/// of those who are served or wait; and how many times the mean a prompt counts at most.
const LATER: f64 = 0.25;
const LARGEST_SIZE: f64 = 8.0;
/// How much longer one more stream makes the steps of the others, in idle steps, at a strain of 1; how many times that at most, and
/// at most for the request's own answer.
const STREAM: f64 = 0.36;
const MOST_STRAIN: f64 = 2.0;
const MOST_STRAIN_OWN: f64 = 8.0;

/// A first token is late after so many mean prompts, and what one costs that is late by one mean prompt, in mean prompts.
const LATE: f64 = 2.0;
const LATENESS: f64 = 60.0;
/// How much of what has been computed of the prompts before it counts as still to be done.
const SHARED: f64 = 0.35;
/// That has its whole price where a mean answer takes an idle engine so many times as long as a mean prompt, and fades below with this
/// power; it has none where the first token is more than so many mean prompts' work away everywhere.
const ANSWERS_PER_PROMPT: f64 = 5.0;
const FADES: i32 = 16;
const FAR_BEHIND: f64 = 6.0;

/// What the cost on one backend has to know of all those that the request may go to.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Around {
    /// Prompt tokens that have to be computed wherever the request goes.
    pub least_uncached: f64,
    /// Requests on an engine, on the mean; no more than it has slots, where it is known to have some.
    pub requests: f64,
    /// The least work that has to be done before the first token comes, in prompt tokens.
    pub soonest: f64,
}

impl Around {
    /// Of `candidates`; nothing where there are none.
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

    /// For strategies that do not ask.
    pub(super) const NOTHING: Self = Self { least_uncached: 0.0, requests: 0.0, soonest: 0.0 };
}

/// The cost of placing the request on `candidate`, beside those `around`; strategies that do not weigh candidates give all the same.
pub fn cost(strategy: Strategy, candidate: &Candidate, around: &Around) -> f64 {
    match strategy {
        Strategy::LeastCost => least_cost(candidate, around),
        Strategy::LeastRequest | Strategy::PowerOfTwo => requests(candidate),
        Strategy::PeakEwma => candidate.latency * (requests(candidate) + 1.0),
        Strategy::RoundRobin => 0.0,
    }
}

fn least_cost(candidate: &Candidate, around: &Around) -> f64 {
    let (own, requests) = (own(candidate), requests(candidate));
    let waiting = queue(candidate);
    let output = candidate.output_tokens.max(1) as f64;
    let busy = candidate.utilisation.clamp(0.0, FULL);
    let queueing = busy / (1.0 - busy);
    let crowd = CROWD * busy * queueing;
    let brief = BRIEF / candidate.mean_output_tokens.max(1) as f64;
    let there = candidate.slots.map_or(requests, |slots| requests.min(f64::from(slots.saturating_sub(1))));
    let held_up = (crowd * busy + brief).min(DEAREST) * own * there;
    let wasted = crowd.min(DEAREST) * (own - around.least_uncached).max(0.0) * around.requests;
    let theirs = candidate.strain.powi(3).min(MOST_STRAIN);
    let its = (candidate.strain * candidate.speed.max(1.0)).powi(3).min(MOST_STRAIN_OWN);
    let streams = candidate.streams * theirs + its;
    let decoding = STREAM * candidate.step_tokens * output * streams;
    let size = (own / candidate.mean_uncached_tokens.max(LEAST_UNCACHED as f64)).min(LARGEST_SIZE);
    let waiting = waiting * (1.0 + LATER * size * queueing);
    candidate.speed * (waiting + own + held_up + wasted + decoding) + lateness(candidate, around)
}

/// What it costs that the first token comes late.
fn lateness(candidate: &Candidate, around: &Around) -> f64 {
    let mean = candidate.mean_uncached_tokens.max(LEAST_UNCACHED as f64);
    let whole = candidate.speed * (queue(candidate) + own(candidate));
    let late = candidate.ttft_tokens + SHARED * (whole - candidate.ttft_tokens) - LATE * mean;
    // Most are in time.
    if late <= 0.0 || around.soonest > FAR_BEHIND * mean {
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
