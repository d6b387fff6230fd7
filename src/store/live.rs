//! Which records of a file count: not taken back, not replaced, not the oldest of too many.

use std::collections::{HashMap, VecDeque};

use super::{
    frame::{Act, Frame},
    record::Key,
};
use crate::cache::Tags;

/// Where a record lies, and what decides whether it still counts.
#[derive(Copy, Clone, Debug)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) total: u64,
    /// When it counts no more, by its own time or by its age.
    pub(super) expires: u64,
    scope: [u8; 32],
    /// Whether it was there when the log was opened, and has not been handed out.
    pub(super) recovered: bool,
}

/// The records of a file that count. The same frames give the same records, whether they are written or read.
#[derive(Debug)]
pub(super) struct Live {
    places: HashMap<Key, Place>,
    /// In the order in which they were written; what was taken back meanwhile is passed over.
    order: VecDeque<(u64, Key)>,
    bytes: u64,
    most_bytes: u64,
    most_age: u64,
    /// Whether a whole scope was taken back, whose bytes are to leave the disk.
    pub(super) wiped: bool,
    /// Frames that took a record back, so far.
    pub(super) revocations: u64,
    /// Records that were let go because there were too many.
    pub(super) evicted: u64,
    /// Records that were let go because a frame that may have taken them back is lost.
    pub(super) doubtful: u64,
}

impl Live {
    /// For at most so many bytes, and so many milliseconds of age.
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

    /// Bytes of the file that count.
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

    /// Says in a frame that is about to be written what it takes back.
    pub(super) fn number(&self, frame: &mut Frame) {
        frame.revokes = frame.act != Act::Put || self.places.contains_key(&frame.key);
        frame.revocations = self.revocations + u64::from(frame.revokes);
    }

    /// Does what a frame at an offset says.
    pub(super) fn apply(&mut self, at: u64, frame: &Frame) {
        if frame.revocations != self.revocations + u64::from(frame.revokes) {
            // A frame between is lost that took something back, and nobody knows what.
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
        // Entries of `order` that are passed over must not gather without bound.
        if self.order.len() > 2 * self.places.len() + 1024 {
            self.order.retain(|(at, key)| self.places.get(key).is_some_and(|place| place.at == *at));
        }
    }

    /// Lets a record go.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.bytes -= place.total;
        }
    }

    /// Lets all go that count no more at a time.
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
