//! Long-lived components of the gateway, built once. [`walk`](super::walk) hands each step those that it uses.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arc_swap::ArcSwapOption;

use super::{
    body_memory::BodyMemory, descriptors::Descriptors, estimator::Estimator, placement::PlacementState,
    record::Settlement, route::RouteContext, serving::Serving, wait_queue::WaitQueues,
};
use signalbox_accounting::Accounting;
use signalbox_answers::Answers;
use signalbox_coordination::PlacementGroup;
use signalbox_fleet::{Registry, Snapshot};
use signalbox_journal::DecisionLog;
use signalbox_learning::Learning;
use signalbox_otel::{ExportState, Exporter};
use signalbox_policy::{Policy, Tokenizer};
use signalbox_prompt::tokens::TokenizerSlot;
use signalbox_redis::LinkError;
use signalbox_telemetry::Metrics;
use signalbox_types::Clock;

/// Long-lived components of the gateway. They outlive policies.
pub struct Parts {
    /// The gateway's clock.
    pub clock: Clock,
    /// All metrics.
    pub metrics: Metrics,
    /// Usage and reservations of callers.
    pub accounting: Arc<Accounting>,
    /// Cached answers.
    pub answers: Arc<Answers>,
    /// Log of finished requests.
    pub decisions: Arc<DecisionLog>,
    /// State that routes learn from their own traffic.
    pub learning: Arc<Learning>,
    /// Wait queues of the pools.
    pub queues: Arc<WaitQueues>,
    /// Exporter of traces, if the policy enables it.
    pub otel: Arc<ArcSwapOption<Exporter>>,
    /// Identity of the process for the exporter, and its losses.
    pub export: Arc<ExportState>,
    /// Gateways that place requests together with this one.
    pub placement_group: PlacementGroup,
    /// Open descriptors of the process.
    pub descriptors: Arc<Descriptors>,
    pub(super) estimator: Arc<Estimator>,
    /// Memory of request bodies.
    pub(super) held: Arc<BodyMemory>,
    pub(super) placement: Arc<PlacementState>,
    pub(super) routing: Arc<RouteContext>,
    pub(super) settlement: Arc<Settlement>,
}

impl Parts {
    /// Creates the components in their initial state.
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
            export: Arc::default(),
            placement_group: PlacementGroup::default(),
            descriptors: Arc::default(),
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

    /// Marks the gateway as stopping: requests dropped from now on count as stopped by the gateway.
    pub fn stop(&self) {
        self.settlement.stopping.store(true, Relaxed);
    }

    /// Applies a new policy and drops the state of removed routes.
    pub fn apply_policy(&self, policy: &Policy) {
        self.accounting.apply_policy(policy, self.clock.now());
        self.answers.apply_policy(policy);
        self.learning.apply_policy(policy);
        self.placement.apply_policy(policy);
    }

    /// Shares with other gateways what each has on engines, as `policy` says. Call it within a runtime.
    ///
    /// # Errors
    /// [`LinkError`] where the server's address cannot be used; nothing changes then.
    pub fn share_placement(&self, policy: &Policy, registry: &Arc<Registry>) -> Result<(), LinkError> {
        let salt = self.placement_group.apply_policy(policy, registry, (self.clock, &self.metrics))?;
        self.estimator.set_group_salt(salt);
        Ok(())
    }

    /// Prepares `snapshot` for serving: drops the metrics of removed pools, backends, routes and keys, and creates
    /// handles for every backend. `source` returns the tokenizer that counts a pool's prompts.
    pub fn serving(&self, snapshot: Snapshot, source: impl Fn(&Tokenizer) -> Arc<TokenizerSlot>) -> Serving {
        Serving::new(snapshot, (&self.metrics, &self.estimator, &self.accounting.callers), source, self.clock.now())
    }
}
