//! The state that all baselines share: an exact account of the requests they sent to each engine and of their results.
//!
//! It is more exact than the originals. Prefixes are tracked per engine as LRU blocks bounded by the engine's real cache (originals
//! match characters, or keep blocks that were evicted long ago). Counts change at once with each decision and first token. An engine
//! that fails or stays silent is excluded for five seconds, and its cached prefixes are forgotten.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use signalbox::{
    sim::{Gauges, Job},
    types::Moment,
};

use crate::{learner::Learner, workload::BLOCK};

/// Time for which a failed engine is excluded.
pub(crate) const DOWN: Duration = Duration::from_secs(5);

/// Decay time of Finagle's `PeakEWMA`.
const PEAK_SECONDS: f64 = 10.0;

/// Times to first token that are kept per engine.
const REMEMBERED: usize = 32;

/// A request to place.
pub(crate) struct Ask<'a> {
    pub(crate) now: Moment,
    pub(crate) job: &'a Job,
    /// Predictions, for rules that were given them.
    pub(crate) learner: Option<&'a Learner>,
}

/// The state of one engine, as the baselines know it.
pub(crate) struct Known {
    pub(crate) engine: usize,
    /// Requests in flight.
    pub(crate) in_flight: u32,
    /// Of these, requests without a first token.
    pub(crate) waiting: u32,
    /// Their uncached prompt tokens, as predicted.
    pub(crate) queued: u64,
    /// Those of streamed answers.
    pub(crate) streamed: u64,
    /// Time since which the engine could compute the oldest of these.
    pub(crate) started: Moment,
    /// Prompt tokens of all requests in flight.
    pub(crate) context: u64,
    /// Size of its KV cache.
    pub(crate) kv_tokens: u64,
    /// Leading blocks of the arriving prompt in its cache, where that is known exactly.
    pub(crate) cached: Option<usize>,
    /// The last scraped gauges.
    pub(crate) gauges: Option<Gauges>,
    prefixes: Prefixes,
    /// Blocks of requests in flight: holders of each, and the number of blocks that cannot be shared.
    active: HashMap<u64, u32>,
    unshared: u64,
    /// Peak-sensitive moving average of TTFT in seconds, and the time of its last update.
    peak: (f64, Moment),
    /// The last times to first token, each with the number of requests in flight when it was sent.
    recent: VecDeque<(u32, f64)>,
    pub(crate) failed: Option<Moment>,
}

impl Known {
    pub(crate) fn new(engine: usize, kv_tokens: u32) -> Self {
        Self {
            engine,
            in_flight: 0,
            waiting: 0,
            queued: 0,
            streamed: 0,
            started: Moment::default(),
            context: 0,
            kv_tokens: kv_tokens.into(),
            cached: None,
            gauges: None,
            prefixes: Prefixes::new((kv_tokens / BLOCK) as usize),
            active: HashMap::new(),
            unshared: 0,
            peak: (0.0, Moment::default()),
            recent: VecDeque::new(),
            failed: None,
        }
    }

    /// Prompt tokens that are presumably cached.
    pub(crate) fn matched(&self, job: &Job) -> u64 {
        let blocks = match self.cached {
            // Those of requests in flight will be there before it.
            Some(cached) => {
                let there = |(at, block): &(usize, &u64)| *at < cached || self.active.contains_key(block);
                job.blocks.iter().enumerate().take_while(there).count()
            }
            None => self.prefixes.matched(&job.blocks),
        };
        blocks as u64 * u64::from(BLOCK)
    }

    /// Share of a prompt that is presumably cached.
    pub(crate) fn share(&self, job: &Job) -> f64 {
        self.matched(job) as f64 / f64::from(job.prompt_tokens.max(1))
    }

    /// Prompt tokens that are presumably not cached, at least 32.
    pub(crate) fn uncached(&self, job: &Job) -> f64 {
        u64::from(job.prompt_tokens).saturating_sub(self.matched(job)).max(32) as f64
    }

    /// Distinct blocks in use after `job` was added.
    pub(crate) fn blocks_with(&self, job: &Job) -> u64 {
        let new = job.blocks.iter().filter(|block| !self.active.contains_key(block)).count();
        self.active.len() as u64 + self.unshared + new as u64 + unshared(job)
    }

    /// The share of `queued` tokens there whose first token will be seen.
    pub(crate) fn seen(&self, queued: u64) -> f64 {
        (self.streamed as f64 / queued.max(1) as f64).min(1.0)
    }

    /// Finagle's cost: the decayed peak times the requests in flight with this one. An engine that has requests but has never answered costs most.
    pub(crate) fn peak_cost(&self, now: Moment) -> f64 {
        let decayed = self.peak.0 * (-now.since(self.peak.1).as_secs_f64() / PEAK_SECONDS).exp();
        if decayed == 0.0 && self.in_flight > 0 { 1e9 } else { decayed * f64::from(self.in_flight + 1) }
    }

    /// The median time to first token at about the current load.
    pub(crate) fn latency(&self) -> f64 {
        let mut nearest: Vec<(u32, f64)> =
            self.recent.iter().map(|&(load, ttft)| (load.abs_diff(self.in_flight), ttft)).collect();
        nearest.sort_unstable_by_key(|near| near.0);
        nearest.truncate(REMEMBERED / 2);
        nearest.sort_unstable_by(|one, other| one.1.total_cmp(&other.1));
        nearest.get(nearest.len() / 2).map_or(0.0, |near| near.1)
    }

    /// Counts a request that was sent there.
    pub(crate) fn send(&mut self, now: Moment, job: &Job, uncached: u64, streamed: bool) {
        self.prefixes.insert(&job.blocks);
        self.hold(job);
        self.in_flight += 1;
        self.waiting += 1;
        self.queued += uncached;
        self.context += u64::from(job.prompt_tokens);
        if streamed {
            if self.streamed == 0 {
                self.started = now;
            }
            self.streamed += uncached;
        }
    }

    /// Removes a prompt from the queue.
    pub(crate) fn begin(&mut self, now: Moment, uncached: u64, streamed: bool) {
        self.waiting -= 1;
        self.queued -= uncached;
        if streamed {
            self.streamed -= uncached;
            self.started = now;
        }
    }

    /// Removes a request.
    pub(crate) fn end(&mut self, job: &Job) {
        self.in_flight -= 1;
        self.context -= u64::from(job.prompt_tokens);
        self.release(job);
    }

    /// Records a time to first token.
    pub(crate) fn observe(&mut self, now: Moment, load: u32, ttft: f64) {
        let kept = (-now.since(self.peak.1).as_secs_f64() / PEAK_SECONDS).exp();
        let value = if ttft > self.peak.0 { ttft } else { self.peak.0 * kept + ttft * (1.0 - kept) };
        self.peak = (value, now);
        self.recent.push_back((load, ttft));
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
    }

    fn hold(&mut self, job: &Job) {
        for &block in &*job.blocks {
            *self.active.entry(block).or_default() += 1;
        }
        self.unshared += unshared(job);
    }

    fn release(&mut self, job: &Job) {
        for block in &*job.blocks {
            if let Some(holders) = self.active.get_mut(block) {
                *holders -= 1;
                if *holders == 0 {
                    self.active.remove(block);
                }
            }
        }
        self.unshared -= unshared(job);
    }

    /// Excludes it for a while, without its cached prefixes.
    pub(crate) fn mark_failed(&mut self, now: Moment) {
        self.failed = Some(now);
        self.prefixes = Prefixes::new(self.prefixes.capacity);
    }
}

/// Blocks of a prompt that no other prompt can share.
fn unshared(job: &Job) -> u64 {
    u64::from(job.prompt_tokens.div_ceil(BLOCK)).saturating_sub(job.blocks.len() as u64)
}

/// A rule that chooses an engine.
pub(crate) trait Rule {
    /// Returns the engine for `ask`: one of `up`, which is not empty.
    fn pick(&mut self, ask: &Ask<'_>, up: &[&Known], dice: &mut fastrand::Rng) -> usize;
}

impl<F: FnMut(&Ask<'_>, &[&Known], &mut fastrand::Rng) -> usize> Rule for F {
    fn pick(&mut self, ask: &Ask<'_>, up: &[&Known], dice: &mut fastrand::Rng) -> usize {
        self(ask, up, dice)
    }
}

/// Presumed content of an engine's prefix cache: blocks by last use, bounded by its capacity.
struct Prefixes {
    capacity: usize,
    clock: u64,
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

impl Prefixes {
    fn new(capacity: usize) -> Self {
        Self { capacity, clock: 0, used: HashMap::new(), order: BTreeMap::new() }
    }

    fn matched(&self, blocks: &[u64]) -> usize {
        blocks.iter().take_while(|block| self.used.contains_key(block)).count()
    }

    /// Marks the deepest blocks as used first, so that a prefix is evicted after the blocks that follow it.
    fn insert(&mut self, blocks: &[u64]) {
        for &block in blocks.iter().rev() {
            self.clock += 1;
            if let Some(before) = self.used.insert(block, self.clock) {
                self.order.remove(&before);
            }
            self.order.insert(self.clock, block);
        }
        while self.used.len() > self.capacity {
            let Some((_, block)) = self.order.pop_first() else { break };
            self.used.remove(&block);
        }
    }
}
