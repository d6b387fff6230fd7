//! Live records of a file: neither revoked nor replaced nor evicted.

use std::collections::{HashMap, VecDeque};

use super::{
    frame::{Act, Frame},
    record::Key,
};
use signalbox_cache::Tags;

/// Location of a record, and the data that decides if it is still live.
#[derive(Copy, Clone, Debug)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) total: u64,
    /// Time of expiry, by its own time or by its age.
    pub(super) expires: u64,
    scope: [u8; 32],
    /// True if the record was present when the log was opened and has not been returned yet.
    pub(super) recovered: bool,
}

/// Live records of a file. Equal frames give equal records, whether they are written or read.
#[derive(Debug)]
pub(super) struct Live {
    places: HashMap<Key, Place>,
    /// In the order of writing; revoked records are skipped.
    order: VecDeque<(u64, Key)>,
    bytes: u64,
    most_bytes: u64,
    most_age: u64,
    /// True if a whole scope was deleted, whose bytes must leave the disk.
    pub(super) wiped: bool,
    /// Revoking frames so far.
    pub(super) revocations: u64,
    /// Records evicted for space.
    pub(super) evicted: u64,
    /// Records dropped because a lost frame may have revoked them.
    pub(super) doubtful: u64,
}

impl Live {
    /// Creates an empty set with limits on bytes and on the age in milliseconds.
    pub(super) fn new(most_bytes: u64, most_age: u64) -> Self {
        Self {
            places: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            most_bytes,
            most_age,
            wiped: false,
            revocations: 0,
            evicted: 0,
            doubtful: 0,
        }
    }

    /// Bytes of live records in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn place(&mut self, key: &Key) -> Option<&mut Place> {
        self.places.get_mut(key)
    }

    /// All keys, in the order of their records.
    pub(super) fn keys(&self) -> VecDeque<Key> {
        let current = |(at, key): &(u64, Key)| self.places.get(key).is_some_and(|place| place.at == *at);
        self.order.iter().filter(|entry| current(entry)).map(|(_, key)| *key).collect()
    }

    /// Fills in the revocation fields of a frame that is about to be written.
    pub(super) fn number(&self, frame: &mut Frame) {
        frame.revokes = frame.act != Act::Put || self.places.contains_key(&frame.key);
        frame.revocations = self.revocations + u64::from(frame.revokes);
    }

    /// Applies a frame at an offset.
    pub(super) fn apply(&mut self, at: u64, frame: &Frame) {
        if frame.revocations != self.revocations + u64::from(frame.revokes) {
            // A revoking frame in between was lost, and it is unknown which record it concerned.
            self.doubtful += self.places.len() as u64;
            self.clear();
        }
        self.revocations = frame.revocations;
        self.wiped |= matches!(frame.act, Act::RemoveScope | Act::Clear);
        match frame.act {
            Act::Put => self.put(at, frame),
            Act::Remove => self.remove(&frame.key),
            Act::RemoveScope => {
                let pattern = Tags::from_bytes(frame.scope);
                self.places.retain(|_, place| !pattern.cover(&Tags::from_bytes(place.scope)));
                self.bytes = self.places.values().map(|place| place.total).sum();
            }
            Act::Clear => self.clear(),
        }
        // Skipped entries of `order` must not accumulate without bound.
        if self.order.len() > 2 * self.places.len() + 1024 {
            self.order.retain(|(at, key)| self.places.get(key).is_some_and(|place| place.at == *at));
        }
    }

    /// Drops a record.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.bytes -= place.total;
        }
    }

    /// Drops all records that have expired at `now`.
    pub(super) fn expire(&mut self, now: u64) {
        self.places.retain(|_, place| place.expires > now);
        self.bytes = self.places.values().map(|place| place.total).sum();
    }

    fn put(&mut self, at: u64, frame: &Frame) {
        self.remove(&frame.key);
        let expires = frame.expires.min(frame.written.saturating_add(self.most_age));
        let place = Place { at, total: frame.total(), expires, scope: frame.scope, recovered: false };
        self.bytes += place.total;
        self.places.insert(frame.key, place);
        self.order.push_back((at, frame.key));
        while self.bytes > self.most_bytes {
            let Some((at, key)) = self.order.pop_front() else { return };
            if self.places.get(&key).is_some_and(|place| place.at == at) {
                self.remove(&key);
                self.evicted += 1;
            }
        }
    }

    fn clear(&mut self) {
        self.places.clear();
        self.order.clear();
        self.bytes = 0;
    }
}
