//! State shared by all placements: the queues, and the pool that each route used last.

use std::sync::Arc;

use dashmap::DashMap;

use crate::wait_queue::WaitQueues;
use signalbox_policy::Policy;
use signalbox_types::{Clock, Name};

/// State shared by all placements. Outlives policies. Shared by reference between threads.
pub(crate) struct PlacementState {
    pub(crate) clock: Clock,
    /// Queues of requests that wait for room.
    pub(crate) queues: Arc<WaitQueues>,
    /// Index of the target that each route with limits used last.
    pub(super) last_targets: DashMap<Name, usize>,
}

impl PlacementState {
    pub(crate) fn new(clock: Clock, queues: Arc<WaitQueues>) -> Self {
        Self { clock, queues, last_targets: DashMap::new() }
    }

    /// Drops the state of routes that `policy` does not have.
    pub(crate) fn apply_policy(&self, policy: &Policy) {
        self.last_targets.retain(|name, _| policy.models.has_route(name));
    }
}
