//! KV cache memory of a simulated engine: blocks, shared by hash between equal prefixes, evicted least recently used first.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// End of a list, or no block.
const NONE: u32 = u32::MAX;

/// Hasher for keys that are hashes or small numbers: one multiplication, since this is the model's hottest path.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(self.0 ^ value) * 0x9E37_79B9_7F4A_7C15_u128;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

/// A shared block.
struct Block {
    hash: u64,
    /// Sequences that hold the block. At zero it is idle: still found by lookups, and the first to be evicted.
    holders: u32,
    /// Neighbours in the list of idle blocks, older and newer.
    older: u32,
    newer: u32,
}

/// A fixed number of blocks. Each is free, private to a sequence, shared (found by hash and held), or idle.
pub(super) struct Kv {
    capacity: u32,
    private: u32,
    held: u32,
    index: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    blocks: Vec<Block>,
    vacant: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Kv {
    /// Memory of `capacity` free blocks.
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            private: 0,
            held: 0,
            index: HashMap::default(),
            blocks: Vec::new(),
            vacant: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Number of blocks.
    pub(super) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Blocks held by sequences; idle ones do not count.
    pub(super) const fn in_use(&self) -> u32 {
        self.private + self.held
    }

    /// Looks up the longest cached prefix of `hashes` and stores it in `found`.
    pub(super) fn look_up(&self, hashes: &[u64], found: &mut Vec<u32>) {
        found.clear();
        found.extend(hashes.iter().map_while(|hash| self.index.get(hash).copied()));
    }

    /// Length of the longest cached prefix of `hashes`.
    pub(super) fn cached(&self, hashes: &[u64]) -> usize {
        hashes.iter().take_while(|hash| self.index.contains_key(hash)).count()
    }

    /// Holds the blocks in `found` and allocates `fresh` private ones, if `spare` more would remain; otherwise changes nothing.
    pub(super) fn admit(&mut self, found: &[u32], fresh: u32, spare: u32) -> bool {
        let woken = found.iter().filter(|&&block| self.blocks[block as usize].holders == 0).count() as u32;
        if u64::from(self.in_use()) + u64::from(woken) + u64::from(fresh) + u64::from(spare) > u64::from(self.capacity)
        {
            return false;
        }
        for &block in found {
            self.hold(block);
        }
        self.private += fresh;
        self.shrink();
        true
    }

    /// Allocates one more private block, if there is one.
    pub(super) fn grow(&mut self) -> bool {
        self.admit(&[], 1, 0)
    }

    /// Publishes a computed private block under `hash`. If another sequence did so first, its block is shared and the private one is freed.
    pub(super) fn publish(&mut self, hash: u64) -> u32 {
        self.private -= 1;
        if let Some(&block) = self.index.get(&hash) {
            self.hold(block);
            return block;
        }
        let fresh = Block { hash, holders: 1, older: NONE, newer: NONE };
        let block = if let Some(block) = self.vacant.pop() {
            self.blocks[block as usize] = fresh;
            block
        } else {
            self.blocks.push(fresh);
            self.blocks.len() as u32 - 1
        };
        self.index.insert(hash, block);
        self.held += 1;
        block
    }

    /// Releases the blocks of a sequence. The deepest become idle first, so that prefixes outlive what follows them.
    pub(super) fn release(&mut self, shared: &[u32], private: u32) {
        self.private -= private;
        for &block in shared.iter().rev() {
            let entry = &mut self.blocks[block as usize];
            entry.holders -= 1;
            if entry.holders == 0 {
                entry.older = self.newest;
                entry.newer = NONE;
                match self.newest {
                    NONE => self.oldest = block,
                    newest => self.blocks[newest as usize].newer = block,
                }
                self.newest = block;
                self.held -= 1;
            }
        }
    }

    fn hold(&mut self, block: u32) {
        let entry = &mut self.blocks[block as usize];
        entry.holders += 1;
        if entry.holders == 1 {
            self.held += 1;
            self.unlink(block);
        }
    }

    /// Evicts idle blocks until everything fits.
    fn shrink(&mut self) {
        while self.private as usize + self.index.len() > self.capacity as usize && self.oldest != NONE {
            let block = self.oldest;
            self.unlink(block);
            self.index.remove(&self.blocks[block as usize].hash);
            self.vacant.push(block);
        }
        debug_assert!(self.private as usize + self.index.len() <= self.capacity as usize, "more blocks than there are");
    }

    fn unlink(&mut self, block: u32) {
        let Block { older, newer, .. } = self.blocks[block as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.blocks[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(kv: &mut Kv, hashes: &[u64]) -> Vec<u32> {
        assert!(kv.admit(&[], hashes.len() as u32, 0));
        hashes.iter().map(|&hash| kv.publish(hash)).collect()
    }

    fn known(kv: &Kv, hashes: &[u64]) -> usize {
        let mut found = Vec::new();
        kv.look_up(hashes, &mut found);
        found.len()
    }

    #[test]
    fn released_blocks_are_found_until_memory_is_needed_and_the_tail_goes_first() {
        let mut kv = Kv::new(6);
        let first = fill(&mut kv, &[1, 2, 3]);
        let second = fill(&mut kv, &[7, 8]);
        kv.release(&first, 0);
        kv.release(&second, 0);
        assert_eq!((kv.in_use(), known(&kv, &[1, 2, 3]), known(&kv, &[7, 8])), (0, 3, 2));
        assert!(kv.admit(&[], 2, 0), "one blank, one evicted");
        assert_eq!((known(&kv, &[1, 2, 3]), known(&kv, &[7, 8])), (2, 2));
    }

    #[test]
    fn a_found_block_is_held_once_however_many_hold_it() {
        let mut kv = Kv::new(4);
        let blocks = fill(&mut kv, &[1, 2]);
        assert!(kv.admit(&blocks, 1, 1));
        assert_eq!(kv.in_use(), 3);
        assert!(!kv.admit(&blocks, 1, 1), "the last block is kept spare");
        kv.release(&blocks, 0);
        assert_eq!(kv.in_use(), 3);
        kv.release(&blocks, 1);
        assert_eq!(kv.in_use(), 0);
    }

    #[test]
    fn publishing_what_is_known_frees_the_private_copy() {
        let mut kv = Kv::new(4);
        let one = fill(&mut kv, &[5]);
        let other = fill(&mut kv, &[5]);
        assert_eq!((one == other, kv.in_use()), (true, 1));
    }

    #[test]
    fn found_blocks_are_not_evicted_to_make_room_for_their_own_tail() {
        let mut kv = Kv::new(3);
        let blocks = fill(&mut kv, &[1, 2, 3]);
        kv.release(&blocks, 0);
        assert!(!kv.admit(&blocks[..2], 2, 0));
        assert!(kv.admit(&blocks[..2], 1, 0));
        assert_eq!((known(&kv, &[1, 2, 3]), kv.in_use()), (2, 3));
    }
}
