//! A log that is in use: what is written into it, and under which tags it can be deleted again.

use std::{
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::off::Off;
use crate::{
    cache::{
        ExactKey, Keys, Purge, Record,
        codec::{self, Meaning},
    },
    measure::lock,
    policy::Persist,
    store::{self, Log},
};

/// What the log calls answers that are found by their exact key.
pub(super) const RECORD: u8 = 1;
/// And those that are found by their text.
pub(super) const MEANING: u8 = 2;
/// Purges that are remembered one by one while answers are read back. One more, and none is read any more.
const PURGES: usize = 1024;

/// A log and what belongs to it.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) log: Log,
    /// How the policy describes it.
    pub(super) spec: Persist,
    /// Its own: they name answers for as long as it lives.
    pub(super) keys: Keys,
    /// What was purged since answers began to be read back; `None` when all have been.
    loading: Mutex<Option<Vec<Purge>>>,
}

impl Shelf {
    /// Over a log whose answers are about to be read back.
    pub(super) fn new(log: Log, spec: Persist) -> Self {
        let keys = Keys::new(*log.secret());
        Self { log, spec, keys, loading: Mutex::new(Some(Vec::new())) }
    }

    /// Keeps an answer that is so old for as long as is left of its time.
    pub(super) fn record(&self, key: &ExactKey, record: &Record, age: Duration, left: Duration) {
        let payload = codec::write_record(&self.keys, record);
        self.put(RECORD, *key.as_bytes(), self.tags(key, record), payload, age, left);
    }

    /// The same of an answer under a text; `text`: the text's hash.
    pub(super) fn meaning(&self, meaning: &Meaning, text: u64, age: Duration, left: Duration) {
        let key = self.keys.entry(&meaning.exact, text, meaning.record.origin.0);
        let payload = codec::write_meaning(&self.keys, meaning);
        self.put(MEANING, key, self.tags(&meaning.exact, &meaning.record), payload, age, left);
    }

    fn put(&self, kind: u8, key: [u8; 32], scope: [u8; 32], payload: Vec<u8>, age: Duration, left: Duration) {
        let now = now();
        let (written, expires) = (now.saturating_sub(millis(age)), now.saturating_add(millis(left)));
        // What finds no room is counted by the log.
        self.log.put(store::Record { kind, key, scope, written, expires, payload: payload.into() });
    }

    /// What an answer can be deleted by: its caller, its route, and the key that it is known by.
    fn tags(&self, key: &ExactKey, record: &Record) -> [u8; 32] {
        let caller = self.keys.tag("caller", record.caller.as_deref());
        tags(caller, self.keys.tag("route", Some(&record.route)), Some(key))
    }

    /// Takes note of a purge before anything is forgotten, so that answers which are being read back do not bring it to nothing.
    pub(super) fn note(&self, purge: &Purge) {
        if let Some(purges) = &mut *lock(&self.loading) {
            if purges.len() == PURGES {
                purges.push(Purge::default());
            } else if purges.len() < PURGES {
                purges.push(purge.clone());
            }
        }
    }

    /// Deletes what `purge` says; it is gone when this returns. Waits for the disk.
    pub(super) fn purge(&self, purge: &Purge) {
        let tag = |kind, name: Option<&str>| name.map_or([0; 8], |name| self.keys.tag(kind, Some(name)));
        if *purge == Purge::default() {
            self.log.clear();
        } else {
            let (caller, route) = (tag("caller", purge.caller.as_deref()), tag("route", purge.route.as_deref()));
            self.log.remove_scope(tags(caller, route, purge.entry.as_ref()));
        }
        self.log.flush();
    }

    /// Deletes what is to stay off the disk.
    pub(super) fn keep_off(&self, off: &Off) {
        for route in &off.routes {
            self.log.remove_scope(tags([0; 8], self.keys.tag("route", Some(route)), None));
        }
        for caller in &off.callers {
            self.log.remove_scope(tags(self.keys.tag("caller", Some(caller)), [0; 8], None));
        }
    }

    /// Takes an answer in that was read back, unless it was purged meanwhile: a purge waits until `take` is done, or `take` is not called.
    pub(super) fn unless_purged<T>(&self, key: &ExactKey, record: &Record, take: impl FnOnce() -> T) -> Option<T> {
        let loading = lock(&self.loading);
        let purged = loading.as_ref().is_some_and(|purges| purges.iter().any(|purge| purge.means(key, record)));
        (!purged).then(take)
    }

    /// All answers have been read back.
    pub(super) fn loaded(&self) {
        *lock(&self.loading) = None;
    }
}

fn tags(caller: [u8; 8], route: [u8; 8], key: Option<&ExactKey>) -> [u8; 32] {
    let mut tags = [0; 32];
    tags[..8].copy_from_slice(&caller);
    tags[8..16].copy_from_slice(&route);
    if let Some(key) = key {
        tags[16..].copy_from_slice(&key.as_bytes()[..16]);
    }
    tags
}

/// Milliseconds since 1970: what counts on a disk, where no process's own clock is known.
pub(super) fn now() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::{Origin, ScopeId},
        protocol::Transcript,
        store::{Limits, Recovery},
        types::Endpoint,
    };

    fn open(folder: &std::path::Path) -> (Shelf, Recovery) {
        let limits = Limits { bytes: 1 << 20, age: Duration::from_hours(1), queue: 1 << 20 };
        let (log, recovery) = Log::open(folder, limits).unwrap();
        let spec = Persist { path: folder.into(), max_size: 1 << 20, retention: Duration::from_hours(1) };
        (Shelf::new(log, spec), recovery)
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
