//! The state that all baselines share: an exact account of the requests they sent to each engine and of their results.
//!
//! It is more exact than the originals. Prefixes are tracked per engine as LRU blocks bounded by the engine's real cache (originals
//! match characters, or keep blocks that were evicted long ago). Counts change at once with each decision and first token. An engine
//! that fails or stays silent is excluded for five seconds, and its cached prefixes are forgotten.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
    time::Duration,
};

use signalbox::{
    sim::{
        Gauges, Job,
        cluster::{Answer, AttemptId, Command, Scheduler},
        traffic::Request,
    },
    types::Moment,
};

use crate::workload::BLOCK;

/// Time for which a failed engine is excluded.
const DOWN: Duration = Duration::from_secs(5);

/// Decay time of Finagle's `PeakEWMA`.
const PEAK_SECONDS: f64 = 10.0;

/// Times to first token that are kept per engine.
const REMEMBERED: usize = 32;

/// A request to place.
pub(crate) struct Ask<'a> {
    pub(crate) now: Moment,
    pub(crate) job: &'a Job,
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
    /// Prompt tokens of all requests in flight.
    pub(crate) context: u64,
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
    failed: Option<Moment>,
}

impl Known {
    fn new(engine: usize, kv_tokens: u32) -> Self {
        Self {
            engine,
            in_flight: 0,
            waiting: 0,
            queued: 0,
            context: 0,
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
        self.prefixes.matched(&job.blocks) as u64 * u64::from(BLOCK)
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

    fn observe(&mut self, now: Moment, load: u32, ttft: f64) {
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

    fn mark_failed(&mut self, now: Moment) {
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

struct Sent {
    request: u32,
    engine: usize,
    at: Moment,
    /// Requests in flight there before it.
    load: u32,
    job: Job,
    uncached: u64,
    waiting: bool,
    open: bool,
}

/// A request under way: the number of its attempts, and the last one.
struct Pending {
    request: Request,
    tries: usize,
    attempt: AttemptId,
}

/// A scheduler that sends each request at once to the engine that its rule picks, and to another engine if that one fails before the
/// first token.
pub(crate) struct Simple<R> {
    rule: R,
    dice: fastrand::Rng,
    engines: Vec<Known>,
    sent: Vec<Sent>,
    pending: HashMap<u32, Pending>,
}

impl<R: Rule> Simple<R> {
    pub(crate) fn new(rule: R, engines: usize, kv_tokens: u32, seed: u64) -> Self {
        Self {
            rule,
            dice: fastrand::Rng::with_seed(seed ^ 0xBA5E),
            engines: (0..engines).map(|engine| Known::new(engine, kv_tokens)).collect(),
            sent: Vec::new(),
            pending: HashMap::new(),
        }
    }

    fn place(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.tries += 1;
        if pending.tries > self.engines.len() {
            self.pending.remove(&number);
            out.push(Command::Refuse(number));
            return;
        }
        let up = |known: &&Known| known.failed.is_none_or(|then| now.since(then) >= DOWN);
        let mut choice: Vec<&Known> = self.engines.iter().filter(up).collect();
        if choice.is_empty() {
            choice.extend(&self.engines);
        }
        let job = &pending.request.job;
        let engine = self.rule.pick(&Ask { now, job }, &choice, &mut self.dice);
        pending.attempt = self.sent.len() as AttemptId;
        let known = &mut self.engines[engine];
        let uncached = u64::from(job.prompt_tokens).saturating_sub(known.matched(job)).max(1);
        let load = known.in_flight;
        known.prefixes.insert(&job.blocks);
        known.hold(job);
        known.in_flight += 1;
        known.waiting += 1;
        known.queued += uncached;
        known.context += u64::from(job.prompt_tokens);
        let job = job.clone();
        self.sent.push(Sent { request: number, engine, at: now, load, job, uncached, waiting: true, open: true });
        out.push(Command::Send { request: number, engine });
    }

    /// Removes its prompt from the queue; returns true if it was in it.
    fn leave_queue(&mut self, attempt: AttemptId) -> bool {
        let sent = &mut self.sent[attempt as usize];
        let waited = mem::replace(&mut sent.waiting, false);
        if waited {
            let known = &mut self.engines[sent.engine];
            known.waiting -= 1;
            known.queued -= sent.uncached;
        }
        waited
    }

    fn answered(&mut self, now: Moment, attempt: AttemptId) {
        if self.leave_queue(attempt) {
            let sent = &self.sent[attempt as usize];
            self.engines[sent.engine].observe(now, sent.load, now.since(sent.at).as_secs_f64());
        }
    }

    fn end(&mut self, attempt: AttemptId) {
        self.leave_queue(attempt);
        let sent = &mut self.sent[attempt as usize];
        if mem::replace(&mut sent.open, false) {
            let job = mem::take(&mut sent.job);
            let known = &mut self.engines[sent.engine];
            known.in_flight -= 1;
            known.context -= u64::from(job.prompt_tokens);
            known.release(&job);
        }
    }
}

impl<R: Rule> Scheduler for Simple<R> {
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        self.pending.insert(number, Pending { request: request.clone(), tries: 0, attempt: 0 });
        self.place(now, number, out);
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, _: &mut Vec<Command>) {
        self.answered(now, attempt);
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, _: Answer, _: &mut Vec<Command>) {
        self.answered(now, attempt);
        self.end(attempt);
        self.pending.remove(&self.sent[attempt as usize].request);
    }

    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        let Sent { request, engine, waiting, .. } = self.sent[attempt as usize];
        self.engines[engine].mark_failed(now);
        self.end(attempt);
        if waiting {
            self.place(now, request, out);
        } else {
            self.pending.remove(&request);
        }
    }

    fn left(&mut self, _: Moment, number: u32, out: &mut Vec<Command>) {
        if let Some(pending) = self.pending.remove(&number) {
            self.end(pending.attempt);
            out.push(Command::Cancel(pending.attempt));
        }
    }

    fn scraped(&mut self, now: Moment, engine: usize, gauges: Option<Gauges>, _: &mut Vec<Command>) {
        let known = &mut self.engines[engine];
        match gauges {
            Some(_) => known.gauges = gauges,
            None => known.mark_failed(now),
        }
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
