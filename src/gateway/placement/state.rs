//! What placing requests shares: the queues, and which pools routes used last.

use std::sync::Arc;

use dashmap::DashMap;

use crate::{
    gateway::wait_queue::WaitQueues,
    policy::Policy,
    types::{Clock, Name},
};

/// What placing requests shares. It outlives policies. Shared by reference between threads.
pub(in crate::gateway) struct PlacementState {
    pub(in crate::gateway) clock: Clock,
    /// The queues of requests that wait for room.
    pub(in crate::gateway) queues: Arc<WaitQueues>,
    /// The place in the route of the pool that each route with limits used last.
    pub(super) last_targets: DashMap<Name, usize>,
}

impl PlacementState {
    pub(in crate::gateway) fn new(clock: Clock, queues: Arc<WaitQueues>) -> Self {
        Self { clock, queues, last_targets: DashMap::new() }
    }

    /// Drops what belongs to routes that `policy` does not have.
    pub(in crate::gateway) fn apply_policy(&self, policy: &Policy) {
        self.last_targets.retain(|name, _| policy.models.has_route(name));
    }
}
