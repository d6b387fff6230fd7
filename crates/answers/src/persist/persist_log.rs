//! An open log of answers: the kinds of its records, and the tags under which they can be deleted.

use std::{collections::HashSet, time::Duration};

use parking_lot::Mutex;

use signalbox_cache::{
    ExactKey, Keys, Origin, Purge, Record, Tags,
    codec::{self, SemanticEntry},
};
use signalbox_policy::{Persist, Policy};
use signalbox_store::{self as store, Log};
use signalbox_types::{
    Name,
    wall_clock::{millis, now},
};

/// Kind of answers by exact key.
pub(crate) const RECORD: u8 = 1;
/// Kind of semantic entries.
pub(crate) const SEMANTIC: u8 = 2;
/// Maximum of purges that are recorded one by one while answers are read back. One more discards all answers not read yet.
const PURGES: usize = 1024;

/// Routes and callers whose answers stay off the disk and on this gateway.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Excluded {
    routes: HashSet<Name>,
    callers: HashSet<Name>,
}

impl Excluded {
    /// Collects those of a policy.
    pub(crate) fn of(policy: &Policy) -> Self {
        let routes = policy.models.rules().flat_map(|rule| rule.way.routes()).filter(|route| !route.cache.persist);
        let keys = policy.keys.iter().filter(|key| !key.persists);
        Self {
            routes: routes.map(|route| route.name.clone()).collect(),
            callers: keys.map(|key| key.id.clone()).collect(),
        }
    }

    /// True if this answer is excluded.
    pub(super) fn contains(&self, record: &Record) -> bool {
        self.routes.contains(&record.route)
            || record.caller.as_ref().is_some_and(|caller| self.callers.contains(caller))
    }
}

/// An open log of answers.
#[derive(Debug)]
pub(crate) struct PersistLog {
    pub(crate) log: Log,
    /// Its settings in the policy.
    pub(crate) spec: Persist,
    /// The keys by which answers are found, in memory and in the log.
    pub(crate) keys: Keys,
    /// The log's own keys, which are stored in it: for the tags of deletions.
    names: Keys,
    /// Purges since answers began to be read back; `None` once all have been read.
    loading: Mutex<Option<Vec<Purge>>>,
}

impl PersistLog {
    /// Wraps a log whose answers are about to be read back. `shared`: the keys of the group, where answers are shared.
    pub(crate) fn new(log: Log, spec: Persist, shared: Option<Keys>) -> Self {
        let names = Keys::new(*log.secret());
        let keys = shared.unwrap_or_else(|| names.clone());
        Self { log, spec, keys, names, loading: Mutex::new(Some(Vec::new())) }
    }

    /// True if answers are found by the keys `shared`, or by the log's own keys where that is `None`.
    pub(crate) fn uses_keys(&self, shared: Option<&Keys>) -> bool {
        self.keys.fingerprint() == shared.unwrap_or(&self.names).fingerprint()
    }

    /// Writes an answer of this `age`, which expires after `left`.
    pub(crate) fn record(&self, key: &ExactKey, record: &Record, age: Duration, left: Duration) {
        let payload = codec::write_record(&self.keys, record);
        self.put(RECORD, *key.as_bytes(), self.tags(key, record), payload, age, left);
    }

    /// Writes a semantic entry likewise; `text` is the hash of its text.
    pub(super) fn semantic(&self, entry: &SemanticEntry, text: u64, age: Duration, left: Duration) {
        let key = self.entry_key(&entry.exact, text, entry.record.origin);
        let payload = codec::write_semantic(&self.keys, entry);
        self.put(SEMANTIC, key, self.tags(&entry.exact, &entry.record), payload, age, left);
    }

    fn put(&self, kind: u8, key: [u8; 32], scope: [u8; 32], payload: Vec<u8>, age: Duration, left: Duration) {
        let now = now();
        let (written, expires) = (now.saturating_sub(millis(age)), now.saturating_add(millis(left)));
        // The log counts records that do not fit into its queue.
        self.log.put(store::Record { kind, key, scope, written, expires, payload: payload.into() });
    }

    fn tags(&self, key: &ExactKey, record: &Record) -> [u8; 32] {
        *Tags::of(&self.names, key, record).as_bytes()
    }

    /// Records a purge before anything is removed, so that answers that are being read back do not undo it.
    pub(super) fn begin_purge(&self, purge: &Purge) {
        if let Some(purges) = &mut *self.loading.lock() {
            if purges.len() == PURGES {
                purges.push(Purge::default());
            } else if purges.len() < PURGES {
                purges.push(purge.clone());
            }
        }
    }

    /// Deletes the answers that `purge` matches before it returns. Waits for the disk.
    pub(crate) fn purge(&self, purge: &Purge) {
        self.delete(purge);
        self.log.flush();
    }

    /// Deletes excluded answers.
    pub(crate) fn delete_excluded(&self, excluded: &Excluded) {
        for route in &excluded.routes {
            self.delete(&Purge { route: Some(route.to_string()), ..Purge::default() });
        }
        for caller in &excluded.callers {
            self.delete(&Purge { caller: Some(caller.to_string()), ..Purge::default() });
        }
    }

    fn delete(&self, purge: &Purge) {
        if *purge == Purge::default() {
            self.log.clear();
        } else {
            self.log.remove_scope(*Tags::meant(&self.names, purge).as_bytes());
        }
    }

    /// The log's key of a semantic entry; `text` is the hash of its text.
    pub(super) fn entry_key(&self, exact: &ExactKey, text: u64, origin: Origin) -> [u8; 32] {
        self.names.entry(exact, text, origin.0)
    }

    /// Calls `restore` for an answer that was read back, unless it was purged meanwhile. A concurrent purge waits for `restore` or prevents it.
    pub(crate) fn unless_purged<T>(&self, key: &ExactKey, record: &Record, restore: impl FnOnce() -> T) -> Option<T> {
        let loading = self.loading.lock();
        let purged = loading.as_ref().is_some_and(|purges| purges.iter().any(|purge| purge.means(key, record)));
        (!purged).then(restore)
    }

    /// Records that all answers have been read back.
    pub(crate) fn finish_loading(&self) {
        *self.loading.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_cache::ScopeId;
    use signalbox_protocol::Transcript;
    use signalbox_store::{Limits, Recovery};
    use signalbox_types::Endpoint;

    fn open(folder: &std::path::Path) -> (PersistLog, Recovery) {
        let limits = Limits { bytes: 1 << 20, age: Duration::from_hours(1), queue: 1 << 20 };
        let (log, recovery) = Log::open(folder, limits).unwrap();
        let spec = Persist { path: folder.into(), max_size: 1 << 20, retention: Duration::from_hours(1) };
        (PersistLog::new(log, spec, None), recovery)
    }

    fn record(caller: Option<&str>, route: &str) -> Record {
        let body = br#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}"#;
        Record {
            transcript: Transcript::of_whole(Endpoint::Chat, body, 1 << 10).unwrap(),
            scope: ScopeId::from_bytes([1; 16]),
            caller: caller.map(Into::into),
            route: route.into(),
            pool: "p".into(),
            origin: Origin(1),
            cost_usd: None,
            seconds: 1.0,
        }
    }

    fn key(number: u8) -> ExactKey {
        ExactKey::from_bytes([number; 32])
    }

    fn of(caller: Option<&str>, route: Option<&str>, entry: Option<u8>) -> Purge {
        Purge { caller: caller.map(str::to_owned), route: route.map(str::to_owned), entry: entry.map(key) }
    }

    #[test]
    fn purges_delete_on_disk() {
        let all = [(Some("a"), "x"), (Some("a"), "y"), (Some("b"), "x"), (None, "x")];
        for (purge, left) in [
            (of(Some("a"), None, None), vec![3, 4]),
            (of(None, Some("x"), None), vec![2]),
            (of(Some("a"), Some("x"), None), vec![2, 3, 4]),
            (of(None, None, Some(4)), vec![1, 2, 3]),
            (of(Some("c"), None, None), vec![1, 2, 3, 4]),
            (of(None, None, None), vec![]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (log, _) = open(folder.path());
            for ((caller, route), number) in all.into_iter().zip(1..) {
                log.record(&key(number), &record(caller, route), Duration::ZERO, Duration::from_mins(1));
            }
            log.purge(&purge);
            log.log.close();
            let found: Vec<u8> = open(folder.path()).1.flatten().map(|record| record.key[0]).collect();
            assert_eq!(found, left, "{purge:?}");
        }
    }

    #[test]
    fn a_purge_while_answers_are_read_back_wins() {
        let folder = tempfile::tempdir().unwrap();
        let (log, _) = open(folder.path());
        let is_restored = |caller| log.unless_purged(&key(1), &record(Some(caller), "x"), || ()).is_some();
        assert!(is_restored("a") && is_restored("b"));
        log.begin_purge(&of(Some("a"), None, None));
        assert!(!is_restored("a") && is_restored("b"));
        (0..PURGES).for_each(|_| log.begin_purge(&of(Some("c"), None, None)));
        assert!(!is_restored("b"), "too many purges discard everything");
        log.finish_loading();
        assert!(is_restored("a"), "later answers are not affected");
    }
}
