//! Limits and counters of a log.

use std::time::Duration;

/// Interval at which expired records are dropped.
pub(super) const SWEEP: Duration = Duration::from_mins(1);

/// Limits of a log.
#[derive(Copy, Clone, Debug)]
pub struct Limits {
    /// Bytes of records; the oldest are evicted. The file may be twice as long, and three times during compaction.
    pub bytes: u64,
    /// Greatest age of a record.
    pub age: Duration,
    /// Bytes of records that may wait to be written.
    pub queue: usize,
}

/// Counters of a log.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Live records.
    pub records: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Records dropped because the queue was full, the writer was gone, or they were too large.
    pub dropped: u64,
    /// Bytes that were not frames when the file was opened.
    pub damaged: u64,
    /// Records dropped because a lost frame may have revoked them.
    pub doubtful: u64,
    /// Records evicted for space.
    pub evicted: u64,
    /// Compactions so far.
    pub compactions: u64,
    /// True after a disk failure: nothing is stored any more.
    pub failed: bool,
}
