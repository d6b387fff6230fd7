//! All kept answers: those of this gateway, and those of the gateways that share with it.

use std::{sync::Arc, time::Duration};

use super::{
    local::LocalAnswers,
    peers::{self, Peers},
    warm_start,
};
use signalbox_cache::{ExactKey, Purge, Record, codec::SemanticEntry, responses::ResponseStore};
use signalbox_policy::Policy;
use signalbox_redis::LinkError;
use signalbox_store::StoreError;
use signalbox_telemetry::Metrics;
use signalbox_types::Clock;

/// Kept answers. They outlive policies. Shared by reference between threads.
pub struct Answers {
    /// Answers kept by this gateway.
    pub local: Arc<LocalAnswers>,
    /// Answers of the gateways that share with it, and the connections to them.
    pub peers: Peers,
    /// Responses and conversations that this gateway stores for callers of the Responses API.
    pub responses: ResponseStore,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
}

impl Answers {
    /// Empty.
    pub fn new(clock: Clock, metrics: Metrics) -> Self {
        let (local, peers) = (Arc::new(LocalAnswers::new()), Peers::default());
        Self { local, peers, responses: ResponseStore::default(), clock, metrics }
    }

    /// Applies another policy in memory: answers that it would not keep are dropped.
    pub fn apply_policy(&self, policy: &Policy) {
        self.local.cache.apply_policy(policy.caching.as_ref());
        self.local.semantic.apply_policy(policy.caching.as_ref());
        self.responses.configure(policy.responses.memory, policy.responses.ttl);
    }

    /// Keeps answers on disk as `policy` says: opens its log and starts to read it back, or continues with the open one. A folder that
    /// another gateway uses is not opened; the next call tries again. Waits for the disk. Call it within a runtime.
    ///
    /// # Errors
    /// [`StoreError`] where the folder cannot be used. The previous log then stays open, unless it is in the same folder.
    pub fn keep_on_disk(&self, policy: &Policy) -> Result<(), StoreError> {
        warm_start::keep_on_disk(&self.local, self.clock, policy)
    }

    /// Shares answers with other gateways as `policy` says. Call it within a runtime.
    ///
    /// # Errors
    /// [`LinkError`] where the server's address is invalid; nothing changes then.
    pub fn share(&self, policy: &Policy) -> Result<(), LinkError> {
        peers::share(&self.peers, (&self.local, self.clock, &self.metrics), policy)
    }

    /// Removes the answers that `purge` matches, here, on disk and on the gateways that share; returns how many of them were in memory
    /// here. Looks at every one, and waits for the disk.
    pub fn purge(&self, purge: &Purge) -> usize {
        self.peers.purge(purge);
        self.local.purge(purge)
    }

    /// Publishes an answer that is kept for `ttl` to the other gateways, unless the policy excludes it. Never waits.
    pub fn publish_record(&self, key: &ExactKey, record: &Record, ttl: Duration) {
        if self.peers.is_on() && !self.local.disk.is_excluded(record) {
            self.count("set", self.peers.publish_record(key, record, ttl));
        }
    }

    /// Publishes a semantic entry likewise.
    pub(super) fn publish_semantic(&self, entry: &SemanticEntry, age: Duration, left: Duration) {
        if self.peers.is_on() && !self.local.disk.is_excluded(&entry.record) {
            self.count("tell", self.peers.publish_semantic(entry, age, left));
        }
    }

    /// Counts entries that could not be queued. Queued ones are counted when they are sent.
    fn count(&self, what: &'static str, queued: Result<(), &'static str>) {
        if let Err(reason) = queued {
            self.metrics.cache().shared(what, reason);
        }
    }
}
