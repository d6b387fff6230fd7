//! Cached answers by the exact key of their requests, within a limit on bytes.
//!
//! Entries that save least per byte are evicted first. The rank of an entry is `hits × worth / bytes`, plus the rank of
//! the last evicted entry, so that entries that were once popular do not stay for ever (Cherkasova, "Improving WWW
//! proxies performance with greedy-dual-size-frequency caching policy", HP Laboratories 1998). A scope that exceeds its
//! share evicts its own entries.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    key::{ExactKey, ScopeId},
    record::Kept,
    record::Record,
};
use signalbox_types::Moment;

/// Shards, each with its own lock.
const SHARDS: usize = 8;
/// Size of an entry without its record, in bytes: its key in three places, and their nodes.
const ENTRY: usize = 320;
/// Share of the bytes that one scope may use while there are others.
const SHARE: f64 = 0.5;
/// Part of its TTL by which an entry may expire earlier, so that entries stored together do not expire together.
const JITTER: f64 = 0.1;

/// Cached answers by key.
#[derive(Debug)]
pub struct ExactCache {
    shards: [Mutex<Shard>; SHARDS],
    /// Limit on the bytes of each shard.
    most: AtomicUsize,
    evictions: [AtomicU64; Eviction::ALL.len()],
}

/// Reason for an eviction.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Other entries were worth more.
    Space,
    /// Its scope exceeded its share.
    Share,
    /// It expired.
    Expired,
    /// A newer answer replaced it.
    Replaced,
    /// It was purged on request, or by a policy that disables the cache.
    Purged,
}

impl Eviction {
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; 5] = [Self::Space, Self::Share, Self::Expired, Self::Replaced, Self::Purged];

    /// Label of low cardinality for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Share => "share",
            Self::Expired => "expired",
            Self::Replaced => "replaced",
            Self::Purged => "purged",
        }
    }
}

/// A cached answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The answer.
    pub record: Arc<Record>,
    /// Time since the answer was stored.
    pub age: Duration,
    /// Time for which the answer may still be returned.
    pub left: Duration,
}

/// Reason for a miss.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no entry.
    Absent,
    /// It has expired.
    Expired,
    /// It is older than the caller accepts.
    TooOld,
    /// It came from a backend that may not serve this request.
    Origin,
}

impl Missing {
    /// Label of low cardinality for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Expired => "expired",
            Self::TooOld => "too_old",
            Self::Origin => "origin",
        }
    }
}

/// Selection of entries to purge; `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purge {
    /// Entries of this caller's key.
    pub caller: Option<String>,
    /// Entries of requests on this route.
    pub route: Option<String>,
    /// This entry.
    pub entry: Option<ExactKey>,
}

impl Purge {
    /// True if the answer to requests with `key` is selected.
    pub fn means(&self, key: &ExactKey, record: &Record) -> bool {
        self.caller.as_deref().is_none_or(|caller| record.caller.as_deref() == Some(caller))
            && self.route.as_deref().is_none_or(|route| *record.route == *route)
            && self.entry.is_none_or(|entry| entry == *key)
    }
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<ExactKey, Entry>,
    /// Entries by rank, lowest first.
    order: BTreeSet<(Rank, ExactKey)>,
    /// Entries by scope and rank.
    by_scope: BTreeSet<(ScopeId, Rank, ExactKey)>,
    bytes: usize,
    scopes: HashMap<ScopeId, usize>,
    /// Rank of the last evicted entry.
    floor: f64,
}

/// Bits of a rank. Ranks are never negative, so the bits have the order of the numbers.
type Rank = u64;

#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    bytes: usize,
    kept: Kept,
    expires: Moment,
    hits: u32,
    rank: Rank,
}

impl Default for ExactCache {
    /// Stores nothing until it has a [capacity](Self::set_capacity).
    fn default() -> Self {
        Self { shards: Default::default(), most: AtomicUsize::new(0), evictions: Default::default() }
    }
}

impl ExactCache {
    /// Sets the limit on bytes.
    pub fn set_capacity(&self, bytes: usize) {
        let most = bytes / SHARDS;
        self.most.store(most, Relaxed);
        for shard in &self.shards {
            let mut shard = shard.lock();
            self.make_room(&mut shard, most, None);
        }
    }

    /// Finds the answer to requests with `key`, if it has not expired, is no older than `max_age`, and `may_serve`.
    ///
    /// # Errors
    ///
    /// [`Missing`] if there is none.
    pub fn get(
        &self,
        key: &ExactKey,
        max_age: Option<Duration>,
        may_serve: impl FnOnce(&Record) -> bool,
        now: Moment,
    ) -> Result<Found, Missing> {
        let mut shard = self.shard(key).lock();
        let floor = shard.floor;
        let entry = shard.entries.get_mut(key).ok_or(Missing::Absent)?;
        if entry.expires <= now {
            shard.remove(key);
            self.count(Eviction::Expired, 1);
            return Err(Missing::Expired);
        }
        let age = entry.kept.age(now);
        if max_age.is_some_and(|most| age > most) {
            return Err(Missing::TooOld);
        }
        if !may_serve(&entry.record) {
            return Err(Missing::Origin);
        }
        entry.hits = entry.hits.saturating_add(1);
        let before = entry.rank;
        entry.rank = entry.ranked(floor);
        let found = Found { record: entry.record.clone(), age, left: entry.expires.since(now) };
        let (after, scope) = (entry.rank, entry.record.scope);
        shard.order.remove(&(before, *key));
        shard.order.insert((after, *key));
        shard.by_scope.remove(&(scope, before, *key));
        shard.by_scope.insert((scope, after, *key));
        Ok(found)
    }

    /// Stores an answer for at most `ttl`. Returns false if there is no room for it.
    pub fn insert(&self, key: ExactKey, record: Arc<Record>, ttl: Duration, now: Moment) -> bool {
        // The key is random already: it determines how much earlier each entry expires.
        let part = f64::from(u16::from_le_bytes([key.as_bytes()[30], key.as_bytes()[31]])) / f64::from(u16::MAX);
        let expires = now.plus(ttl.mul_f64(1.0 - JITTER * part));
        let entry = Entry { bytes: record.bytes() + ENTRY, record, kept: Kept::since(now), expires, hits: 1, rank: 0 };
        self.put(key, entry, true)
    }

    /// Stores an answer from another place for its remaining time `left`. Never replaces a local entry. Returns true if
    /// it was stored.
    pub fn restore(&self, key: ExactKey, record: Arc<Record>, kept: Kept, left: Duration, now: Moment) -> bool {
        let entry = Entry { bytes: record.bytes() + ENTRY, record, kept, expires: now.plus(left), hits: 1, rank: 0 };
        self.put(key, entry, false)
    }

    fn put(&self, key: ExactKey, mut entry: Entry, replaces: bool) -> bool {
        let most = self.most.load(Relaxed);
        if entry.bytes > most {
            return false;
        }
        let scope = entry.record.scope;
        let mut shard = self.shard(&key).lock();
        if !replaces && shard.entries.contains_key(&key) {
            return false;
        }
        if shard.remove(&key).is_some() {
            self.count(Eviction::Replaced, 1);
        }
        entry.rank = entry.ranked(shard.floor);
        shard.add(key, entry);
        self.make_room(&mut shard, most, Some(scope));
        shard.entries.contains_key(&key)
    }

    /// Removes the entries that `purge` selects. Returns their number.
    pub fn purge(&self, purge: &Purge) -> usize {
        let mut gone = 0;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let keys: Vec<_> =
                shard.entries.iter().filter(|(key, it)| purge.means(key, &it.record)).map(|(key, _)| *key).collect();
            gone += keys.len();
            for key in &keys {
                shard.remove(key);
            }
        }
        self.count(Eviction::Purged, gone);
        gone
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the entries in bytes.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    /// Evictions for this reason so far.
    pub fn evicted(&self, reason: Eviction) -> u64 {
        self.evictions[reason as usize].load(Relaxed)
    }

    fn shard(&self, key: &ExactKey) -> &Mutex<Shard> {
        &self.shards[usize::from(key.as_bytes()[0]) % SHARDS]
    }

    fn count(&self, reason: Eviction, entries: usize) {
        self.evictions[reason as usize].fetch_add(entries as u64, Relaxed);
    }

    /// Evicts entries until the rest fits. `scope` is the scope of the newest entry.
    fn make_room(&self, shard: &mut Shard, most: usize, scope: Option<ScopeId>) {
        while shard.bytes > most {
            let own = scope.filter(|scope| shard.holds_too_much(scope, most));
            let (reason, next) = match own {
                Some(scope) => (Eviction::Share, shard.lowest_of(scope)),
                None => (Eviction::Space, shard.order.first().copied()),
            };
            let Some((rank, key)) = next else { return };
            shard.floor = shard.floor.max(f64::from_bits(rank));
            shard.remove(&key);
            self.count(reason, 1);
        }
    }
}

impl Shard {
    fn add(&mut self, key: ExactKey, entry: Entry) {
        let (rank, scope) = (entry.rank, entry.record.scope);
        self.bytes += entry.bytes;
        *self.scopes.entry(scope).or_default() += entry.bytes;
        self.order.insert((rank, key));
        self.by_scope.insert((scope, rank, key));
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &ExactKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        let scope = entry.record.scope;
        self.bytes -= entry.bytes;
        if let Some(bytes) = self.scopes.get_mut(&scope) {
            *bytes -= entry.bytes;
            if *bytes == 0 {
                self.scopes.remove(&scope);
            }
        }
        self.order.remove(&(entry.rank, *key));
        self.by_scope.remove(&(scope, entry.rank, *key));
        Some(entry)
    }

    fn holds_too_much(&self, scope: &ScopeId, most: usize) -> bool {
        let share = (most as f64 * SHARE) as usize;
        self.scopes.len() > 1 && self.scopes.get(scope).is_some_and(|bytes| *bytes > share)
    }

    fn lowest_of(&self, scope: ScopeId) -> Option<(Rank, ExactKey)> {
        let first = (scope, 0, ExactKey::from_bytes([0; 32]));
        let (found, rank, key) = self.by_scope.range(first..).next()?;
        (*found == scope).then_some((*rank, *key))
    }
}

impl Entry {
    fn ranked(&self, floor: f64) -> Rank {
        (floor + f64::from(self.hits) * self.record.worth() / self.bytes as f64).to_bits()
    }
}

#[cfg(test)]
mod tests;
