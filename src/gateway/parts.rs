//! The long-lived parts of the gateway, put together once. [`walk`](super::walk) hands each step those that it uses.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arc_swap::ArcSwapOption;

use super::{
    body_memory::BodyMemory, estimator::Estimator, placement::PlacementState, record::Settlement, route::RouteContext,
    serving::Serving, wait_queue::WaitQueues,
};
use crate::{
    accounting::Accounting,
    answers::Answers,
    fleet::Snapshot,
    journal::DecisionLog,
    learning::Learning,
    otel::Exporter,
    policy::{Policy, Tokenizer},
    prompt::tokens::TokenizerSlot,
    telemetry::Metrics,
    types::Clock,
};

/// The long-lived parts of the gateway. They outlive policies.
pub struct Parts {
    /// The gateway's clock.
    pub clock: Clock,
    /// All metrics.
    pub metrics: Metrics,
    /// What callers used and were promised.
    pub accounting: Arc<Accounting>,
    /// Kept answers.
    pub answers: Arc<Answers>,
    /// The record of finished requests.
    pub decisions: Arc<DecisionLog>,
    /// What routes learn of their own traffic.
    pub learning: Arc<Learning>,
    /// The queues of requests that wait for room.
    pub queues: Arc<WaitQueues>,
    /// The exporter of traces, while the policy asks for one.
    pub otel: Arc<ArcSwapOption<Exporter>>,
    pub(super) estimator: Arc<Estimator>,
    /// Bodies of requests in memory.
    pub(super) held: Arc<BodyMemory>,
    pub(super) placement: Arc<PlacementState>,
    pub(super) routing: Arc<RouteContext>,
    pub(super) settlement: Arc<Settlement>,
}

impl Parts {
    /// Parts that have seen no request.
    pub fn new(clock: Clock) -> Self {
        let metrics = Metrics::new();
        let accounting = Arc::new(Accounting::new(metrics.clone()));
        let decisions: Arc<DecisionLog> = Arc::default();
        let learning: Arc<Learning> = Arc::default();
        let queues: Arc<WaitQueues> = Arc::default();
        let estimator: Arc<Estimator> = Arc::default();
        let routing = RouteContext {
            clock,
            estimator: estimator.clone(),
            learning: learning.clone(),
            queues: queues.clone(),
            accounting: accounting.clone(),
            decisions: decisions.clone(),
        };
        let settlement = Settlement {
            clock,
            metrics: metrics.clone(),
            accounting: accounting.clone(),
            decisions: decisions.clone(),
            learning: learning.clone(),
            stopping: AtomicBool::new(false),
        };
        Self {
            answers: Arc::new(Answers::new(clock, metrics.clone())),
            placement: Arc::new(PlacementState::new(clock, queues.clone())),
            otel: Arc::default(),
            held: Arc::default(),
            routing: Arc::new(routing),
            settlement: Arc::new(settlement),
            clock,
            metrics,
            accounting,
            decisions,
            learning,
            queues,
            estimator,
        }
    }

    /// Ends what is left under way: requests that are dropped from now on count as stopped by the gateway.
    pub fn stop(&self) {
        self.settlement.stopping.store(true, Relaxed);
    }

    /// Applies another policy. What belongs to routes that are gone is dropped.
    pub fn apply_policy(&self, policy: &Policy) {
        self.accounting.apply_policy(policy, self.clock.now());
        self.answers.apply_policy(policy);
        self.learning.apply_policy(policy);
        self.placement.apply_policy(policy);
    }

    /// Makes `snapshot` ready to be served: drops the metrics of what is gone and takes handles for every backend. `source` gives the
    /// tokenizer that a pool's prompts are counted with.
    pub fn serving(&self, snapshot: Snapshot, source: impl Fn(&Tokenizer) -> Arc<TokenizerSlot>) -> Serving {
        Serving::new(snapshot, (&self.metrics, &self.estimator, &self.accounting.callers), source, self.clock.now())
    }
}
