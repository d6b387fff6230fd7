//! What a request found cached where it was sent, kept until its answer tells how much of that was true.

use super::holder::HolderId;

/// Parts of a prompt with different last uses that are told apart. A conversation has two or three: what all share, what
/// its caller shares, its own turns.
const PARTS: usize = 4;

/// Blocks by which a report may fall short of the prediction, or a part of it in so many: it was counted in tokens, in the
/// engine's own blocks.
const SLACK: u32 = 2;
const SLACK_PART: u32 = 8;

/// A dispatch, as the index remembers it: what it believed, and which blocks wait for the answer.
#[derive(Copy, Clone, Debug)]
pub struct Reuse {
    pub(super) holder: HolderId,
    /// The holder's count of uses at the dispatch.
    pub(super) at: u32,
    /// Blocks of the prompt that it held already.
    pub(super) found: u32,
    /// Blocks that it held after the dispatch.
    pub(super) placed: u32,
    /// The holder's count of added bytes then.
    pub(super) added: u64,
    /// The found blocks that an answer had confirmed and no request waited for: up to which block (exclusive), and when they
    /// were used before.
    parts: [(u32, u32); PARTS],
    used: usize,
}

impl Reuse {
    pub(super) fn nothing(holder: HolderId) -> Self {
        Self { holder, at: 0, found: 0, placed: 0, added: 0, parts: [(0, 0); PARTS], used: 0 }
    }

    /// Blocks of the prompt that were believed to be cached.
    pub fn blocks(&self) -> u32 {
        self.found
    }

    /// Notes that the next block was found. What another request may still be computing is not `settled`: that it is missing
    /// proves nothing; what follows it and is settled may.
    pub(super) fn note(&mut self, used: u32, settled: bool) {
        self.found += 1;
        if !settled {
            return;
        }
        match self.used.checked_sub(1).map(|last| &mut self.parts[last]) {
            // Where parts run out, the last one takes in older blocks: it proves less, but nothing wrong.
            Some(last) if last.1 == used || self.used == PARTS => *last = (self.found, used),
            _ => {
                self.parts[self.used] = (self.found, used);
                self.used += 1;
            }
        }
    }

    /// The holder's count of uses when the first block that was missing had been used, where a report of `blocks` falls short.
    pub(super) fn missed(&self, blocks: u32) -> Option<u32> {
        if blocks + self.slack() >= self.settled() {
            return None;
        }
        self.parts[..self.used].iter().find(|part| blocks < part.0).map(|part| part.1)
    }

    /// Whether a report of `blocks` tells of more than was believed.
    pub(super) fn surpassed(&self, blocks: u32) -> bool {
        blocks > self.found + self.slack()
    }

    fn settled(&self) -> u32 {
        self.used.checked_sub(1).map_or(0, |last| self.parts[last].0)
    }

    fn slack(&self) -> u32 {
        SLACK.max(self.found / SLACK_PART)
    }
}
