//! The answers of this gateway: by exact key, by meaning, and on disk.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{exact::AnswerCache, persist::DiskAnswers, semantic::SemanticAnswers};
use signalbox_cache::Purge;

/// The answers of this gateway. Shared by reference between threads.
pub struct LocalAnswers {
    /// Answers to equal requests, finished and in progress.
    pub cache: AnswerCache,
    /// Answers to prompts of the same meaning.
    pub semantic: Arc<SemanticAnswers>,
    /// The log of both on disk.
    pub disk: DiskAnswers,
    purges: AtomicU64,
}

impl LocalAnswers {
    pub(super) fn new() -> Self {
        Self {
            cache: AnswerCache::new(),
            semantic: Arc::new(SemanticAnswers::new()),
            disk: DiskAnswers::default(),
            purges: AtomicU64::new(0),
        }
    }

    /// Removes the answers that `purge` matches, also on disk; returns how many were in memory. Scans all entries and waits for the disk.
    pub(super) fn purge(&self, purge: &Purge) -> usize {
        self.disk.begin_purge(purge);
        self.purges.fetch_add(1, Relaxed);
        let removed = self.cache.purge(purge) + self.semantic.purge(purge);
        self.disk.purge(purge);
        removed
    }

    /// Number of purges so far. If it has changed since a request started, its answer may be one that should be removed.
    pub(super) fn purges(&self) -> u64 {
        self.purges.load(Relaxed)
    }
}
