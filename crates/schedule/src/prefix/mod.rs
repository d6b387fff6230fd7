//! Prefix index: which backends have which prompt prefixes in their KV cache, from dispatched requests and corrected by
//! usage reports.
//!
//! A holder is a model (and adapter) on an engine. For each, the index models an LRU cache of prompt blocks as large as
//! the engine's. A dispatch adds the request's blocks, tentatively until the first token proves that they were
//! computed. Blocks are identified by chained hashes, so that a holder of a block holds all blocks before it, and the
//! depth of a match is found by bisection. All of it is a hint: an error costs time, never an answer.
//!
//! **Self-correction.** The engine may hold less than its stated size (output tokens and other traffic take their
//! share, or nothing is cached at all). When an answer reports fewer cached tokens than predicted, the first missing
//! block had been evicted, so the bytes used more recently than it exceed the cache. The assumed capacity moves halfway
//! to that bound. An answer that reports more than predicted raises it, by an eighth of the difference.
//!
//! **Memory.** One cap over all holders. A held block takes 64 bytes and two buckets of 4. At the cap, the holder with
//! the most blocks loses its oldest.

mod holder;
mod ledger;
mod reuse;
mod table;

use parking_lot::Mutex;

use ledger::Ledger;

pub use self::{holder::HolderId, reuse::Reuse};
use signalbox_types::Prompt;

/// The index. Shared by reference between threads. Its lock is held for microseconds, except by `leave`, `clear` and
/// shrinking capacities, which take microseconds per thousand blocks.
pub struct PrefixIndex {
    ledger: Mutex<Ledger>,
}

impl PrefixIndex {
    /// Creates an empty index that uses at most `max_bytes` of memory. At most a ninth of it is allocated at once. A
    /// cap too low for that and for the holders' own records (about 100 bytes each) holds nothing.
    pub fn new(max_bytes: usize) -> Self {
        Self { ledger: Mutex::new(Ledger::new(max_bytes)) }
    }

    /// Adds a holder whose KV cache has room for `capacity` bytes of prompt.
    pub fn join(&self, capacity: u64) -> HolderId {
        self.ledger.lock().join(capacity)
    }

    /// Removes a holder and its blocks. Its id becomes invalid.
    pub fn leave(&self, holder: HolderId) {
        self.ledger.lock().leave(holder);
    }

    /// Empties a holder whose engine restarted, and forgets its learned capacity.
    pub fn clear(&self, holder: HolderId) {
        self.ledger.lock().clear(holder);
    }

    /// Sets a holder's capacity in bytes of prompt. Blocks beyond it are evicted at once.
    pub fn set_capacity(&self, holder: HolderId, capacity: u64) {
        self.ledger.lock().set_capacity(holder, capacity);
    }

    /// Writes the number of prefix blocks that each of `holders` is assumed to have cached into `matched`, which has
    /// the same length. A removed holder has none. Allocates nothing.
    pub fn matched(&self, prompt: Prompt<'_>, holders: &[HolderId], matched: &mut [u32]) {
        self.ledger.lock().matched(prompt, holders, matched);
    }

    /// Writes the holders of the longest beginnings of `prompt` among those that `keep` accepts into `holders`, at most
    /// `most`. Takes time in proportion to the number of holders divided by 64.
    pub fn nearest(
        &self,
        prompt: Prompt<'_>,
        most: usize,
        keep: impl Fn(HolderId) -> bool,
        holders: &mut Vec<HolderId>,
    ) {
        self.ledger.lock().nearest(prompt, most, keep, holders);
    }

    /// Records a dispatched request: its blocks are used there, new ones tentatively. Pass the result to one `confirm`
    /// or `withdraw`, and after a `confirm` to `correct`, each time with the same prompt.
    pub fn insert(&self, holder: HolderId, prompt: Prompt<'_>) -> Reuse {
        self.ledger.lock().insert(holder, prompt)
    }

    /// Records a first token: the prompt's blocks have been computed.
    pub fn confirm(&self, prompt: Prompt<'_>, reuse: &Reuse) {
        self.ledger.lock().settle(prompt, reuse, true);
    }

    /// Records a request that failed or was cancelled before its first token. Its blocks are removed, except those that
    /// were confirmed or that another request waits for.
    pub fn withdraw(&self, prompt: Prompt<'_>, reuse: &Reuse) {
        self.ledger.lock().settle(prompt, reuse, false);
    }

    /// Learns from an answer that reported `reported` cached blocks of the prompt on arrival. The blocks themselves are
    /// cached now either way; the holder's capacity is learned.
    pub fn correct(&self, prompt: Prompt<'_>, reuse: &Reuse, reported: u32) {
        self.ledger.lock().correct(prompt, reuse, reported);
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.ledger.lock().bytes()
    }

    /// Blocks held, counted once per holder.
    pub fn len(&self) -> usize {
        self.ledger.lock().len()
    }

    /// True if no blocks are held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for PrefixIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrefixIndex").field("blocks", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests;
