//! Kept answers on disk: written as they are kept, deleted as they are purged. No request waits for any of it.

mod excluded;
mod persist_log;
mod state;

pub use self::state::{Disk, Loaded};
pub(super) use self::{
    excluded::Excluded,
    persist_log::{MEANING, PersistLog, RECORD},
};
