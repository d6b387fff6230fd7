//! The log in force, as those who keep and forget answers see it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::{
    excluded::Excluded,
    persist_log::{MEANING, PersistLog},
};
use crate::{
    cache::{ExactKey, Purge, Record, codec::SemanticEntry, semantic::Entry},
    store::Figures,
};

/// Kept answers on disk. It outlives policies.
#[derive(Debug, Default)]
pub struct Disk {
    pub(crate) log: ArcSwapOption<PersistLog>,
    pub(crate) off: ArcSwap<Excluded>,
    /// One change of the log at a time.
    pub(crate) changing: Mutex<()>,
    /// Whether it was told that another process has the folder.
    pub(crate) told: AtomicBool,
    loaded: Loaded,
}

/// What was read back.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Answers by their exact keys.
    pub records: AtomicU64,
    /// Answers by their texts.
    pub meanings: AtomicU64,
    /// What could not be used: of another embedder or release.
    pub passed: AtomicU64,
    /// How long it has taken, in milliseconds.
    pub millis: AtomicU64,
}

impl Disk {
    /// Writes what waits, and lets the folder go. Waits for the disk.
    pub fn close(&self) {
        if let Some(log) = self.log.swap(None) {
            log.log.close();
        }
    }

    /// Writes an answer down that is about to be kept for `ttl`.
    pub(crate) fn record(&self, key: &ExactKey, record: &Record, ttl: Duration) {
        if let Some(log) = self.log_of(record) {
            log.record(key, record, Duration::ZERO, ttl);
        }
    }

    /// Whether there is a log.
    pub(crate) fn is_on(&self) -> bool {
        self.log.load().is_some()
    }

    /// Writes an answer down that is about to be kept under a text, of which `hash` is the hash.
    pub(crate) fn meaning(&self, meaning: &SemanticEntry, hash: u64, age: Duration, left: Duration) {
        if let Some(log) = self.log_of(&meaning.record) {
            log.meaning(meaning, hash, age, left);
        }
    }

    /// Deletes an answer that turned out to be wrong for what it was given to: what was learned of it does not outlive the process.
    pub(crate) fn forget(&self, entry: &Entry) {
        if let Some(log) = &*self.log.load() {
            log.log.remove(MEANING, log.entry(&entry.exact, entry.text, entry.record.origin));
        }
    }

    /// Takes note of a purge, before anything in memory is forgotten.
    pub(crate) fn note(&self, purge: &Purge) {
        if let Some(log) = &*self.log.load() {
            log.note(purge);
        }
    }

    /// Deletes what `purge` says. Waits for the disk.
    pub(crate) fn purge(&self, purge: &Purge) {
        if let Some(log) = self.log.load_full() {
            log.purge(purge);
        }
    }

    /// What the log holds, and what has happened to it; `None` where there is none.
    pub fn figures(&self) -> Option<Figures> {
        self.log.load().as_ref().map(|log| log.log.figures())
    }

    /// What was read back since the process began.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Whether an answer is to stay in this gateway's memory.
    pub(crate) fn is_off(&self, record: &Record) -> bool {
        self.off.load().means(record)
    }

    fn log_of(&self, record: &Record) -> Option<Arc<PersistLog>> {
        self.log.load_full().filter(|_| !self.is_off(record))
    }
}
