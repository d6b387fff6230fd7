//! How much is kept, for how long, and what has become of it.

use std::time::Duration;

/// How often records that are out of date are let go.
pub(super) const SWEEP: Duration = Duration::from_mins(1);

/// How much a log may keep.
#[derive(Copy, Clone, Debug)]
pub struct Limits {
    /// Bytes of records; the oldest go first. The file may be twice as long, and three times while it is compacted.
    pub bytes: u64,
    /// Oldest record that is kept.
    pub age: Duration,
    /// Bytes of records that may wait to be written.
    pub queue: usize,
}

/// What a log holds and what has happened to it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records that count.
    pub records: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Records that found the queue full or no writer, or were too large.
    pub dropped: u64,
    /// Bytes that were no frames when the file was opened.
    pub damaged: u64,
    /// Records that were let go since a lost frame may have taken them back.
    pub doubtful: u64,
    /// Records that were let go since there were too many.
    pub evicted: u64,
    /// How often the file was compacted.
    pub compactions: u64,
    /// Whether the disk failed, so that nothing is kept any more.
    pub failed: bool,
}
