//! Tables of the index: which holders hold which blocks. Used under the index's lock.

use super::{
    holder::{Holder, HolderId, Holding},
    reuse::Reuse,
    table::{NONE, Table},
};
use signalbox_types::Prompt;

/// Holders per word of bits.
const GROUP: usize = 64;
/// Blocks evicted at once, so that the largest holder is seldom searched for.
const BATCH: usize = 64;
/// One part in this many of the memory cap is reserved for the holders' own records.
const RESERVE: usize = 16;
/// Most buckets of a table, however high the cap.
const MOST_BUCKETS: usize = 1 << 22;
/// One part in this many of a report's excess over the prediction is added to the capacity. Not all of it: other
/// clients of the engine may have cached it.
const SURPLUS: u64 = 8;

/// Two tables and the holders' lists.
///
/// A holder of a block holds all blocks before it in its prompts: every use of a block is a use of those too, which are
/// put in front of it in the list, and eviction takes the list's end. A request that waits for a block, or confirmed
/// it, did the same for the earlier blocks, so that none is withdrawn while a later one stays.
pub(super) struct Ledger {
    most: usize,
    /// By block and group: a bit for each holder of the group that has the block.
    blocks: Table<u64>,
    /// By block and holder.
    holdings: Table<Holding>,
    holders: Vec<Holder>,
    /// Per position, the number of holders that left it.
    generations: Vec<u32>,
    vacant: Vec<u32>,
}

impl Ledger {
    pub(super) fn new(most: usize) -> Self {
        let slot = Table::<u64>::SLOT_BYTES + Table::<Holding>::SLOT_BYTES;
        let buckets = (most / (slot + 2 * size_of::<u32>())).clamp(1, MOST_BUCKETS);
        let buckets = 1 << buckets.ilog2();
        Self {
            most,
            blocks: Table::new(buckets),
            holdings: Table::new(buckets),
            holders: Vec::new(),
            generations: Vec::new(),
            vacant: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.holdings.len()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.blocks.bytes()
            + self.holdings.bytes()
            + self.holders.capacity() * size_of::<Holder>()
            + (self.generations.capacity() + self.vacant.capacity()) * size_of::<u32>()
    }

    pub(super) fn join(&mut self, capacity: u64) -> HolderId {
        let position = self.vacant.pop().unwrap_or(self.holders.len() as u32);
        if let Some(holder) = self.holders.get_mut(position as usize) {
            *holder = Holder::new(capacity);
        } else {
            self.holders.push(Holder::new(capacity));
            self.generations.push(0);
        }
        HolderId { position, generation: self.generations[position as usize] }
    }

    pub(super) fn leave(&mut self, id: HolderId) {
        let Some(position) = self.position(id) else { return };
        self.forget(position);
        self.generations[position] = self.generations[position].wrapping_add(1);
        self.vacant.push(id.position);
    }

    pub(super) fn clear(&mut self, id: HolderId) {
        let Some(position) = self.position(id) else { return };
        self.forget(position);
        self.holders[position].learned = u64::MAX;
    }

    pub(super) fn set_capacity(&mut self, id: HolderId, capacity: u64) {
        let Some(position) = self.position(id) else { return };
        self.holders[position].capacity = capacity;
        self.trim(position);
    }

    pub(super) fn matched(&self, prompt: Prompt<'_>, ids: &[HolderId], matched: &mut [u32]) {
        matched.fill(0);
        let most = u32::try_from(prompt.blocks.len()).unwrap_or(u32::MAX);
        for group in 0..self.holders.len().div_ceil(GROUP) {
            let within = |id: &HolderId| {
                self.position(*id).filter(|position| position / GROUP == group).map(|position| position % GROUP)
            };
            let set = ids.iter().filter_map(within).fold(0, |set, bit| set | 1 << bit);
            // Of many groups few hold any of the prompt.
            if set == 0 || prompt.blocks.first().is_none_or(|&first| self.having(first, group) & set == 0) {
                continue;
            }
            let table = &self.blocks;
            let mut descent = Descent { table, blocks: prompt.blocks, group, first: NONE, depths: [0; GROUP] };
            descent.go(set, (0, most));
            for (id, matched) in ids.iter().zip(&mut *matched) {
                if let Some(bit) = within(id) {
                    *matched = descent.depths[bit];
                }
            }
        }
    }

    /// Adds the holders of the deepest block that any holder has, then of the blocks at three quarters, half and a quarter
    /// of that depth, until `found` has `most`.
    pub(super) fn nearest(
        &self,
        prompt: Prompt<'_>,
        most: usize,
        keep: impl Fn(HolderId) -> bool,
        found: &mut Vec<HolderId>,
    ) {
        let Some(&first) = prompt.blocks.first() else { return };
        // Of many groups few hold any of the prompt: those of the first 128 that do are found once.
        let all = self.holders.len().div_ceil(GROUP);
        let holding = (0..all.min(128)).filter(|&group| self.having(first, group) != 0);
        let holding = holding.fold(0_u128, |set, group| set | 1 << group);
        let groups = || (0..all).filter(move |&group| group >= 128 || holding >> group & 1 == 1);
        let depth = prompt.blocks.partition_point(|&block| groups().any(|group| self.having(block, group) != 0));
        for quarters in (1..=4).rev() {
            let Some(&block) = (depth * quarters / 4).checked_sub(1).and_then(|last| prompt.blocks.get(last)) else {
                return;
            };
            for group in groups() {
                let mut left = self.having(block, group);
                while left != 0 {
                    let position = group * GROUP + left.trailing_zeros() as usize;
                    left &= left - 1;
                    let id = HolderId { position: position as u32, generation: self.generations[position] };
                    if found.len() >= most {
                        return;
                    }
                    if !found.contains(&id) && keep(id) {
                        found.push(id);
                    }
                }
            }
        }
    }

    /// Bits of the holders of a group that hold a block.
    fn having(&self, block: u64, group: usize) -> u64 {
        self.blocks.find(key(block, group)).map_or(0, |at| self.blocks[at])
    }

    pub(super) fn insert(&mut self, id: HolderId, prompt: Prompt<'_>) -> Reuse {
        let mut reuse = Reuse::nothing(id);
        let Some(position) = self.position(id) else { return reuse };
        let holder = &mut self.holders[position];
        holder.uses = holder.uses.wrapping_add(1);
        let used = holder.uses;
        reuse.at = used;
        let fitting = prompt.blocks.len().min(prompt.layout.blocks(holder.limit()));
        let (mut newer, mut new) = (NONE, false);
        for (place, &block) in prompt.blocks[..fitting].iter().enumerate() {
            let at = if let Some(at) = self.holdings.find(key(block, position)) {
                let holding = &mut self.holdings[at];
                if !new {
                    reuse.note(holding.used, holding.confirmed && holding.waiting == 0);
                }
                holding.used = used;
                self.holders[position].touch(&mut self.holdings, at, newer);
                at
            } else {
                new = true;
                let bytes = prompt.layout.bytes(place + 1) - prompt.layout.bytes(place);
                let Some(at) = self.add(position, block, bytes, newer) else { break };
                at
            };
            self.holdings[at].waiting = self.holdings[at].waiting.saturating_add(1);
            newer = at;
            reuse.placed += 1;
        }
        reuse.added = self.holders[position].added;
        reuse
    }

    /// Ends a request's claim on its blocks: they were `computed`, or will not be.
    pub(super) fn settle(&mut self, prompt: Prompt<'_>, reuse: &Reuse, computed: bool) {
        let Some(position) = self.position(reuse.holder) else { return };
        for &block in prompt.blocks.iter().take(reuse.placed as usize) {
            let Some(at) = self.holdings.find(key(block, position)) else { break };
            let (holding, holder) = (&mut self.holdings[at], &self.holders[position]);
            // A block that was evicted and added again by a later request is not this one's.
            if holder.age(holding.made) < holder.age(reuse.at) {
                break;
            }
            holding.waiting = holding.waiting.saturating_sub(1);
            holding.confirmed |= computed;
            if holding.waiting == 0 && !holding.confirmed {
                self.remove(position, at);
            }
        }
        self.shrink();
    }

    pub(super) fn correct(&mut self, prompt: Prompt<'_>, reuse: &Reuse, reported: u32) {
        let Some(position) = self.position(reuse.holder) else { return };
        let reported = reported.min(u32::try_from(prompt.blocks.len()).unwrap_or(u32::MAX));
        let holder = &mut self.holders[position];
        let bytes = |blocks: u32| prompt.layout.bytes(blocks as usize);
        if let Some(used) = reuse.missed(reported) {
            // The blocks used more recently than the missing one exceeded the engine's capacity: all younger blocks
            // now, less the rest of this prompt and blocks added since.
            let rest = bytes(reuse.placed).saturating_sub(bytes(reported));
            let since = holder.added.wrapping_sub(reuse.added);
            let younger = holder.held - holder.bytes_until(&self.holdings, used);
            let distance = younger.saturating_sub(rest).saturating_sub(since);
            // Moves half the way: one report may be wrong (a cleared cache, another salt), several in a row are not.
            let believed = holder.limit().min(holder.held);
            if distance < believed {
                holder.learned = distance.midpoint(believed);
                self.trim(position);
            }
        } else if reuse.surpassed(reported) {
            let more = (bytes(reported) - bytes(reuse.found)) / SURPLUS;
            holder.learned = holder.learned.saturating_add(more);
        }
    }

    fn position(&self, id: HolderId) -> Option<usize> {
        let position = id.position as usize;
        (self.generations.get(position) == Some(&id.generation)).then_some(position)
    }

    /// Adds a block behind `newer`; `None` where only earlier blocks of the same prompt could make room.
    fn add(&mut self, position: usize, block: u64, bytes: u64, newer: u32) -> Option<u32> {
        loop {
            let holder = &self.holders[position];
            if holder.held.saturating_add(bytes) <= holder.limit() {
                break;
            }
            if [NONE, newer].contains(&holder.oldest()) {
                return None;
            }
            self.remove(position, holder.oldest());
        }
        if !self.make_room(newer) {
            return None;
        }
        let group = key(block, position / GROUP);
        let at = self.blocks.find(group).unwrap_or_else(|| self.blocks.insert(group, 0));
        self.blocks[at] |= 1 << (position % GROUP);
        let holding = Holding::new(at, bytes, self.holders[position].uses);
        let at = self.holdings.insert(key(block, position), holding);
        self.holders[position].add(&mut self.holdings, at, newer);
        Some(at)
    }

    /// Frees a slot: grows while the cap allows it, otherwise evicts from the holder with the most blocks, but never
    /// the block `kept`.
    fn make_room(&mut self, kept: u32) -> bool {
        if self.holdings.has_room() {
            return true;
        }
        let growth = Table::<u64>::CHUNK_BYTES + Table::<Holding>::CHUNK_BYTES;
        if self.bytes() + growth <= self.most - self.most / RESERVE {
            // Both tables grow together: every holding may be its block's only one.
            return self.holdings.grow() && self.blocks.grow();
        }
        let Some(position) = (0..self.holders.len()).max_by_key(|&position| self.holders[position].blocks) else {
            return false;
        };
        for _ in 0..BATCH {
            let oldest = self.holders[position].oldest();
            if [NONE, kept].contains(&oldest) {
                break;
            }
            self.remove(position, oldest);
        }
        self.holdings.has_room()
    }

    fn trim(&mut self, position: usize) {
        while self.holders[position].held > self.holders[position].limit() {
            self.remove(position, self.holders[position].oldest());
        }
        self.shrink();
    }

    fn forget(&mut self, position: usize) {
        while self.holders[position].oldest() != NONE {
            self.remove(position, self.holders[position].oldest());
        }
        self.shrink();
    }

    fn remove(&mut self, position: usize, at: u32) {
        let block = self.holdings[at].block;
        self.holders[position].remove(&mut self.holdings, at);
        self.holdings.remove(at);
        self.blocks[block] &= !(1 << (position % GROUP));
        if self.blocks[block] == 0 {
            self.blocks.remove(block);
        }
    }

    fn shrink(&mut self) {
        if self.holdings.len() == 0 {
            self.holdings.shrink();
            self.blocks.shrink();
        }
    }
}

/// Search for the match depth of each holder of a group.
struct Descent<'a> {
    table: &'a Table<u64>,
    blocks: &'a [u64],
    group: usize,
    /// Expected slot of the prompt's first block, if it was added together with the block found last: such blocks lie
    /// in consecutive slots. A guess that may lie outside the table, and wraps.
    first: u32,
    depths: [u32; GROUP],
}

impl Descent<'_> {
    /// Finds the depths of all holders in `set`, each of which has between `least` and `most` blocks. Splits them by
    /// whether they have the block in the middle.
    fn go(&mut self, set: u64, (least, most): (u32, u32)) {
        if set == 0 {
            return;
        }
        if least == most {
            let mut left = set;
            while left != 0 {
                self.depths[left.trailing_zeros() as usize] = least;
                left &= left - 1;
            }
            return;
        }
        let middle = least + (most - least) / 2;
        let key = key(self.blocks[middle as usize], self.group);
        let found = self.table.find_near(key, self.first.wrapping_add(middle));
        self.first = found.map_or(self.first, |at| at.wrapping_sub(middle));
        let having = found.map_or(0, |at| self.table[at]) & set;
        self.go(having, (middle + 1, most));
        self.go(set & !having, (least, middle));
    }
}

/// Combines a block's hash and a number into one key. Hashes are uniform, so only the number needs spreading.
fn key(block: u64, number: usize) -> u64 {
    block ^ (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
