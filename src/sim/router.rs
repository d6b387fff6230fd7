//! What decides by which route each simulated request goes.

use std::sync::Arc;

use super::traffic::Request;
use crate::{
    fleet::Snapshot,
    measure::{Rate, RateSpan},
    policy::Route,
    telemetry::PoolMetrics,
    types::Moment,
};

/// What a simulated gateway is like when a request comes.
#[derive(Copy, Clone)]
pub struct Scene<'a> {
    /// The present.
    pub now: Moment,
    /// The policy, alive.
    pub snapshot: &'a Snapshot,
    /// How each of its pools fared lately.
    pub meters: &'a [Meter],
    /// How many requests wait for room in each.
    pub waiting: &'a [usize],
    /// The prompt, as the scheduler sees it.
    pub prompt: crate::types::Prompt<'a>,
}

/// How a pool fared lately, for conditions to ask.
pub struct Meter {
    metrics: Arc<PoolMetrics>,
    ended: Rate,
    kept: Rate,
}

impl Meter {
    pub(super) fn new(metrics: Arc<PoolMetrics>) -> Self {
        Self { metrics, ended: Rate::new(), kept: Rate::new() }
    }

    pub(super) fn ttft(&self, seconds: f64, now: Moment) {
        self.metrics.ttft(seconds, now);
    }

    /// A request ended, and whether it kept the pool's objectives.
    pub(super) fn ended(&self, kept: bool, now: Moment) {
        self.ended.record(1, now);
        self.kept.record(u64::from(kept), now);
    }

    /// The 95th percentile of the time to the first token over the last minute, in seconds; 0 where there was none.
    pub fn ttft_p95(&self, now: Moment) -> f64 {
        self.metrics.ttft_p95(now)
    }

    /// The share of requests that kept the pool's objectives over the last minute; 1 where there was none.
    pub fn attainment(&self, now: Moment) -> f64 {
        let ended = self.ended.per_second(RateSpan::Minute, now);
        if ended > 0.0 { (self.kept.per_second(RateSpan::Minute, now) / ended).min(1.0) } else { 1.0 }
    }
}

/// Where a request goes, and what else its policy says of it.
#[derive(Clone, Debug)]
pub struct Directed {
    /// The route: only pools that can take it.
    pub route: Arc<Route>,
    /// How urgent it is where it has to wait, from 0 to 9.
    pub priority: u8,
    /// The client's limit on its answer, in tokens.
    pub max_tokens: Option<u64>,
}

/// Gives requests their routes.
pub trait Router {
    /// Where request number `number` goes; `None` where the policy has no way for it.
    fn direct(&mut self, number: u32, request: &Request, scene: &Scene<'_>) -> Option<Directed>;
}

/// The same route for all.
pub struct Fixed(pub Arc<Route>);

impl Router for Fixed {
    fn direct(&mut self, _: u32, _: &Request, _: &Scene<'_>) -> Option<Directed> {
        Some(Directed { route: self.0.clone(), priority: crate::policy::PRIORITY, max_tokens: None })
    }
}
