//! An entry of the semantic cache: a text's features for comparisons, and its answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    confidence::Shift,
    exact::Purge,
    guard::Traits,
    key::ExactKey,
    record::Kept,
    record::{Origin, Record},
};
use signalbox_types::Moment;

/// Size of an entry without its record, vectors and traits, in bytes: itself and its places in the index, in the order
/// and among the texts.
const ENTRY: usize = 576;

/// Parts of a new entry.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// Hash of the text, byte for byte: one text has one answer per backend.
    pub text: u64,
    /// Features of the text.
    pub traits: Arc<Traits>,
    /// Its vector by the deciding embedder.
    pub vector: Box<[f32]>,
    /// The answer.
    pub record: Arc<Record>,
    /// Exact key of the request that was answered.
    pub exact: ExactKey,
    /// Start of the answer's life, if it was stored under another text before.
    pub kept: Option<Kept>,
}

/// An entry. Shared by reference between threads.
#[derive(Debug)]
pub struct Entry {
    /// The entry's unique number.
    pub number: u64,
    /// Hash of the text, byte for byte.
    pub text: u64,
    /// Features of the text.
    pub traits: Arc<Traits>,
    /// Its vector by the deciding embedder.
    pub vector: Box<[f32]>,
    /// The answer.
    pub record: Arc<Record>,
    /// Exact key of the request that was answered.
    pub exact: ExactKey,
    /// Start of the answer's life.
    pub kept: Kept,
    /// Time of expiry.
    pub expires: Moment,
    /// Approximate size in bytes.
    pub(super) bytes: usize,
    /// Shift of the log odds by the entry's own evidence.
    shift: Mutex<Shift>,
    /// Number of times the entry was served.
    hits: AtomicU32,
    /// True if the entry was served since eviction last considered it.
    given: AtomicBool,
}

/// Entries that a request accepts.
#[derive(Copy, Clone, Debug)]
pub struct Wanted<'a> {
    /// Backends whose answers are acceptable.
    pub acceptable: &'a [Origin],
    /// Greatest age that the caller accepts.
    pub max_age: Option<Duration>,
}

impl Entry {
    pub(super) fn new(number: u64, new: NewEntry, ttl: Duration, now: Moment) -> Self {
        let NewEntry { text, traits, vector, record, exact, kept } = new;
        let bytes = ENTRY + record.bytes() + vector.len() * (size_of::<f32>() + 2) + traits.bytes();
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

    /// Shift of the log odds by its own evidence.
    pub fn shift(&self) -> Shift {
        *self.shift.lock()
    }

    /// Learns whether its answer served a text whose log odds without the entry's own shift were `log_odds`.
    pub fn learn(&self, log_odds: f32, same: bool, weight: f32) {
        self.shift.lock().learn(log_odds, same, weight);
    }

    /// Counts one more use.
    pub fn give(&self) {
        self.hits.fetch_add(1, Relaxed);
        self.given.store(true, Relaxed);
    }

    /// Number of times it was served.
    pub fn hits(&self) -> u32 {
        self.hits.load(Relaxed)
    }

    /// Time for which it may still be served.
    pub fn left(&self, now: Moment) -> Duration {
        self.expires.since(now)
    }

    /// Key of which there is only one entry: a text and a backend.
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
