//! Routers: select the route of each simulated request.

use std::sync::Arc;

use super::traffic::Request;
use signalbox_fleet::Snapshot;
use signalbox_measure::{Rate, RateSpan};
use signalbox_policy::Route;
use signalbox_telemetry::PoolMetrics;
use signalbox_types::Moment;

/// State of the simulated gateway when a request arrives.
#[derive(Copy, Clone)]
pub struct Scene<'a> {
    /// Current time.
    pub now: Moment,
    /// The running policy.
    pub snapshot: &'a Snapshot,
    /// Recent figures of each pool.
    pub meters: &'a [Meter],
    /// Queue depth of each pool.
    pub waiting: &'a [usize],
    /// The prompt as the scheduler sees it.
    pub prompt: signalbox_types::Prompt<'a>,
}

/// Recent figures of a pool, for conditions.
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

    /// Records the end of a request and whether it kept the pool's objectives.
    pub(super) fn ended(&self, kept: bool, now: Moment) {
        self.ended.record(1, now);
        self.kept.record(u64::from(kept), now);
    }

    /// 95th percentile of TTFT over the last minute, in seconds; 0 without requests.
    pub fn ttft_p95(&self, now: Moment) -> f64 {
        self.metrics.ttft_p95(now)
    }

    /// Share of requests that kept the pool's objectives over the last minute; 1 without requests.
    pub fn attainment(&self, now: Moment) -> f64 {
        let ended = self.ended.per_second(RateSpan::Minute, now);
        if ended > 0.0 { (self.kept.per_second(RateSpan::Minute, now) / ended).min(1.0) } else { 1.0 }
    }
}

/// Route of a request with its other settings.
#[derive(Clone, Debug)]
pub struct Directed {
    /// The route, with only the pools that can serve the request.
    pub route: Arc<Route>,
    /// Priority in the queue, 0 to 9.
    pub priority: u8,
    /// The client's limit on the answer, in tokens.
    pub max_tokens: Option<u64>,
}

/// Selects routes.
pub trait Router {
    /// Route of request `number`; `None` if no rule matches.
    fn direct(&mut self, number: u32, request: &Request, scene: &Scene<'_>) -> Option<Directed>;
}

/// The same route for every request.
pub struct Fixed(pub Arc<Route>);

impl Router for Fixed {
    fn direct(&mut self, _: u32, _: &Request, _: &Scene<'_>) -> Option<Directed> {
        Some(Directed { route: self.0.clone(), priority: signalbox_policy::PRIORITY, max_tokens: None })
    }
}
