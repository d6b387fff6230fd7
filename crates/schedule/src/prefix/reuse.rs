//! Cache state that a request found at its dispatch, kept until its answer reports the cached tokens.

use super::holder::HolderId;

/// Parts of a prompt with different last uses that are distinguished. A session has two or three: common to all, common
/// to its caller, its own turns.
const PARTS: usize = 4;

/// Tolerated shortfall of a report against the prediction, in blocks or as one part in this many: reports are in
/// tokens, rounded to the engine's own blocks.
const SLACK: u32 = 2;
const SLACK_PART: u32 = 8;

/// A dispatch as the index remembers it: its prediction, and the blocks that wait for the answer.
#[derive(Copy, Clone, Debug)]
pub struct Reuse {
    pub(super) holder: HolderId,
    /// The holder's use counter at the dispatch.
    pub(super) at: u32,
    /// Blocks of the prompt that the holder had before the dispatch.
    pub(super) found: u32,
    /// Blocks of the prompt that the holder had after the dispatch.
    pub(super) placed: u32,
    /// The holder's counter of added bytes at the dispatch.
    pub(super) added: u64,
    /// Found blocks that were confirmed and that no request waited for: end of each part (exclusive) and the use
    /// counter at its previous use.
    parts: [(u32, u32); PARTS],
    used: usize,
}

impl Reuse {
    pub(super) fn nothing(holder: HolderId) -> Self {
        Self { holder, at: 0, found: 0, placed: 0, added: 0, parts: [(0, 0); PARTS], used: 0 }
    }

    /// Blocks of the prompt that were assumed to be cached.
    pub fn blocks(&self) -> u32 {
        self.found
    }

    /// Records that the next block was found. A block that another request may still be computing is not `settled`: its
    /// absence proves nothing, but a later settled block's may.
    pub(super) fn note(&mut self, used: u32, settled: bool) {
        self.found += 1;
        if !settled {
            return;
        }
        match self.used.checked_sub(1).map(|last| &mut self.parts[last]) {
            // Beyond the limit the last part absorbs older blocks: it proves less, but nothing wrong.
            Some(last) if last.1 == used || self.used == PARTS => *last = (self.found, used),
            _ => {
                self.parts[self.used] = (self.found, used);
                self.used += 1;
            }
        }
    }

    /// The holder's use counter at the last use of the first missing block, if a report of `blocks` falls short.
    pub(super) fn missed(&self, blocks: u32) -> Option<u32> {
        if blocks + self.slack() >= self.settled() {
            return None;
        }
        self.parts[..self.used].iter().find(|part| blocks < part.0).map(|part| part.1)
    }

    /// True if a report of `blocks` exceeds the prediction.
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
