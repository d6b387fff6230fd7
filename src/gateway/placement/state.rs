//! State shared by all placements: the queues, and the pool that each route used last.

use std::sync::Arc;

use dashmap::DashMap;

use crate::{
    gateway::wait_queue::WaitQueues,
    policy::Policy,
    types::{Clock, Name},
};

/// State shared by all placements. Outlives policies. Shared by reference between threads.
pub(in crate::gateway) struct PlacementState {
    pub(in crate::gateway) clock: Clock,
    /// Queues of requests that wait for room.
    pub(in crate::gateway) queues: Arc<WaitQueues>,
    /// Index of the target that each route with limits used last.
    pub(super) last_targets: DashMap<Name, usize>,
}

impl PlacementState {
    pub(in crate::gateway) fn new(clock: Clock, queues: Arc<WaitQueues>) -> Self {
        Self { clock, queues, last_targets: DashMap::new() }
    }

    /// Drops the state of routes that `policy` does not have.
    pub(in crate::gateway) fn apply_policy(&self, policy: &Policy) {
        self.last_targets.retain(|name, _| policy.models.has_route(name));
    }
}
