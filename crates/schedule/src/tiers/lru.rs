//! A bounded map by hash that evicts the least recently used entry.

use std::collections::HashMap;

/// No entry.
const NONE: u32 = u32::MAX;

/// Values by hash in the order of use. At its bound it allocates nothing any more.
#[derive(Debug)]
pub(super) struct Lru<T> {
    most: usize,
    places: HashMap<u64, u32>,
    entries: Vec<Entry<T>>,
    newest: u32,
    oldest: u32,
    /// First free entry; free entries are linked by `older`.
    free: u32,
}

#[derive(Debug)]
struct Entry<T> {
    key: u64,
    value: Option<T>,
    newer: u32,
    older: u32,
}

impl<T> Lru<T> {
    /// Creates a map of at most `most` entries, at least 1.
    pub(super) fn new(most: usize) -> Self {
        let most = most.clamp(1, NONE as usize - 1);
        Self { most, places: HashMap::new(), entries: Vec::new(), newest: NONE, oldest: NONE, free: NONE }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Reads a value without using it.
    pub(super) fn peek(&self, key: u64) -> Option<&T> {
        self.places.get(&key).and_then(|place| self.entries[*place as usize].value.as_ref())
    }

    /// Returns a value and makes it the most recent.
    pub(super) fn touch(&mut self, key: u64) -> Option<&mut T> {
        let place = *self.places.get(&key)?;
        self.unlink(place);
        self.link(place);
        self.entries[place as usize].value.as_mut()
    }

    /// Inserts a value as the most recent. Evicts the oldest at the bound.
    pub(super) fn insert(&mut self, key: u64, value: T) {
        if let Some(known) = self.touch(key) {
            *known = value;
            return;
        }
        if self.len() >= self.most {
            self.pop_oldest();
        }
        let entry = Entry { key, value: Some(value), newer: NONE, older: NONE };
        let place = if self.free == NONE {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            let place = self.free;
            self.free = self.entries[place as usize].older;
            self.entries[place as usize] = entry;
            place
        };
        self.places.insert(key, place);
        self.link(place);
    }

    /// The least recently used value.
    pub(super) fn oldest(&self) -> Option<&T> {
        self.entries.get(self.oldest as usize).and_then(|entry| entry.value.as_ref())
    }

    /// Removes the least recently used value.
    pub(super) fn pop_oldest(&mut self) {
        let place = self.oldest;
        if place == NONE {
            return;
        }
        self.unlink(place);
        let entry = &mut self.entries[place as usize];
        entry.value = None;
        entry.older = self.free;
        let key = entry.key;
        self.free = place;
        self.places.remove(&key);
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most);
    }

    /// All values.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    fn link(&mut self, place: u32) {
        let second = self.newest;
        let entry = &mut self.entries[place as usize];
        (entry.newer, entry.older) = (NONE, second);
        self.newest = place;
        match self.entries.get_mut(second as usize) {
            Some(second) => second.newer = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let (newer, older) = (self.entries[place as usize].newer, self.entries[place as usize].older);
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        /// Compares with a list in the order of use.
        #[test]
        fn the_least_recently_used_are_evicted_first(most in 1..6_usize, acts in prop::collection::vec((0..10_u64, 0..4_u8), 0..200)) {
            let (mut lru, mut paper): (Lru<usize>, Vec<(u64, usize)>) = (Lru::new(most), Vec::new());
            for (turn, (key, act)) in acts.into_iter().enumerate() {
                let known = paper.iter().position(|entry| entry.0 == key);
                match act {
                    0 => {
                        lru.pop_oldest();
                        if !paper.is_empty() {
                            paper.remove(0);
                        }
                    }
                    1 => {
                        prop_assert_eq!(lru.touch(key).copied(), known.map(|place| paper[place].1));
                        if let Some(place) = known {
                            let entry = paper.remove(place);
                            paper.push(entry);
                        }
                    }
                    _ => {
                        lru.insert(key, turn);
                        known.map(|place| paper.remove(place));
                        paper.push((key, turn));
                        if paper.len() > most {
                            paper.remove(0);
                        }
                    }
                }
                prop_assert_eq!(lru.len(), paper.len());
                prop_assert!(lru.entries.len() <= most);
                prop_assert_eq!(lru.oldest().copied(), paper.first().map(|entry| entry.1));
                prop_assert_eq!(lru.values().count(), paper.len());
                for (key, value) in &paper {
                    prop_assert_eq!(lru.peek(*key), Some(value));
                }
            }
        }
    }
}
