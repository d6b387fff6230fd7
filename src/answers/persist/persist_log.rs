//! A log that is in use: what is written into it, and under which tags it can be deleted again.

use std::{sync::Mutex, time::Duration};

use super::excluded::Excluded;
use crate::{
    cache::{
        ExactKey, Keys, Origin, Purge, Record, Tags,
        codec::{self, SemanticEntry},
    },
    measure::lock,
    policy::Persist,
    store::{self, Log},
    types::wall_clock::{millis, now},
};

/// What the log calls answers that are found by their exact key.
pub(crate) const RECORD: u8 = 1;
/// And those that are found by their text.
pub(crate) const MEANING: u8 = 2;
/// Purges that are remembered one by one while answers are read back. One more, and none is read any more.
const PURGES: usize = 1024;

/// A log and what belongs to it.
#[derive(Debug)]
pub(crate) struct PersistLog {
    pub(crate) log: Log,
    /// How the policy describes it.
    pub(crate) spec: Persist,
    /// What answers are named by, in memory as here.
    pub(crate) keys: Keys,
    /// The log's own, which live as long as it does: for what can be deleted together.
    names: Keys,
    /// What was purged since answers began to be read back; `None` when all have been.
    loading: Mutex<Option<Vec<Purge>>>,
}

impl PersistLog {
    /// Over a log whose answers are about to be read back. `shared`: what they are named by, where that is not the log's own affair.
    pub(crate) fn new(log: Log, spec: Persist, shared: Option<Keys>) -> Self {
        let names = Keys::new(*log.secret());
        let keys = shared.unwrap_or_else(|| names.clone());
        Self { log, spec, keys, names, loading: Mutex::new(Some(Vec::new())) }
    }

    /// Whether answers are named by `shared`, or by the log's own keys where there are none.
    pub(crate) fn is_named_by(&self, shared: Option<&Keys>) -> bool {
        self.keys.fingerprint() == shared.unwrap_or(&self.names).fingerprint()
    }

    /// Keeps an answer that is so old for as long as is left of its time.
    pub(crate) fn record(&self, key: &ExactKey, record: &Record, age: Duration, left: Duration) {
        let payload = codec::write_record(&self.keys, record);
        self.put(RECORD, *key.as_bytes(), self.tags(key, record), payload, age, left);
    }

    /// The same of an answer under a text; `text`: the text's hash.
    pub(crate) fn meaning(&self, meaning: &SemanticEntry, text: u64, age: Duration, left: Duration) {
        let key = self.entry(&meaning.exact, text, meaning.record.origin);
        let payload = codec::write_semantic(&self.keys, meaning);
        self.put(MEANING, key, self.tags(&meaning.exact, &meaning.record), payload, age, left);
    }

    fn put(&self, kind: u8, key: [u8; 32], scope: [u8; 32], payload: Vec<u8>, age: Duration, left: Duration) {
        let now = now();
        let (written, expires) = (now.saturating_sub(millis(age)), now.saturating_add(millis(left)));
        // What finds no room is counted by the log.
        self.log.put(store::Record { kind, key, scope, written, expires, payload: payload.into() });
    }

    fn tags(&self, key: &ExactKey, record: &Record) -> [u8; 32] {
        *Tags::of(&self.names, key, record).as_bytes()
    }

    /// Takes note of a purge before anything is forgotten, so that answers which are being read back do not bring it to nothing.
    pub(crate) fn note(&self, purge: &Purge) {
        if let Some(purges) = &mut *lock(&self.loading) {
            if purges.len() == PURGES {
                purges.push(Purge::default());
            } else if purges.len() < PURGES {
                purges.push(purge.clone());
            }
        }
    }

    /// Deletes what `purge` says; it is gone when this returns. Waits for the disk.
    pub(crate) fn purge(&self, purge: &Purge) {
        self.delete(purge);
        self.log.flush();
    }

    /// Deletes what is to stay off the disk.
    pub(crate) fn keep_off(&self, off: &Excluded) {
        for route in &off.routes {
            self.delete(&Purge { route: Some(route.to_string()), ..Purge::default() });
        }
        for caller in &off.callers {
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

    /// What an answer under a text is called, by the text's hash.
    pub(crate) fn entry(&self, exact: &ExactKey, text: u64, origin: Origin) -> [u8; 32] {
        self.names.entry(exact, text, origin.0)
    }

    /// Takes an answer in that was read back, unless it was purged meanwhile: a purge waits until `take` is done, or `take` is not called.
    pub(crate) fn unless_purged<T>(&self, key: &ExactKey, record: &Record, take: impl FnOnce() -> T) -> Option<T> {
        let loading = lock(&self.loading);
        let purged = loading.as_ref().is_some_and(|purges| purges.iter().any(|purge| purge.means(key, record)));
        (!purged).then(take)
    }

    /// All answers have been read back.
    pub(crate) fn loaded(&self) {
        *lock(&self.loading) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::ScopeId,
        protocol::Transcript,
        store::{Limits, Recovery},
        types::Endpoint,
    };

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
    fn what_is_purged_is_purged_on_disk_too() {
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
            let (shelf, _) = open(folder.path());
            for ((caller, route), number) in all.into_iter().zip(1..) {
                shelf.record(&key(number), &record(caller, route), Duration::ZERO, Duration::from_mins(1));
            }
            shelf.purge(&purge);
            shelf.log.close();
            let found: Vec<u8> = open(folder.path()).1.flatten().map(|record| record.key[0]).collect();
            assert_eq!(found, left, "{purge:?}");
        }
    }

    #[test]
    fn a_purge_that_comes_while_answers_are_read_back_wins() {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, _) = open(folder.path());
        let taken = |caller| shelf.unless_purged(&key(1), &record(Some(caller), "x"), || ()).is_some();
        assert!(taken("a") && taken("b"));
        shelf.note(&of(Some("a"), None, None));
        assert!(!taken("a") && taken("b"));
        (0..PURGES).for_each(|_| shelf.note(&of(Some("c"), None, None)));
        assert!(!taken("b"), "too many to tell apart");
        shelf.loaded();
        assert!(taken("a"), "what is kept from now on is new");
    }
}
