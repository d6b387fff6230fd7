//! A request that a simulated gateway has not answered yet: where it may still go, and what it finds there.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use super::{cluster::AttemptId, traffic::Request};
use crate::{
    fleet::{Ask, Placement, Pool, Scratch},
    policy::Route,
    prompt::Blocks,
    schedule::{
        admission::{Patience, patience},
        hedge::Awaited,
        predict::OutputLengths,
    },
    types::Moment,
};

pub(super) struct OpenRequest {
    blocks: Blocks,
    whole: bool,
    session: Option<u64>,
    /// Tokens of its prompt and its answer.
    tokens: u32,
    max_tokens: Option<u64>,
    priority: u8,
    arrived: Moment,
    route: Arc<Route>,
    /// How long answers are, by target.
    outputs: Vec<Arc<OutputLengths>>,
    /// Places of the backends tried, by target.
    tried: Vec<Vec<usize>>,
    /// The target it was sent to last.
    target: usize,
    attempts: Vec<AttemptId>,
    /// What is expected of the first try, while a hedge may still be sent.
    pub(super) awaited: Option<Awaited>,
    /// Whether there was room for it when it came to wait, at an engine with enough to do.
    pub(super) kept: bool,
    /// Whether its answer is of no use once its wait is over.
    pub(super) ends_late: bool,
    /// Those that wait with the same one find room or none alike.
    pub(super) kind: u64,
}

/// A choice that nothing was done about yet.
#[derive(Copy, Clone)]
pub(super) struct Chosen {
    /// Place of the target in the route, and of its pool in the policy.
    pub(super) target: usize,
    pub(super) pool: usize,
    pub(super) placement: Placement,
    /// Requests on its engine.
    pub(super) in_flight: u32,
    /// The chance that the request's limits are kept.
    pub(super) attainment: f64,
    /// Whether its engine failed lately, like all others there.
    pub(super) avoided: bool,
    /// Whether the request is better kept for now.
    pub(super) held: bool,
    /// How many backends were weighed.
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

    pub(super) const fn arrived(&self) -> Moment {
        self.arrived
    }

    pub(super) const fn target(&self) -> usize {
        self.target
    }

    /// Whether nothing was tried yet.
    pub(super) fn is_new(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Notes that a backend of a target is tried now.
    pub(super) fn tries(&mut self, target: usize, backend: usize, attempt: AttemptId) {
        self.tried[target].push(backend);
        self.target = target;
        self.attempts.push(attempt);
    }

    /// The first target that has a backend left.
    pub(super) fn preferred(&self, pools: &[Pool]) -> Option<usize> {
        let left = |(target, tried): (&crate::policy::Target, &Vec<usize>)| {
            pools[target.pool].members(target).any(|member| !tried.contains(&member))
        };
        self.route.targets.iter().zip(&self.tried).position(left)
    }

    /// It begins to wait: what counts then is where it may go, and what was tried there.
    pub(super) fn begin_to_wait(&mut self, kept: bool) {
        let mut hasher = DefaultHasher::new();
        (&self.route.name, &self.route.targets, self.route.spill, &self.tried).hash(&mut hasher);
        (self.kept, self.kind) = (kept, hasher.finish());
    }

    /// What is left of the time that the route gives to the first token.
    pub(super) fn bound(&self, now: Moment) -> Option<Duration> {
        self.route.bound.map(|bound| bound.saturating_sub(now.since(self.arrived)))
    }

    /// How long it can wait for room, where its route says nothing else of that than `usual`.
    pub(super) fn patience(&self, usual: Duration, now: Moment) -> Patience {
        let left = self.route.timeouts.total.map(|total| total.saturating_sub(now.since(self.arrived)));
        let bound = self.bound(now).filter(|_| self.is_new());
        patience(self.route.queue.unwrap_or(usual), left, bound, self.kept)
    }

    /// What it has to keep to in a pool: on the time to its first token, and on the time per further token.
    pub(super) fn limits(&self, target: usize, pools: &[Pool], now: Moment) -> (Option<Duration>, Option<Duration>) {
        let objectives = &pools[self.route.targets[target].pool].spec.objectives;
        (self.bound(now).into_iter().chain(objectives.ttft()).min(), objectives.tpot())
    }

    /// The best backend of a target that was not tried and has room.
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
        let ask = Ask {
            target: at,
            tried: &self.tried[target],
            prompt: self.blocks.prompt(),
            session: self.session,
            room_only: true,
            outputs: &self.outputs[target],
            max_tokens: self.max_tokens,
            whole: self.whole,
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
