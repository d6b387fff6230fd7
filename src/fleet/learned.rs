//! What was learned of backends and pools. It outlives a change of policy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::PoolOutputs;
use crate::{
    measure::{BytesPerToken, PeakEwma},
    schedule::{
        affinity::Affinity,
        budget::Budget,
        hedge,
        predict::{BackendPredictor, FEWEST_TOKENS, PoolPredictor},
        prefix::{HolderId, PrefixIndex},
        retry,
    },
    types::{Endpoint, Moment},
};

/// Over how long a peak of latency is forgotten.
const LATENCY_DECAY: Duration = Duration::from_secs(10);
/// Tokens that the prefix cache of an engine is thought to hold that says nothing of its size.
const KV_TOKENS: u64 = 500_000;
/// Seconds per token of an idle engine, until one was measured; and what is forgotten of the least at each measurement: engines that are
/// never idle are not taken for slow ones.
const IDLE_STEP: f64 = 0.02;
const IDLE_FORGETTING: f64 = 1.000_02;
/// Tokens may come in bursts: no answer lowers it further than by this.
const IDLE_FALL: f64 = 0.5;
/// The weight of a measurement in the mean.
const STEP_GAIN: f64 = 0.02;
/// Streams of fewer events say little of how many tokens each has: the end of an answer is a token without text.
const FEWEST_EVENTS: u64 = 16;
/// The weight of a stream in the mean number of tokens in an event.
const EVENT_GAIN: f64 = 0.1;
/// From so many tokens in an event on, an engine sends several at once.
const SEVERAL: f64 = 1.5;
/// The mean of prompts is that of about as many.
const PROMPTS: u32 = 100;

/// What was learned of a model on an engine.
#[derive(Debug)]
pub struct Learned {
    /// Time to the first token, or to the answer where none is streamed.
    pub latency: PeakEwma,
    /// How long its tokens are: a property of the model, so that all engines with it learn together. Twins that each learned their own would
    /// never quite agree on a prompt, and the one that takes it for shorter would get nearly all.
    pub bytes_per_token: Arc<BytesPerToken>,
    /// How fast it is beside its pool.
    pub predictor: BackendPredictor,
    pub(super) prefixes: Arc<PrefixIndex>,
    pub(super) sessions: Arc<Affinity>,
    pub(super) holder: HolderId,
    /// Bits of the index's room for this backend, in bytes of prompt.
    room: AtomicU64,
    /// Bits of the mean number of tokens in an event of a stream; 0 before there was one.
    tokens_per_event: AtomicU64,
    /// The engine's restarts that were noticed here.
    restarts: AtomicU32,
    /// Nanoseconds of the [`Moment`] until which each endpoint is known not to be implemented, by its place in [`Endpoint::ALL`].
    lacking_until: [AtomicU64; Endpoint::ALL.len()],
}

impl Learned {
    /// A backend of which nothing is known but how long its model's tokens are; what it caches is kept in `prefixes`, and whom it served in
    /// `sessions`.
    pub fn new(bytes_per_token: Arc<BytesPerToken>, prefixes: Arc<PrefixIndex>, sessions: Arc<Affinity>) -> Self {
        let room = KV_TOKENS as f64 * bytes_per_token.value();
        Self {
            // Nothing known counts as fast, so that a new backend is tried at once.
            latency: PeakEwma::new(LATENCY_DECAY, 0.0, Moment::default()),
            bytes_per_token,
            predictor: BackendPredictor::new(),
            holder: prefixes.join(room as u64),
            prefixes,
            sessions,
            room: AtomicU64::new(room.to_bits()),
            tokens_per_event: AtomicU64::new(0),
            restarts: AtomicU32::new(0),
            lacking_until: Default::default(),
        }
    }

    /// Learns from a complete stream of so many `events` with text, whose engine counted so many `tokens`.
    pub fn streamed(&self, events: u64, tokens: u64) {
        if events < FEWEST_EVENTS {
            return;
        }
        let (seen, before) = (tokens as f64 / events as f64, f64::from_bits(self.tokens_per_event.load(Relaxed)));
        let mean = if before > 0.0 { before + EVENT_GAIN * (seen - before) } else { seen };
        self.tokens_per_event.store(mean.to_bits(), Relaxed);
    }

    /// Tokens in so many `events` of a stream. Most engines send each token as one event; of those that send several at once the mean is
    /// learned. Before anything was learned, each event counts as one token: too high a count would end a resumed answer early.
    pub fn tokens_in(&self, events: u64) -> u64 {
        let per_event = f64::from_bits(self.tokens_per_event.load(Relaxed));
        if per_event > SEVERAL { (events as f64 * per_event).round() as u64 } else { events }
    }

    /// Notes that the engine said of `endpoint` that it does not implement it for this model.
    pub(super) fn lacks(&self, endpoint: Endpoint, until: u64) {
        self.lacking_until[endpoint as usize].store(until, Relaxed);
    }

    /// True if the engine said lately of `endpoint` that it does not implement it for this model.
    pub(super) fn is_lacking(&self, endpoint: Endpoint, now: Moment) -> bool {
        now.nanos() < self.lacking_until[endpoint as usize].load(Relaxed)
    }

    /// Brings the index up to date with the size of the engine's KV cache and with its restarts.
    pub(super) fn follow(&self, kv_tokens: Option<u64>, restarts: u32) {
        // Every decision asks this of every candidate: what is only read stays in all processors' caches.
        if self.restarts.load(Relaxed) != restarts && self.restarts.swap(restarts, Relaxed) != restarts {
            self.prefixes.clear(self.holder);
            self.sessions.clear(self.holder);
        }
        let room = kv_tokens.unwrap_or(KV_TOKENS) as f64 * self.bytes_per_token.value();
        let before = f64::from_bits(self.room.load(Relaxed));
        // Bytes per token never stand quite still.
        if (room - before).abs() > before * 0.125 {
            self.room.store(room.to_bits(), Relaxed);
            self.prefixes.set_capacity(self.holder, room as u64);
        }
    }
}

impl Drop for Learned {
    fn drop(&mut self) {
        self.prefixes.leave(self.holder);
        self.sessions.clear(self.holder);
    }
}

/// What was learned of a pool as a whole.
#[derive(Debug)]
pub struct PoolLearned {
    /// Times to the first token and per token.
    pub predictor: PoolPredictor,
    /// How long its answers are.
    pub outputs: PoolOutputs,
    /// How often the same backend may be asked again, by caller.
    pub retries: retry::Budgets,
    /// Nanoseconds of the [`Moment`] until which some backend of it is known not to implement an endpoint.
    pub(super) lacking_until: AtomicU64,
    /// How many may be sent a second time while the first try is awaited.
    pub hedges: Budget,
    /// Bits of the mean seconds per token of late.
    step: AtomicU64,
    /// Bits of the mean number of requests that an engine had under way then.
    crowd: AtomicU64,
    /// Bits of the least seconds per token seen lately: what an idle engine needs; 0 before there was one.
    idle_step: AtomicU64,
    /// Bits of the mean number of tokens that a request's prompt gave its engine to compute; 0 before there was one.
    prompt: AtomicU64,
    /// How many prompts are in it, up to as many as count.
    prompts: AtomicU32,
}

impl Default for PoolLearned {
    fn default() -> Self {
        Self {
            predictor: PoolPredictor::new(),
            outputs: PoolOutputs::default(),
            retries: retry::Budgets::default(),
            lacking_until: AtomicU64::new(0),
            hedges: hedge::budget(),
            step: AtomicU64::new(IDLE_STEP.to_bits()),
            crowd: AtomicU64::new(0.0_f64.to_bits()),
            idle_step: AtomicU64::new(0.0_f64.to_bits()),
            prompt: AtomicU64::new(0.0_f64.to_bits()),
            prompts: AtomicU32::new(0),
        }
    }
}

impl PoolLearned {
    /// Seconds per token on an idle engine.
    pub(crate) fn idle_step(&self) -> f64 {
        let least = f64::from_bits(self.idle_step.load(Relaxed));
        if least > 0.0 { least } else { IDLE_STEP }
    }

    /// Mean seconds per token of late.
    pub fn step(&self) -> f64 {
        f64::from_bits(self.step.load(Relaxed))
    }

    /// Mean number of tokens that a prompt gave its engine to compute, of late; 0 before there was one.
    pub fn prompt(&self) -> f64 {
        f64::from_bits(self.prompt.load(Relaxed))
    }

    /// A request was dispatched whose engine has `uncached` tokens of its prompt to compute.
    pub(super) fn dispatched(&self, uncached: u64) {
        let count = (self.prompts.load(Relaxed) + 1).min(PROMPTS);
        let mean = self.prompt() + (uncached as f64 - self.prompt()) / f64::from(count);
        self.prompts.store(count, Relaxed);
        self.prompt.store(mean.to_bits(), Relaxed);
    }

    /// The seconds per token to expect on an engine with `requests` under way: the part `crowded` of a step's time grows with
    /// them. `None` before any was measured.
    pub(super) fn step_among(&self, requests: u32, crowded: f64) -> Option<f64> {
        let crowd = f64::from_bits(self.crowd.load(Relaxed));
        (crowd > 0.0).then(|| self.step() * (1.0 - crowded + crowded * f64::from(requests) / crowd))
    }

    /// An answer of so many `tokens` came at so many `seconds` for each, from an engine that had `requests` under way at its end.
    pub(super) fn observe_step(&self, seconds: f64, tokens: u64, requests: u32) {
        if seconds > 0.0 {
            let (requests, crowd) = (f64::from(requests.max(1)), f64::from_bits(self.crowd.load(Relaxed)));
            let crowd = if crowd > 0.0 { crowd + STEP_GAIN * (requests - crowd) } else { requests };
            self.crowd.store(crowd.to_bits(), Relaxed);
            if tokens >= FEWEST_TOKENS {
                let least = f64::from_bits(self.idle_step.load(Relaxed));
                let fallen = (least * IDLE_FORGETTING).min(seconds.max(least * IDLE_FALL));
                self.idle_step.store(if least > 0.0 { fallen } else { seconds }.to_bits(), Relaxed);
            }
            let mean = self.step() + STEP_GAIN * (seconds - self.step());
            self.step.store(mean.to_bits(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_step_is_the_least_but_no_single_burst() {
        let pool = PoolLearned::default();
        assert!((pool.idle_step() - IDLE_STEP).abs() < 1e-9);
        pool.observe_step(1e-6, 3, 1);
        assert!((pool.idle_step() - IDLE_STEP).abs() < 1e-9, "too few tokens to tell");
        pool.observe_step(0.2, 100, 1);
        assert!((pool.idle_step() - 0.2).abs() < 1e-9, "what was thought at first is forgotten");
        pool.observe_step(1e-6, 100, 1);
        assert!((pool.idle_step() - 0.1).abs() < 1e-9, "one answer that came in one burst");
        for _ in 0..100 {
            pool.observe_step(0.05, 100, 30);
        }
        assert!((0.05..0.051).contains(&pool.idle_step()));
        for _ in 0..1_000 {
            pool.observe_step(0.1, 100, 30);
        }
        assert!(pool.idle_step() < 0.055, "it outlasts a busy hour: {}", pool.idle_step());
    }
}
