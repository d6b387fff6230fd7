//! An entry: a text, as far as it is needed to compare others with it, and the answer that it got.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    cache::{
        confidence::Shift,
        exact::Purge,
        guard::Traits,
        kept::Kept,
        key::ExactKey,
        record::{Origin, Record},
    },
    measure::lock,
    types::Moment,
};

/// What an entry takes beside its record, its vectors and its traits, in bytes: itself, its places in the index, in the order and among
/// the texts.
const ENTRY: usize = 576;

/// What an entry is made of.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// A hash of the text, byte for byte: one text has one answer of each backend.
    pub text: u64,
    /// The text, taken apart.
    pub traits: Arc<Traits>,
    /// Its vector by the embedder that recalls.
    pub recall: Box<[f32]>,
    /// Its vector by the embedder that decides.
    pub vector: Box<[f32]>,
    /// The answer.
    pub record: Arc<Record>,
    /// The exact key of the request that it was the answer to.
    pub exact: ExactKey,
    /// Since when the answer is kept, where it was under another text before.
    pub kept: Option<Kept>,
}

/// An entry. Shared by reference between threads.
#[derive(Debug)]
pub struct Entry {
    /// Its number among all entries.
    pub number: u64,
    /// A hash of the text, byte for byte.
    pub text: u64,
    /// The text, taken apart.
    pub traits: Arc<Traits>,
    /// Its vector by the embedder that decides.
    pub vector: Box<[f32]>,
    /// The answer.
    pub record: Arc<Record>,
    /// The exact key of the request that it was the answer to.
    pub exact: ExactKey,
    /// Since when its answer is kept.
    pub kept: Kept,
    /// Until when.
    pub expires: Moment,
    /// Its bytes, near enough.
    pub(super) bytes: usize,
    /// How far its own evidence moves the log odds.
    shift: Mutex<Shift>,
    /// How often it was given.
    hits: AtomicU32,
    /// Whether it was given since the last look for room.
    given: AtomicBool,
}

/// An entry that the cheap vector found near.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Its similarity by that vector.
    pub recall: f32,
}

/// Which entries a request may be given.
#[derive(Copy, Clone, Debug)]
pub struct Wanted<'a> {
    /// Backends whose answers may be given.
    pub acceptable: &'a [Origin],
    /// The oldest that the caller takes.
    pub max_age: Option<Duration>,
}

impl Entry {
    pub(super) fn new(number: u64, new: NewEntry, ttl: Duration, now: Moment) -> Self {
        let NewEntry { text, traits, recall, vector, record, exact, kept } = new;
        let bytes = ENTRY + record.bytes() + vector.len() * size_of::<f32>() + recall.len() * 2 + traits.bytes();
        Self {
            number,
            text,
            traits,
            vector,
            record,
            exact,
            kept: kept.unwrap_or(Kept::since(now)),
            expires: now.plus(ttl),
            bytes,
            shift: Mutex::new(Shift::entry()),
            hits: AtomicU32::new(0),
            given: AtomicBool::new(false),
        }
    }

    /// How far its own evidence moves the log odds.
    pub fn shift(&self) -> Shift {
        *lock(&self.shift)
    }

    /// Learns whether its answer served a text whose log odds, but for the entry's own shift, were `log_odds`.
    pub fn learn(&self, log_odds: f32, same: bool, weight: f32) {
        lock(&self.shift).learn(log_odds, same, weight);
    }

    /// It was given once more.
    pub fn give(&self) {
        self.hits.fetch_add(1, Relaxed);
        self.given.store(true, Relaxed);
    }

    /// How often it was given.
    pub fn hits(&self) -> u32 {
        self.hits.load(Relaxed)
    }

    /// How long it may still be given.
    pub fn left(&self, now: Moment) -> Duration {
        self.expires.since(now)
    }

    /// What only one entry answers: a text, by a backend.
    pub(super) fn asked(&self) -> (u64, Origin) {
        (self.text, self.record.origin)
    }

    pub(super) fn was_given(&self) -> bool {
        self.given.swap(false, Relaxed)
    }

    pub(super) fn may_serve(&self, wanted: Wanted<'_>, now: Moment) -> bool {
        self.expires > now
            && wanted.max_age.is_none_or(|most| self.kept.age(now) <= most)
            && self.record.may_serve(wanted.acceptable)
    }

    pub(super) fn is_meant(&self, purge: &Purge) -> bool {
        purge.means(&self.exact, &self.record)
    }
}
