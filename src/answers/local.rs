//! The answers that this gateway itself keeps: in memory, by their meaning, and on disk.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{exact::AnswerCache, persist::Disk, semantic::SemanticAnswers};
use crate::cache::Purge;

/// The answers that this gateway itself keeps. Shared by reference between threads.
pub struct LocalAnswers {
    /// Answers to equal requests, and those under way.
    pub cache: AnswerCache,
    /// Answers to prompts of the same meaning.
    pub semantic: Arc<SemanticAnswers>,
    /// The log of both on disk.
    pub disk: Disk,
    purges: AtomicU64,
}

impl LocalAnswers {
    pub(super) fn new() -> Self {
        Self {
            cache: AnswerCache::new(),
            semantic: Arc::new(SemanticAnswers::new()),
            disk: Disk::default(),
            purges: AtomicU64::new(0),
        }
    }

    /// Removes the answers that `purge` matches, also on disk; returns how many of them were in memory. Looks at every one, and waits for
    /// the disk.
    pub(super) fn forget(&self, purge: &Purge) -> usize {
        self.disk.note(purge);
        self.purges.fetch_add(1, Relaxed);
        let gone = self.cache.purge(purge) + self.semantic.purge(purge);
        self.disk.purge(purge);
        gone
    }

    /// The number of purges so far. An answer that was made before the latest one may be among those that it removed.
    pub(super) fn purges(&self) -> u64 {
        self.purges.load(Relaxed)
    }
}
