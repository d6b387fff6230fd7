//! The entries of finished requests: written to the journal and the access log, and the latest kept in memory.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use arc_swap::ArcSwapOption;

use super::{AccessLog, JournalEntry};
use signalbox_telemetry::{Entry, Journal};
use signalbox_types::Name;

/// Entries kept in memory for the page and for `GET /admin/decisions`.
pub const REMEMBERED: usize = 5000;
/// Most memory of these entries, in bytes: those of many candidates are fewer.
const REMEMBERED_BYTES: usize = 64 << 20;

/// Records the entry of each finished request. Shared by reference between threads.
#[derive(Default)]
pub struct DecisionLog {
    /// The journal, while the policy asks for one.
    pub journal: ArcSwapOption<Journal>,
    /// The access log, while the policy asks for one.
    pub access_log: ArcSwapOption<AccessLog>,
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    entries: VecDeque<Arc<JournalEntry>>,
    bytes: usize,
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
        recent.bytes += entry.weight();
        recent.entries.push_back(entry);
        while recent.entries.len() > REMEMBERED || recent.bytes > REMEMBERED_BYTES && recent.entries.len() > 1 {
            let dropped = recent.entries.pop_front();
            recent.bytes -= dropped.map_or(0, |dropped| dropped.weight());
        }
    }

    /// The last `most` entries, newest first.
    pub fn last(&self, most: usize) -> Vec<Arc<JournalEntry>> {
        self.recent.lock().entries.iter().rev().take(most).cloned().collect()
    }

    /// The entry of the request with this id, while it is in memory.
    pub fn find(&self, id: &str) -> Option<Arc<JournalEntry>> {
        self.recent.lock().entries.iter().rev().find(|entry| *entry.id == *id).cloned()
    }

    /// The entry of `caller`'s own request with this id: clients choose ids, so other callers may have used the same.
    pub fn find_of(&self, id: &str, caller: Option<&Name>) -> Option<Arc<JournalEntry>> {
        self.recent.lock().entries.iter().rev().find(|entry| *entry.id == *id && entry.key.as_ref() == caller).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_in_number_and_memory() {
        let log = DecisionLog::default();
        let ids = |log: &DecisionLog| log.last(usize::MAX).len();
        for _ in 0..REMEMBERED + 10 {
            log.record(JournalEntry::default());
        }
        assert_eq!(ids(&log), REMEMBERED);
        for _ in 0..100 {
            log.record(JournalEntry { model: Some("m".repeat(1 << 20)), ..JournalEntry::default() });
        }
        assert!((60..64).contains(&ids(&log)), "{}", ids(&log));
    }
}
