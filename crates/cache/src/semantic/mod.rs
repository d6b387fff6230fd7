//! Semantic cache: answers to texts of the same meaning, by vectors, with one index per set of requests that differ
//! only in that text.
//!
//! A lookup has two stages. [`Semantic::find`] collects the entries nearest to the vector of a text. [`judge`] weighs
//! them by their similarity, by the [guards](super::guard), and by the evidence of the entry and its scope, and decides
//! whether to serve one.

mod entry;
mod space;
mod verdict;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};

use self::space::Space;
pub use self::{
    entry::{Entry, NewEntry, Wanted},
    verdict::{Judged, NearMiss, Verdict, Weighed, compare_texts, judge},
};
use super::{exact::Purge, index::Adaptive, key::CompatKey};
use signalbox_policy::IndexKind;
use signalbox_types::Moment;

/// Candidates of a lookup: the nearest by the deciding embedder.
pub const CANDIDATES: usize = 8;

/// Approximate size of an index with one vector, in bytes: a unique conversation history has an index of its own.
const SPACE: usize = 3 << 10;

/// All entries. Shared by reference between threads.
#[derive(Debug, Default)]
pub struct Semantic {
    spaces: RwLock<HashMap<CompatKey, Arc<RwLock<Space>>>>,
    /// All entries, in the order in which eviction considers them.
    order: Mutex<VecDeque<(CompatKey, u64)>>,
    numbers: AtomicU64,
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// Limit on bytes.
    most: AtomicUsize,
    kind: Mutex<IndexKind>,
    evicted: [AtomicU64; Removal::ALL.len()],
}

/// Reason for a removal, in the order of the counters.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Room was needed, and it was not used since eviction last considered it.
    Space,
    /// It expired.
    Expired,
    /// A newer answer to the same text replaced it.
    Replaced,
    /// It was purged on request, or by a policy that disables the cache.
    Purged,
}

impl Removal {
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; 4] = [Self::Space, Self::Expired, Self::Replaced, Self::Purged];

    /// Label of low cardinality for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Expired => "expired",
            Self::Replaced => "replaced",
            Self::Purged => "purged",
        }
    }
}

impl Semantic {
    /// Sets the limit on bytes.
    pub fn set_capacity(&self, bytes: usize) {
        self.most.store(bytes, Relaxed);
        self.make_room();
    }

    /// Sets the kind of index, for the next rebuild.
    pub fn set_index(&self, kind: IndexKind) {
        *self.kind.lock() = kind;
    }

    /// Number of entries in the index of `key`: a search takes time in proportion.
    pub fn len_of(&self, key: &CompatKey) -> usize {
        self.space(key).map_or(0, |space| space.read().len())
    }

    /// Entries of `key` nearest to a vector that may be served, nearest first.
    pub fn find(&self, key: &CompatKey, vector: &[f32], wanted: Wanted<'_>, now: Moment) -> Vec<Arc<Entry>> {
        let Some(space) = self.space(key) else { return Vec::new() };
        let found = space.read().search(vector, CANDIDATES);
        found.into_iter().filter(|(entry, _)| entry.may_serve(wanted, now)).map(|(entry, _)| entry).collect()
    }

    /// Stores an answer under a text for at most `ttl`. Replaces an earlier one of the same backend. Returns `None`
    /// without room for it.
    pub fn insert(&self, key: CompatKey, new: NewEntry, ttl: Duration, now: Moment) -> Option<Arc<Entry>> {
        self.put(key, new, ttl, now, true)
    }

    /// Stores an answer from another place for its remaining time `left`. Never replaces a local entry.
    pub fn restore(&self, key: CompatKey, new: NewEntry, left: Duration, now: Moment) -> Option<Arc<Entry>> {
        self.put(key, new, left, now, false)
    }

    fn put(&self, key: CompatKey, new: NewEntry, ttl: Duration, now: Moment, newest: bool) -> Option<Arc<Entry>> {
        let number = self.numbers.fetch_add(1, Relaxed);
        let entry = Arc::new(Entry::new(number, new, ttl, now));
        if entry.bytes + SPACE > self.most.load(Relaxed) {
            return None;
        }
        let new = || {
            self.bytes.fetch_add(SPACE, Relaxed);
            Arc::new(RwLock::new(Space::new()))
        };
        let space = self.spaces.write().entry(key).or_insert_with(new).clone();
        let replaced = {
            let mut space = space.write();
            if !newest && space.answers(&entry) {
                return None;
            }
            // Counted before it can be found and so before it can be removed: the counts never fall below zero.
            self.bytes.fetch_add(entry.bytes, Relaxed);
            self.count.fetch_add(1, Relaxed);
            space.insert(entry.clone())
        };
        drop(space);
        if let Some(replaced) = replaced {
            self.forget(&replaced);
            self.count(Removal::Replaced);
        }
        self.order.lock().push_back((key, number));
        self.make_room();
        Some(entry)
    }

    /// Entry of `key` with this number, if it is still there.
    pub fn get(&self, key: &CompatKey, number: u64) -> Option<Arc<Entry>> {
        self.space(key).and_then(|space| space.read().entries.get(&number).cloned())
    }

    /// Removes an entry, for example because its answer was wrong.
    pub fn remove(&self, key: &CompatKey, number: u64) -> bool {
        self.take(key, number).map(|_| self.count(Removal::Purged)).is_some()
    }

    /// Removes the entries that `purge` selects. Returns their number.
    pub fn purge(&self, purge: &Purge) -> usize {
        let spaces: Vec<_> = self.spaces.read().iter().map(|(key, space)| (*key, space.clone())).collect();
        let mut gone = 0;
        for (key, space) in spaces {
            let matching: Vec<u64> = {
                let entries = space.read();
                entries.entries.values().filter(|entry| entry.is_meant(purge)).map(|entry| entry.number).collect()
            };
            drop(space);
            gone += matching.into_iter().filter(|number| self.remove(&key, *number)).count();
        }
        gone
    }

    /// Builds the graphs that are due, one after the other: minutes for one of 100,000 vectors. Returns their number.
    pub fn rebuild(&self) -> usize {
        let sealed_from = Adaptive::threshold(*self.kind.lock());
        let keys: Vec<_> = self.spaces.read().keys().copied().collect();
        let mut built = 0;
        for key in keys {
            // The index is held while it is rebuilt, and no longer: what is held is not dropped when it is empty.
            let Some(space) = self.space(&key) else { continue };
            if let Some((before, after)) = Space::rebuild(&space, sealed_from) {
                self.bytes.fetch_add(after, Relaxed);
                self.bytes.fetch_sub(before, Relaxed);
                built += 1;
            }
        }
        self.make_room();
        built
    }

    /// Drops the indexes that are empty.
    pub fn maintain(&self) {
        let all = self.spaces.read();
        let empty: Vec<_> = all.iter().filter(|(_, space)| space.read().len() == 0).map(|(key, _)| *key).collect();
        drop(all);
        for key in &empty {
            self.leave(key);
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Removals for this reason.
    pub fn evicted(&self, why: Removal) -> u64 {
        self.evicted[why as usize].load(Relaxed)
    }

    fn space(&self, key: &CompatKey) -> Option<Arc<RwLock<Space>>> {
        self.spaces.read().get(key).cloned()
    }

    fn count(&self, why: Removal) {
        self.evicted[why as usize].fetch_add(1, Relaxed);
    }

    fn take(&self, key: &CompatKey, number: u64) -> Option<Arc<Entry>> {
        let (entry, empty) = {
            let space = self.space(key)?;
            let mut space = space.write();
            (space.remove(number)?, space.len() == 0)
        };
        self.forget(&entry);
        if empty {
            self.leave(key);
        }
        Some(entry)
    }

    /// Drops the index of `key` if it is empty. If another thread is using it, [`Semantic::maintain`] does it later.
    fn leave(&self, key: &CompatKey) {
        let mut spaces = self.spaces.write();
        // No other thread holds it, so none is inserting into it.
        if spaces.get(key).is_some_and(|known| Arc::strong_count(known) == 1 && known.read().len() == 0)
            && let Some(empty) = spaces.remove(key)
        {
            drop(spaces);
            self.bytes.fetch_sub(SPACE + empty.read().graph_bytes(), Relaxed);
        }
    }

    fn forget(&self, entry: &Entry) {
        self.bytes.fetch_sub(entry.bytes, Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }

    /// Second chance (Corbató, "A paging experiment with the Multics system", 1969): an entry that was served since it
    /// was last considered stays for another round.
    fn make_room(&self) {
        let most = self.most.load(Relaxed);
        let mut rounds = self.order.lock().len() * 2;
        while self.bytes.load(Relaxed) > most && rounds > 0 {
            rounds -= 1;
            let Some((key, number)) = self.order.lock().pop_front() else { return };
            let Some(entry) = self.get(&key, number) else { continue };
            if entry.was_given() {
                self.order.lock().push_back((key, number));
            } else if self.take(&key, number).is_some() {
                self.count(Removal::Space);
            }
        }
    }

    /// Removes expired entries among the `most` that were considered longest ago.
    pub fn expire(&self, most: usize, now: Moment) -> usize {
        let mut gone = 0;
        // A separate statement: in the loop's head the lock would be held for the whole loop.
        let looked_at = most.min(self.order.lock().len());
        for _ in 0..looked_at {
            let Some((key, number)) = self.order.lock().pop_front() else { break };
            match self.get(&key, number) {
                Some(entry) if entry.expires > now => self.order.lock().push_back((key, number)),
                Some(_) if self.take(&key, number).is_some() => {
                    self.count(Removal::Expired);
                    gone += 1;
                }
                Some(_) | None => {}
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests;
