//! Answers by the exact key of their requests, within a bound on their bytes.
//!
//! What goes first is what saves least for its bytes: the rank of an entry is `hits × worth / bytes`, plus the rank that the last
//! one had that had to go, so that what was once asked for often does not stay for ever (Cherkasova, "Improving WWW proxies
//! performance with greedy-dual-size-frequency caching policy", HP Laboratories 1998). A scope that holds more than its share beside
//! others makes room among its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    kept::Kept,
    key::{ExactKey, ScopeId},
    record::Record,
};
use crate::{measure::lock, types::Moment};

/// Parts with a lock of their own.
const SHARDS: usize = 8;
/// What an entry takes beside its record, in bytes: its key in three places, and their nodes.
const ENTRY: usize = 320;
/// The share of the bytes that one scope may hold while there are others.
const SHARE: f64 = 0.5;
/// The part of its time by which an entry may go sooner, so that what came together does not go together.
const JITTER: f64 = 0.1;

/// Kept answers by key.
#[derive(Debug)]
pub struct ExactCache {
    shards: [Mutex<Shard>; SHARDS],
    /// Most bytes of each shard.
    most: AtomicUsize,
    evictions: [AtomicU64; Eviction::ALL.len()],
}

/// Why an entry went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Others were worth more.
    Space,
    /// Its scope held more than its share.
    Share,
    /// Its time was over.
    Expired,
    /// A newer answer took its place.
    Replaced,
    /// Somebody asked for that, or the policy keeps nothing any more.
    Purged,
}

impl Eviction {
    /// All of them, in the order of the counts.
    pub const ALL: [Self; 5] = [Self::Space, Self::Share, Self::Expired, Self::Replaced, Self::Purged];

    /// A word of low cardinality, for metric labels.
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

/// A kept answer that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The answer.
    pub record: Arc<Record>,
    /// The time since it was kept.
    pub age: Duration,
    /// How long it may still be given.
    pub left: Duration,
}

/// Why none was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is none.
    Absent,
    /// Its time is over.
    Expired,
    /// It is older than the caller takes.
    TooOld,
    /// It came from a backend that this request would not go to.
    Origin,
}

impl Missing {
    /// A word of low cardinality, for metric labels.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Expired => "expired",
            Self::TooOld => "too_old",
            Self::Origin => "origin",
        }
    }
}

/// Whose entries are to go; parts that are `None` mean all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purge {
    /// Those of this caller's key.
    pub caller: Option<String>,
    /// Those of requests that took this route.
    pub route: Option<String>,
    /// This one.
    pub entry: Option<ExactKey>,
}

impl Purge {
    /// Whether the answer to requests with `key` is to go.
    pub fn means(&self, key: &ExactKey, record: &Record) -> bool {
        self.caller.as_deref().is_none_or(|caller| record.caller.as_deref() == Some(caller))
            && self.route.as_deref().is_none_or(|route| *record.route == *route)
            && self.entry.is_none_or(|entry| entry == *key)
    }
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<ExactKey, Entry>,
    /// Entries by rank, the lowest first.
    order: BTreeSet<(Rank, ExactKey)>,
    /// The same, each scope by itself.
    by_scope: BTreeSet<(ScopeId, Rank, ExactKey)>,
    bytes: usize,
    scopes: HashMap<ScopeId, usize>,
    /// The rank of the last entry that had to make room.
    floor: f64,
}

/// The bits of a rank, which is never negative: they are ordered as the numbers are.
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
    /// Keeps nothing until it is given [room](Self::set_capacity).
    fn default() -> Self {
        Self { shards: Default::default(), most: AtomicUsize::new(0), evictions: Default::default() }
    }
}

impl ExactCache {
    /// Holds no more than so many bytes from now on.
    pub fn set_capacity(&self, bytes: usize) {
        let most = bytes / SHARDS;
        self.most.store(most, Relaxed);
        for shard in &self.shards {
            let mut shard = lock(shard);
            self.make_room(&mut shard, most, None);
        }
    }

    /// The answer to requests with `key`, if it may still be given, is no older than `max_age`, and `may_serve`.
    ///
    /// # Errors
    /// [`Missing`] where there is none.
    pub fn get(
        &self,
        key: &ExactKey,
        max_age: Option<Duration>,
        may_serve: impl FnOnce(&Record) -> bool,
        now: Moment,
    ) -> Result<Found, Missing> {
        let mut shard = lock(self.shard(key));
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

    /// Keeps an answer for at most `ttl`; whether there was room for it.
    pub fn insert(&self, key: ExactKey, record: Arc<Record>, ttl: Duration, now: Moment) -> bool {
        // The key is random already: each entry goes a little sooner than it would have to, by its own part.
        let part = f64::from(u16::from_le_bytes([key.as_bytes()[30], key.as_bytes()[31]])) / f64::from(u16::MAX);
        let expires = now.plus(ttl.mul_f64(1.0 - JITTER * part));
        let entry = Entry { bytes: record.bytes() + ENTRY, record, kept: Kept::since(now), expires, hits: 1, rank: 0 };
        self.put(key, entry, true)
    }

    /// Takes an answer in that was kept elsewhere, for the time that is `left` of its own; never in the place of one that is here. Whether
    /// it is in.
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
        let mut shard = lock(self.shard(&key));
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

    /// Forgets what `purge` says; how many entries that were.
    pub fn purge(&self, purge: &Purge) -> usize {
        let mut gone = 0;
        for shard in &self.shards {
            let mut shard = lock(shard);
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

    /// How many answers it holds.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).bytes).sum()
    }

    /// How many entries went for this reason so far.
    pub fn evicted(&self, reason: Eviction) -> u64 {
        self.evictions[reason as usize].load(Relaxed)
    }

    fn shard(&self, key: &ExactKey) -> &Mutex<Shard> {
        &self.shards[usize::from(key.as_bytes()[0]) % SHARDS]
    }

    fn count(&self, reason: Eviction, entries: usize) {
        self.evictions[reason as usize].fetch_add(entries as u64, Relaxed);
    }

    /// Lets entries go until the rest fits. `scope`: whose entry came last.
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
