//! Stores that the gateway writes, such as usage and the journal, and the outcome of the last write to each.

use std::{
    fmt::Display,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use prometheus_client::metrics::counter::Counter;

/// A store that the gateway writes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Usage, budgets, revocations and owners of objects.
    Usage,
    /// Keys that are created on the running gateway.
    Keys,
    /// Backends that operators added and drained.
    Backends,
    /// Learned weights of tiers.
    Learning,
    /// Cached answers on disk.
    Cache,
    /// Journal of decisions.
    Journal,
    /// Access log.
    AccessLog,
    /// Log of what operators change.
    Audit,
    /// Figures over time, for the page.
    History,
}

impl Store {
    /// All stores.
    pub const ALL: [Self; 9] = [
        Self::Usage,
        Self::Keys,
        Self::Backends,
        Self::Learning,
        Self::Cache,
        Self::Journal,
        Self::AccessLog,
        Self::Audit,
        Self::History,
    ];

    /// Label for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Keys => "keys",
            Self::Backends => "backends",
            Self::Learning => "learning",
            Self::Cache => "cache",
            Self::Journal => "journal",
            Self::AccessLog => "access_log",
            Self::Audit => "audit",
            Self::History => "history",
        }
    }
}

/// Outcomes of the writes to all stores.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores([StoreWrites; Store::ALL.len()]);

impl Stores {
    pub(super) fn of(&self, store: Store) -> &StoreWrites {
        &self.0[store as usize]
    }

    /// The stores in use, each with its label.
    pub(super) fn used(&self) -> impl Iterator<Item = (&'static str, &StoreWrites)> {
        let all = Store::ALL.into_iter().map(|store| (store.label(), self.of(store)));
        all.filter(|(_, writes)| writes.is_up().is_some())
    }
}

/// Outcome of the writes to one store. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StoreWrites(Arc<State>);

#[derive(Debug, Default)]
struct State {
    last: Mutex<Last>,
    errors: Counter,
}

/// Outcome of the last write.
#[derive(Debug, Default)]
enum Last {
    /// The policy has no such store.
    #[default]
    Unused,
    Written,
    Failed(StoreFailure),
}

/// A store that cannot be written.
#[derive(Clone, Debug)]
pub struct StoreFailure {
    /// The last error.
    pub error: String,
    since: Instant,
}

impl StoreFailure {
    /// Time since the first of the failed writes.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

impl StoreWrites {
    /// Records that the store was opened or written. Returns true if the write before had failed.
    pub fn wrote(&self) -> bool {
        matches!(std::mem::replace(&mut *self.0.last.lock(), Last::Written), Last::Failed(_))
    }

    /// Records that a write failed. Returns true if the write before had not, so that one line is logged for each outage.
    pub fn failed(&self, error: &dyn Display) -> bool {
        self.0.errors.inc();
        let mut last = self.0.last.lock();
        let before = if let Last::Failed(failure) = &*last { Some(failure.since) } else { None };
        *last = Last::Failed(StoreFailure { error: error.to_string(), since: before.unwrap_or_else(Instant::now) });
        before.is_none()
    }

    /// Records that the store was closed: nothing is written to it any more.
    pub fn closed(&self) {
        *self.0.last.lock() = Last::Unused;
    }

    /// The failure of the last write, if it failed.
    pub fn failure(&self) -> Option<StoreFailure> {
        if let Last::Failed(failure) = &*self.0.last.lock() { Some(failure.clone()) } else { None }
    }

    /// True if the last write worked; `None` where there is no such store.
    pub(super) fn is_up(&self) -> Option<bool> {
        match &*self.0.last.lock() {
            Last::Unused => None,
            Last::Written => Some(true),
            Last::Failed(_) => Some(false),
        }
    }

    pub(super) fn errors(&self) -> Counter {
        self.0.errors.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_in_the_order_of_the_list() {
        for (at, store) in Store::ALL.into_iter().enumerate() {
            assert_eq!(store as usize, at);
        }
    }

    #[test]
    fn the_first_failure_and_the_first_success_after_it_are_news() {
        let store = StoreWrites::default();
        assert_eq!(store.is_up(), None);
        assert!(!store.wrote() && store.is_up() == Some(true));
        assert!(store.failed(&"full") && !store.failed(&"still full"));
        let failure = store.failure().unwrap();
        assert!(failure.error == "still full" && failure.since <= Instant::now());
        assert_eq!((store.is_up(), store.errors().get()), (Some(false), 2));
        assert!(store.wrote() && !store.wrote() && store.failure().is_none());
        store.closed();
        assert_eq!(store.is_up(), None);
    }
}
