//! Handle on the log of answers: writes, deletions and figures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use parking_lot::Mutex;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::persist_log::{Excluded, PersistLog, SEMANTIC};
use signalbox_cache::{ExactKey, Purge, Record, codec::SemanticEntry, semantic::Entry};
use signalbox_store::Figures;

/// Kept answers on disk. It outlives policies.
#[derive(Debug, Default)]
pub struct DiskAnswers {
    pub(crate) log: ArcSwapOption<PersistLog>,
    pub(crate) excluded: ArcSwap<Excluded>,
    /// Locked while the log is opened or closed.
    pub(crate) changing: Mutex<()>,
    /// True if it was logged that another process uses the folder.
    pub(crate) is_reported: AtomicBool,
    loaded: WarmStartCounts,
}

/// Counts of the answers read back.
#[derive(Debug, Default)]
pub struct WarmStartCounts {
    /// Answers by exact key.
    pub records: AtomicU64,
    /// Semantic entries.
    pub semantic: AtomicU64,
    /// Entries of another embedder or release, which cannot be used.
    pub unusable: AtomicU64,
    /// Duration, in milliseconds.
    pub millis: AtomicU64,
}

impl DiskAnswers {
    /// Writes queued answers and closes the folder. Waits for the disk.
    pub fn close(&self) {
        if let Some(log) = self.log.swap(None) {
            log.log.close();
        }
    }

    /// Writes an answer that is about to be kept for `ttl`.
    pub fn record(&self, key: &ExactKey, record: &Record, ttl: Duration) {
        if let Some(log) = self.log_of(record) {
            log.record(key, record, Duration::ZERO, ttl);
        }
    }

    /// True if a log is open.
    pub(crate) fn is_on(&self) -> bool {
        self.log.load().is_some()
    }

    /// Writes a semantic entry that is about to be kept; `hash` is the hash of its text.
    pub(crate) fn semantic(&self, entry: &SemanticEntry, hash: u64, age: Duration, left: Duration) {
        if let Some(log) = self.log_of(&entry.record) {
            log.semantic(entry, hash, age, left);
        }
    }

    /// Deletes a semantic entry that caused a false hit, since its evidence does not outlive the process.
    pub(crate) fn delete(&self, entry: &Entry) {
        if let Some(log) = &*self.log.load() {
            log.log.remove(SEMANTIC, log.entry_key(&entry.exact, entry.text, entry.record.origin));
        }
    }

    /// Records a purge before anything is removed from memory.
    pub(crate) fn begin_purge(&self, purge: &Purge) {
        if let Some(log) = &*self.log.load() {
            log.begin_purge(purge);
        }
    }

    /// Deletes the answers that `purge` matches. Waits for the disk.
    pub(crate) fn purge(&self, purge: &Purge) {
        if let Some(log) = self.log.load_full() {
            log.purge(purge);
        }
    }

    /// Figures of the log; `None` where none is open.
    pub fn figures(&self) -> Option<Figures> {
        self.log.load().as_ref().map(|log| log.log.figures())
    }

    /// Counts of the answers read back since the process started.
    pub fn loaded(&self) -> &WarmStartCounts {
        &self.loaded
    }

    /// True if an answer must stay in this gateway's memory.
    pub(crate) fn is_excluded(&self, record: &Record) -> bool {
        self.excluded.load().contains(record)
    }

    fn log_of(&self, record: &Record) -> Option<Arc<PersistLog>> {
        self.log.load_full().filter(|_| !self.is_excluded(record))
    }
}
