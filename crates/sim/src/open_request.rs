//! A request in progress at a simulated gateway, and its placement.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use super::{cluster::AttemptId, traffic::Request};
use signalbox_fleet::{Placement, PlacementQuery, Pool, Scratch};
use signalbox_policy::Route;
use signalbox_prompt::Blocks;
use signalbox_schedule::{
    admission::{WaitLimit, wait_limit},
    hedge::Awaited,
    predict::OutputLengths,
};
use signalbox_types::Moment;

pub(super) struct OpenRequest {
    blocks: Blocks,
    whole: bool,
    session: Option<u64>,
    /// Tokens of prompt and answer together.
    tokens: u32,
    max_tokens: Option<u64>,
    priority: u8,
    arrived: Moment,
    route: Arc<Route>,
    /// Output length statistics, by target.
    outputs: Vec<Arc<OutputLengths>>,
    /// Indexes of the backends tried, by target.
    tried: Vec<Vec<usize>>,
    /// Target of the last attempt.
    target: usize,
    attempts: Vec<AttemptId>,
    /// Prediction for the first attempt, while a hedge may still be sent.
    pub(super) awaited: Option<Awaited>,
    /// True if there was room when it was queued, but on an engine that is better left as it is.
    pub(super) kept: bool,
    /// True if the answer is worthless after its wait expires.
    pub(super) ends_late: bool,
    /// Hash of its placement constraints: waiting requests of one kind all find room, or none does.
    pub(super) kind: u64,
}

/// A placement that was not reserved yet.
#[derive(Copy, Clone)]
pub(super) struct Chosen {
    /// Index of the target in the route, and of its pool in the policy.
    pub(super) target: usize,
    pub(super) pool: usize,
    pub(super) placement: Placement,
    /// Requests in flight on the engine.
    pub(super) in_flight: u32,
    /// Probability that the request's limits are met.
    pub(super) attainment: f64,
    /// True if the engine failed lately, like all others of the pool.
    pub(super) avoided: bool,
    /// True if the request should wait for now although an engine has room.
    pub(super) held: bool,
    /// Number of backends that were compared.
    pub(super) weighed: usize,
}

impl OpenRequest {
    pub(super) fn new(
        request: &Request,
        blocks: Blocks,
        route: Arc<Route>,
        priority: u8,
        max_tokens: Option<u64>,
        pools: &[Pool],
        now: Moment,
    ) -> Self {
        let outputs = route.targets.iter().map(|target| pools[target.pool].learned.outputs.of(target, &route.name));
        Self {
            blocks,
            whole: request.whole,
            session: request.session,
            tokens: request.job.prompt_tokens.saturating_add(request.job.output_tokens),
            max_tokens,
            priority,
            arrived: now,
            outputs: outputs.collect(),
            tried: vec![Vec::new(); route.targets.len()],
            route,
            target: 0,
            attempts: Vec::new(),
            awaited: None,
            kept: false,
            ends_late: false,
            kind: 0,
        }
    }

    pub(super) fn route(&self) -> &Route {
        &self.route
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(super) fn outputs(&self, target: usize) -> &Arc<OutputLengths> {
        &self.outputs[target]
    }

    pub(super) fn attempts(&self) -> &[AttemptId] {
        &self.attempts
    }

    pub(super) const fn whole(&self) -> bool {
        self.whole
    }

    pub(super) const fn tokens(&self) -> u32 {
        self.tokens
    }

    pub(super) const fn priority(&self) -> u8 {
        self.priority
    }

    pub(super) const fn session(&self) -> Option<u64> {
        self.session
    }

    pub(super) const fn arrived(&self) -> Moment {
        self.arrived
    }

    pub(super) const fn target(&self) -> usize {
        self.target
    }

    /// True before the first attempt.
    pub(super) fn is_new(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Records an attempt at a backend.
    pub(super) fn tries(&mut self, target: usize, backend: usize, attempt: AttemptId) {
        self.tried[target].push(backend);
        self.target = target;
        self.attempts.push(attempt);
    }

    /// Index of the first target with an untried backend.
    pub(super) fn preferred(&self, pools: &[Pool]) -> Option<usize> {
        let left = |(target, tried): (&signalbox_policy::Target, &Vec<usize>)| {
            pools[target.pool].members(target).any(|member| !tried.contains(&member))
        };
        self.route.targets.iter().zip(&self.tried).position(left)
    }

    /// Marks it as queued and fixes its kind: route and tried backends.
    pub(super) fn begin_to_wait(&mut self, kept: bool) {
        let mut hasher = DefaultHasher::new();
        (&self.route.name, &self.route.targets, self.route.spill, &self.tried).hash(&mut hasher);
        (self.kept, self.kind) = (kept, hasher.finish());
    }

    /// Rest of the route's bound on TTFT.
    pub(super) fn bound(&self, now: Moment) -> Option<Duration> {
        self.route.bound.map(|bound| bound.saturating_sub(now.since(self.arrived)))
    }

    /// Time that it may wait; `usual` applies if the route does not set one.
    pub(super) fn wait_limit(&self, usual: Duration, now: Moment) -> WaitLimit {
        let left = self.route.timeouts.total.map(|total| total.saturating_sub(now.since(self.arrived)));
        let bound = self.bound(now).filter(|_| self.is_new());
        wait_limit(self.route.queue.unwrap_or(usual), left, bound, self.kept)
    }

    /// Limits on TTFT and TPOT in a pool.
    pub(super) fn limits(&self, target: usize, pools: &[Pool], now: Moment) -> (Option<Duration>, Option<Duration>) {
        let objectives = &pools[self.route.targets[target].pool].spec.objectives;
        (self.bound(now).into_iter().chain(objectives.ttft()).min(), objectives.tpot())
    }

    /// The best untried backend of a target with room.
    pub(super) fn look(
        &self,
        target: usize,
        pools: &[Pool],
        now: Moment,
        chance: f64,
        scratch: &mut Scratch,
    ) -> Option<Chosen> {
        let at = &self.route.targets[target];
        let (ttft_limit, tpot_limit) = self.limits(target, pools, now);
        let ask = PlacementQuery {
            target: at,
            tried: &self.tried[target],
            prompt: self.blocks.prompt(),
            session: self.session,
            room_only: true,
            outputs: &self.outputs[target],
            max_tokens: self.max_tokens,
            whole: self.whole,
            bounded: self.route.bound.is_some(),
            ttft_limit,
            tpot_limit,
        };
        let placement = pools[at.pool].place(&ask, now, chance, scratch)?;
        let candidate = &scratch.candidates[placement.choice.index];
        Some(Chosen {
            target,
            pool: at.pool,
            placement,
            in_flight: candidate.in_flight,
            attainment: candidate.attainment,
            avoided: candidate.avoided,
            held: placement.held && self.is_new(),
            weighed: scratch.candidates.len(),
        })
    }
}
