//! A hash table that never moves its entries: chains from a fixed row of buckets, over slots that grow by chunks. No
//! request waits for a table to be copied, and its memory use is exact.

use std::ops::{Index, IndexMut};

/// No slot: the first slot is never used.
pub(super) const NONE: u32 = 0;

/// Key of free slots. A real key may have the same value, so it proves nothing.
const FREE: u64 = 0;

/// Slots per chunk.
const CHUNK: usize = 256;

/// Values by keys that are already uniform (hashes): the low bits of the key choose the bucket.
pub(super) struct Table<T> {
    buckets: Box<[u32]>,
    chunks: Vec<Box<[Slot<T>]>>,
    /// First free slot; free slots are chained like a bucket's.
    free: u32,
    len: usize,
}

#[derive(Copy, Clone, Default)]
struct Slot<T> {
    key: u64,
    next: u32,
    value: T,
}

impl<T: Copy + Default> Table<T> {
    /// Bytes of one more chunk.
    pub(super) const CHUNK_BYTES: usize = CHUNK * size_of::<Slot<T>>();
    /// Bytes of one slot.
    pub(super) const SLOT_BYTES: usize = size_of::<Slot<T>>();

    /// Creates an empty table with at least `buckets` buckets.
    pub(super) fn new(buckets: usize) -> Self {
        let buckets = vec![NONE; buckets.max(1).next_power_of_two()].into_boxed_slice();
        Self { buckets, chunks: Vec::new(), free: NONE, len: 0 }
    }

    /// Number of values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
            + self.chunks.capacity() * size_of::<Box<[Slot<T>]>>()
            + self.chunks.len() * Self::CHUNK_BYTES
    }

    /// True if a value can be inserted without growing.
    pub(super) fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Adds a chunk of free slots. Returns false if slot numbers are exhausted.
    pub(super) fn grow(&mut self) -> bool {
        let first = self.chunks.len() * CHUNK;
        if u32::try_from(first + CHUNK).is_err() {
            return false;
        }
        let mut chunk = vec![Slot::default(); CHUNK].into_boxed_slice();
        for (slot, at) in chunk.iter_mut().zip(first..first + CHUNK).rev() {
            if at as u32 != NONE {
                slot.next = self.free;
                self.free = at as u32;
            }
        }
        self.chunks.push(chunk);
        true
    }

    /// Frees all chunks. For an empty table only.
    pub(super) fn shrink(&mut self) {
        debug_assert_eq!(self.len, 0, "what is held would be lost");
        self.chunks = Vec::new();
        self.free = NONE;
    }

    /// Finds the slot of `key`.
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let slot = self.slot(at);
            if slot.key == key {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// Finds the slot of `key`, trying `guess` first.
    pub(super) fn find_near(&self, key: u64, guess: u32) -> Option<u32> {
        let slots = self.chunks.get(guess as usize / CHUNK);
        let found = key != FREE && slots.is_some_and(|slots| slots[guess as usize % CHUNK].key == key);
        if found { Some(guess) } else { self.find(key) }
    }

    /// Inserts `value` into a free slot, which must exist.
    pub(super) fn insert(&mut self, key: u64, value: T) -> u32 {
        let (at, bucket) = (self.free, self.bucket(key));
        debug_assert_ne!(at, NONE, "room is made before");
        self.free = self.slot(at).next;
        *self.slot_mut(at) = Slot { key, next: self.buckets[bucket], value };
        self.buckets[bucket] = at;
        self.len += 1;
        at
    }

    /// Frees a slot.
    pub(super) fn remove(&mut self, at: u32) {
        let Slot { key, next, .. } = *self.slot(at);
        let bucket = self.bucket(key);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = next;
        } else {
            let mut before = self.buckets[bucket];
            while self.slot(before).next != at {
                before = self.slot(before).next;
            }
            self.slot_mut(before).next = next;
        }
        *self.slot_mut(at) = Slot { key: FREE, next: self.free, value: T::default() };
        self.free = at;
        self.len -= 1;
    }

    fn bucket(&self, key: u64) -> usize {
        key as usize & (self.buckets.len() - 1)
    }

    fn slot(&self, at: u32) -> &Slot<T> {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    fn slot_mut(&mut self, at: u32) -> &mut Slot<T> {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

impl<T: Copy + Default> Index<u32> for Table<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        &self.slot(at).value
    }
}

impl<T: Copy + Default> IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.slot_mut(at).value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn keys_inserted_together_use_consecutive_slots() {
        let mut table = Table::<u64>::new(100);
        assert!(table.grow());
        let mut slots: Vec<u32> = (0..50).map(|at| table.insert(at * 7_919, at)).collect();
        assert!(slots.is_sorted_by(|one, next| one + 1 == *next));
        // In the order of eviction: the last block first.
        slots.iter().rev().for_each(|at| table.remove(*at));
        slots = (0..50).map(|at| table.insert(at * 104_729, at)).collect();
        assert!(slots.is_sorted_by(|one, next| one + 1 == *next));
    }

    #[test]
    fn the_table_agrees_with_a_hash_map() {
        let (mut table, mut map) = (Table::<u64>::new(100), HashMap::new());
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let key = random.u64(..2_000);
            let found = table.find(key);
            assert_eq!(table.find_near(key, random.u32(..3_000)), found, "whatever was guessed");
            if let Some(at) = found {
                assert_eq!(map.remove(&key), Some(table[at]));
                table.remove(at);
                assert_eq!(table.find_near(key, at), None, "what was there is no more");
            } else {
                if !table.has_room() {
                    assert!(table.grow());
                }
                let value = random.u64(..);
                let at = table.insert(key, value);
                assert_eq!((table.find_near(key, at), table.find_near(key, NONE)), (Some(at), Some(at)));
                assert_eq!(map.insert(key, value), None);
            }
            assert_eq!(table.len(), map.len());
        }
        assert!(table.bytes() < 2_000 * Table::<u64>::SLOT_BYTES * 2, "freed slots are used again");
    }
}
