//! Blocks of one holder in the order of last use, and the estimated capacity of its cache.

use super::table::{NONE, Table};

/// Id of a holder: a model (and adapter) on an engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct HolderId {
    pub(super) position: u32,
    /// Earlier holders at this position: the id of a removed holder never matches its successor.
    pub(super) generation: u32,
}

/// A block held by a holder.
#[derive(Copy, Clone, Default)]
pub(super) struct Holding {
    /// The holder's use counter at the last use of this block.
    pub(super) used: u32,
    /// The use counter when the block was added.
    pub(super) made: u32,
    /// Neighbours in the order of last use.
    newer: u32,
    older: u32,
    /// Slot in the table of blocks.
    pub(super) block: u32,
    /// Bytes of prompt that the block covers.
    pub(super) bytes: u32,
    /// Dispatched requests with this block that are neither confirmed nor withdrawn.
    pub(super) waiting: u16,
    /// True if an answer has proved that the block was computed.
    pub(super) confirmed: bool,
}

impl Holding {
    pub(super) fn new(block: u32, bytes: u64, used: u32) -> Self {
        Self { used, made: used, block, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), ..Self::default() }
    }
}

/// A holder: the ends of its list, and its counters.
#[derive(Copy, Clone)]
pub(super) struct Holder {
    /// Size of its engine's KV cache as reported or configured, in bytes of prompt.
    pub(super) capacity: u64,
    /// Size derived from usage reports; unlimited until one fell short.
    pub(super) learned: u64,
    /// Bytes covered by the holder's blocks.
    pub(super) held: u64,
    /// Number of the holder's blocks.
    pub(super) blocks: usize,
    /// Requests that used the holder. Wraps: ages are differences.
    pub(super) uses: u32,
    /// Bytes of all blocks ever added. Wraps.
    pub(super) added: u64,
    newest: u32,
    oldest: u32,
}

impl Holder {
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, learned: u64::MAX, held: 0, blocks: 0, uses: 0, added: 0, newest: NONE, oldest: NONE }
    }

    /// Bytes of prompt that it is assumed to hold at most.
    pub(super) fn limit(&self) -> u64 {
        self.capacity.min(self.learned)
    }

    /// The least recently used block.
    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Uses since the counter was `used`.
    pub(super) fn age(&self, used: u32) -> u32 {
        self.uses.wrapping_sub(used)
    }

    /// Adds a block behind `newer`; at the front for `NONE`.
    pub(super) fn add(&mut self, holdings: &mut Table<Holding>, at: u32, newer: u32) {
        let bytes = u64::from(holdings[at].bytes);
        self.held += bytes;
        self.added = self.added.wrapping_add(bytes);
        self.blocks += 1;
        self.link(holdings, at, newer);
    }

    /// Moves a block behind `newer`; to the front for `NONE`.
    pub(super) fn touch(&mut self, holdings: &mut Table<Holding>, at: u32, newer: u32) {
        if at != newer {
            self.unlink(holdings, at);
            self.link(holdings, at, newer);
        }
    }

    /// Removes a block from the list and the counters.
    pub(super) fn remove(&mut self, holdings: &mut Table<Holding>, at: u32) {
        self.unlink(holdings, at);
        self.held -= u64::from(holdings[at].bytes);
        self.blocks -= 1;
    }

    /// Bytes of the blocks last used when the counter was `used`, or before.
    pub(super) fn bytes_until(&self, holdings: &Table<Holding>, used: u32) -> u64 {
        let (mut at, mut bytes) = (self.oldest, 0);
        while at != NONE && self.age(holdings[at].used) >= self.age(used) {
            bytes += u64::from(holdings[at].bytes);
            at = holdings[at].newer;
        }
        bytes
    }

    fn link(&mut self, holdings: &mut Table<Holding>, at: u32, newer: u32) {
        let older = if newer == NONE { self.newest } else { holdings[newer].older };
        (holdings[at].newer, holdings[at].older) = (newer, older);
        match newer {
            NONE => self.newest = at,
            _ => holdings[newer].older = at,
        }
        match older {
            NONE => self.oldest = at,
            _ => holdings[older].newer = at,
        }
    }

    fn unlink(&mut self, holdings: &mut Table<Holding>, at: u32) {
        let Holding { newer, older, .. } = holdings[at];
        match newer {
            NONE => self.newest = older,
            _ => holdings[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => holdings[older].newer = newer,
        }
    }
}
