//! State learned for backends and pools. It outlives a change of policy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{BackendKey, LoadTime, Outbox, PoolOutputs, RefusedEndpoints, Room};
use signalbox_measure::{BytesPerToken, PeakEwma};
use signalbox_prompt::Blocks;
use signalbox_schedule::{
    affinity::Affinity,
    budget::Budget,
    hedge,
    predict::{BackendPredictor, PoolPredictor},
    prefix::{HolderId, PrefixIndex, Reuse},
    retry,
};
use signalbox_types::Moment;

/// Time constant with which a latency peak decays.
const LATENCY_DECAY: Duration = Duration::from_secs(10);
/// Assumed size of a prefix cache whose engine reports none, in tokens.
const KV_TOKENS: u64 = 500_000;
/// Fewest events of a stream that count: the end of an answer is a token without text.
const FEWEST_EVENTS: u64 = 16;
/// Weight of a stream in the mean number of tokens per event.
const EVENT_GAIN: f64 = 0.1;
/// Tokens per event from which on an engine is assumed to send several at once.
const SEVERAL: f64 = 1.5;

/// State learned for a model on an engine.
#[derive(Debug)]
pub struct Learned {
    /// Time to first token, or to the whole answer without streaming.
    pub latency: PeakEwma,
    /// Bytes per token. A property of the model, so that all engines with it share one estimate. With separate
    /// estimates two equal engines would never quite agree on a prompt's length, and the one with the lower estimate
    /// would get nearly all requests.
    pub bytes_per_token: Arc<BytesPerToken>,
    /// Speed relative to its pool.
    pub predictor: BackendPredictor,
    /// Time to load the model, for engines that load models on demand.
    pub load_time: LoadTime,
    /// Room for requests, as its refusals show it.
    pub(super) concurrency: Room,
    /// Our requests under way there, from all pools.
    under_way: AtomicU32,
    pub(super) prefixes: Arc<PrefixIndex>,
    pub(super) sessions: Arc<Affinity>,
    pub(super) holder: HolderId,
    /// Its identity on all gateways.
    pub(super) key: BackendKey,
    outbox: Arc<Outbox>,
    /// Bits of the backend's capacity in the index, in bytes of prompt.
    room: AtomicU64,
    /// Bits of the mean number of tokens per stream event; 0 before the first.
    tokens_per_event: AtomicU64,
    /// Engine restarts that were applied here.
    restarts: AtomicU32,
    /// Endpoints that it refused.
    pub(super) refused: RefusedEndpoints,
    /// True once it has refused ids of tool calls that are not Mistral's.
    pub mistral_call_ids: AtomicBool,
}

impl Learned {
    /// Creates the state of a backend about which only the bytes per token are known. Its cached prompts are recorded
    /// in `prefixes`, its sessions in `sessions`; those of its prompts that are computed go into `outbox` under `key`.
    pub(super) fn new(
        bytes_per_token: Arc<BytesPerToken>,
        prefixes: Arc<PrefixIndex>,
        sessions: Arc<Affinity>,
        (key, outbox): (BackendKey, Arc<Outbox>),
    ) -> Self {
        let room = KV_TOKENS as f64 * bytes_per_token.value();
        Self {
            // An unknown latency counts as fast, so that a new backend is tried at once.
            latency: PeakEwma::new(LATENCY_DECAY, 0.0, Moment::default()),
            bytes_per_token,
            predictor: BackendPredictor::new(),
            load_time: LoadTime::default(),
            concurrency: Room::default(),
            under_way: AtomicU32::new(0),
            holder: prefixes.join(room as u64),
            prefixes,
            sessions,
            key,
            outbox,
            room: AtomicU64::new(room.to_bits()),
            tokens_per_event: AtomicU64::new(0),
            restarts: AtomicU32::new(0),
            refused: RefusedEndpoints::default(),
            mistral_call_ids: AtomicBool::new(false),
        }
    }

    /// Our requests under way there.
    pub(super) fn under_way(&self) -> u32 {
        self.under_way.load(Relaxed)
    }

    /// Counts a request as under way. Returns false, and counts none, where there are `most` already.
    pub(super) fn enter(&self, most: Option<u32>) -> bool {
        let next = |count: u32| most.is_none_or(|most| count < most).then(|| count.saturating_add(1));
        self.under_way.fetch_update(Relaxed, Relaxed, next).is_ok()
    }

    /// Ends what [`enter`](Self::enter) began.
    pub(super) fn leave(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// Learns from a complete stream of `events` events with text, for which the engine counted `tokens`.
    pub fn streamed(&self, events: u64, tokens: u64) {
        if events < FEWEST_EVENTS {
            return;
        }
        let (seen, before) = (tokens as f64 / events as f64, f64::from_bits(self.tokens_per_event.load(Relaxed)));
        let mean = if before > 0.0 { before + EVENT_GAIN * (seen - before) } else { seen };
        self.tokens_per_event.store(mean.to_bits(), Relaxed);
    }

    /// Tokens in `events` stream events. Most engines send one token per event; for the others the mean is learned.
    /// Until then each event counts as one token: too high a count would end a resumed answer early.
    pub fn tokens_in(&self, events: u64) -> u64 {
        let per_event = f64::from_bits(self.tokens_per_event.load(Relaxed));
        if per_event > SEVERAL { (events as f64 * per_event).round() as u64 } else { events }
    }

    /// Records that a prompt of this gateway was computed there: `reuse` is what its
    /// [`insert`](PrefixIndex::insert) returned.
    pub(super) fn computed(&self, blocks: &Blocks, reuse: &Reuse) {
        self.prefixes.confirm(blocks.prompt(), reuse);
        self.outbox.push(self.key, blocks);
    }

    /// Records that a prompt of another gateway was computed there.
    pub(super) fn computed_elsewhere(&self, blocks: &Blocks) {
        let prompt = blocks.prompt();
        let reuse = self.prefixes.insert(self.holder, prompt);
        self.prefixes.confirm(prompt, &reuse);
    }

    /// Applies the size of the engine's KV cache and its restarts to the index.
    pub(super) fn apply_engine_state(&self, kv_tokens: Option<u64>, restarts: u32) {
        // Runs for every candidate of every decision: memory that is only read stays in all processors' caches.
        if self.restarts.load(Relaxed) != restarts && self.restarts.swap(restarts, Relaxed) != restarts {
            self.prefixes.clear(self.holder);
            self.sessions.clear(self.holder);
            self.concurrency.clear();
        }
        let room = kv_tokens.unwrap_or(KV_TOKENS) as f64 * self.bytes_per_token.value();
        let before = f64::from_bits(self.room.load(Relaxed));
        // The estimate of bytes per token never settles completely.
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

/// State learned for a pool as a whole.
#[derive(Debug)]
pub struct PoolLearned {
    /// Predictor of time to first token and time per token.
    pub predictor: PoolPredictor,
    /// Distributions of answer lengths.
    pub outputs: PoolOutputs,
    /// Budgets for retries on the same backend, by caller.
    pub retries: retry::Budgets,
    /// Nanoseconds of the [`Moment`] until which some backend is left out for an endpoint.
    pub(super) left_out_until: AtomicU64,
    /// Budget for hedged requests.
    pub hedges: Budget,
}

impl Default for PoolLearned {
    fn default() -> Self {
        Self {
            predictor: PoolPredictor::new(),
            outputs: PoolOutputs::default(),
            retries: retry::Budgets::default(),
            left_out_until: AtomicU64::new(0),
            hedges: hedge::budget(),
        }
    }
}
