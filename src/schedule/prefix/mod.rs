//! Which backends hold which prompt prefixes in their KV cache: an index of what was sent where, corrected by what engines
//! report.
//!
//! A holder is a model (and adapter) on an engine. For each, the index follows an LRU cache of prompt blocks as large as the
//! engine's: a dispatch puts the request's blocks there, tentative until the first token proves that they were computed. Blocks
//! are known by their chained hashes, so that whoever holds a block holds all before it, and the depth of a match is found
//! by bisection. All of it is a hint: an error costs time, never an answer.
//!
//! **Self-correction.** The engine may hold less than it was said to (output tokens and other traffic take their share, or nothing is
//! cached at all). When an answer reports fewer cached tokens than were predicted, the first missing block had been
//! evicted, so the bytes used more recently than it are more than the cache holds. The believed capacity moves halfway to that
//! bound. An answer that reports more than was predicted raises it, by an eighth of the difference.
//!
//! **Memory.** One cap over all holders. A held block takes 64 bytes and two buckets of 4. Where the cap is reached, the holder with the most
//! blocks loses its oldest.

mod holder;
mod ledger;
mod reuse;
mod table;

use std::sync::{Mutex, MutexGuard, PoisonError};

use ledger::Ledger;

pub use self::{holder::HolderId, reuse::Reuse};
use crate::types::Prompt;

/// The index. Shared by reference between threads; its lock is held for microseconds, except by `leave`, `clear` and shrinking
/// capacities, which take them for each thousand blocks.
pub struct PrefixIndex {
    ledger: Mutex<Ledger>,
}

impl PrefixIndex {
    /// An empty index that takes at most `max_bytes` of memory. A ninth of it or less is taken at once; a cap too low for
    /// that and for the holders' own records (about 100 bytes each) holds nothing.
    pub fn new(max_bytes: usize) -> Self {
        Self { ledger: Mutex::new(Ledger::new(max_bytes)) }
    }

    /// A new holder whose KV cache has room for `capacity` bytes of prompt.
    pub fn join(&self, capacity: u64) -> HolderId {
        self.lock().join(capacity)
    }

    /// Removes a holder and all that it held. Its id means nothing from now on.
    pub fn leave(&self, holder: HolderId) {
        self.lock().leave(holder);
    }

    /// Empties a holder whose engine restarted. What was learned of its capacity goes too.
    pub fn clear(&self, holder: HolderId) {
        self.lock().clear(holder);
    }

    /// Sets the bytes of prompt that a holder's KV cache has room for; what no longer fits is forgotten at once.
    pub fn set_capacity(&self, holder: HolderId, capacity: u64) {
        self.lock().set_capacity(holder, capacity);
    }

    /// For each of `holders`, the number of blocks of the prompt's prefix that it is believed to have cached, into `matched`, which
    /// is as long. A holder that left has none. Allocates nothing.
    pub fn matched(&self, prompt: Prompt<'_>, holders: &[HolderId], matched: &mut [u32]) {
        self.lock().matched(prompt, holders, matched);
    }

    /// A request was dispatched: its blocks are in use there, new ones tentatively. What it returns goes to one `confirm` or
    /// `withdraw`, and after a `confirm` to `correct`, each time with the same prompt.
    pub fn insert(&self, holder: HolderId, prompt: Prompt<'_>) -> Reuse {
        self.lock().insert(holder, prompt)
    }

    /// The first token came: the prompt's blocks have been computed.
    pub fn confirm(&self, prompt: Prompt<'_>, reuse: &Reuse) {
        self.lock().settle(prompt, reuse, true);
    }

    /// The request failed or was cancelled before its first token: its blocks go, but for those that were confirmed or that
    /// another request waits for.
    pub fn withdraw(&self, prompt: Prompt<'_>, reuse: &Reuse) {
        self.lock().settle(prompt, reuse, false);
    }

    /// The answer reported that `reported` blocks of the prompt had been cached when the request came. The blocks themselves are cached now either way: what is learned is how much the holder can hold.
    pub fn correct(&self, prompt: Prompt<'_>, reuse: &Reuse, reported: u32) {
        self.lock().correct(prompt, reuse, reported);
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// Blocks held, each counted once for each holder.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PrefixIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrefixIndex").field("blocks", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests;
