//! Kept answers on disk: written when they are kept, deleted when they are purged. No request waits for the disk.

mod persist_log;
mod state;

pub(super) use self::persist_log::{Excluded, PersistLog, RECORD, SEMANTIC};
pub use self::state::{DiskAnswers, WarmStartCounts};
