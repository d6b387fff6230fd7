//! All kept answers: this gateway's own, and those of the gateways that share with it.

use std::{sync::Arc, time::Duration};

use super::{
    local::LocalAnswers,
    peers::{self, Peers},
    warm_start,
};
use crate::{
    cache::{ExactKey, Purge, Record, codec::SemanticEntry},
    policy::Policy,
    redis::LinkError,
    store::StoreError,
    telemetry::Metrics,
    types::Clock,
};

/// Kept answers. They outlive policies. Shared by reference between threads.
pub struct Answers {
    /// Those of this gateway.
    pub local: Arc<LocalAnswers>,
    /// Those of the gateways that share with it.
    pub peers: Peers,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
}

impl Answers {
    /// Nothing kept yet.
    pub fn new(clock: Clock, metrics: Metrics) -> Self {
        Self { local: Arc::new(LocalAnswers::new()), peers: Peers::default(), clock, metrics }
    }

    /// Applies another policy in memory: answers that it would not keep are dropped.
    pub fn apply_policy(&self, policy: &Policy) {
        self.local.cache.follow(policy.caching.as_ref());
        self.local.semantic.follow(policy.caching.as_ref());
    }

    /// Keeps answers on disk as `policy` says: opens its log and begins to read it back, or goes on with the one that is open. A folder
    /// that another gateway uses is left alone, and tried again at the next call. Waits for the disk; within a runtime.
    ///
    /// # Errors
    /// [`StoreError`] where the folder cannot be used. The log before stays open then, unless it was in the same folder.
    pub fn keep_on_disk(&self, policy: &Policy) -> Result<(), StoreError> {
        warm_start::keep_on_disk(&self.local, self.clock, policy)
    }

    /// Shares answers with other gateways as `policy` says. Within a runtime.
    ///
    /// # Errors
    /// [`LinkError`] where the server's address is invalid; nothing changes then.
    pub fn share(&self, policy: &Policy) -> Result<(), LinkError> {
        peers::share(&self.peers, (&self.local, self.clock, &self.metrics), policy)
    }

    /// Removes the answers that `purge` matches, here, on disk and on the gateways that share; returns how many of them were in memory
    /// here. Looks at every one, and waits for the disk.
    pub fn forget(&self, purge: &Purge) -> usize {
        self.peers.purge(purge);
        self.local.forget(purge)
    }

    /// Sends an answer that is kept for `ttl` to the other gateways, where it may leave this one. Never waits.
    pub(crate) fn give_record(&self, key: &ExactKey, record: &Record, ttl: Duration) {
        if self.peers.is_on() && !self.local.disk.is_off(record) {
            self.count("set", self.peers.record(key, record, ttl));
        }
    }

    /// Sends an answer under a text likewise.
    pub(super) fn give_meaning(&self, meaning: &SemanticEntry, age: Duration, left: Duration) {
        if self.peers.is_on() && !self.local.disk.is_off(&meaning.record) {
            self.count("tell", self.peers.meaning(meaning, age, left));
        }
    }

    /// Counts what could not be sent; the rest is counted on arrival.
    fn count(&self, what: &'static str, given: Result<(), &'static str>) {
        if let Err(why) = given {
            self.metrics.cache().shared(what, why);
        }
    }
}
