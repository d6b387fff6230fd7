//! The entries of finished requests: written to the journal and the access log, and the latest kept in memory.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use arc_swap::ArcSwapOption;

use super::{AccessLog, JournalEntry};
use crate::{telemetry::Journal, types::Name};

/// Entries kept in memory for the page and for `GET /admin/decisions/{id}`.
pub const REMEMBERED: usize = 1000;

/// Records the entry of each finished request. Shared by reference between threads.
#[derive(Default)]
pub struct DecisionLog {
    /// The journal, while the policy asks for one.
    pub journal: ArcSwapOption<Journal>,
    /// The access log, while the policy asks for one.
    pub access_log: ArcSwapOption<AccessLog>,
    recent: Mutex<VecDeque<Arc<JournalEntry>>>,
}

impl DecisionLog {
    /// Records a finished request. Never waits for a disk.
    pub fn record(&self, entry: JournalEntry) {
        let entry = Arc::new(entry);
        if let Some(journal) = &*self.journal.load() {
            journal.write(entry.clone());
        }
        if entry.background.is_none()
            && let Some(log) = &*self.access_log.load()
        {
            log.write(entry.clone());
        }
        let mut recent = self.recent.lock();
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(entry);
    }

    /// The last `most` entries, newest first.
    pub fn last(&self, most: usize) -> Vec<Arc<JournalEntry>> {
        self.recent.lock().iter().rev().take(most).cloned().collect()
    }

    /// The entry of the request with this id, while it is in memory.
    pub fn find(&self, id: &str) -> Option<Arc<JournalEntry>> {
        self.recent.lock().iter().rev().find(|entry| *entry.id == *id).cloned()
    }

    /// The entry of `caller`'s own request with this id: clients choose ids, so other callers may have used the same.
    pub fn find_of(&self, id: &str, caller: Option<&Name>) -> Option<Arc<JournalEntry>> {
        self.recent.lock().iter().rev().find(|entry| *entry.id == *id && entry.key.as_ref() == caller).cloned()
    }
}
