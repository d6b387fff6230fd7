//! Persistent records for a warm cache after a restart: one append-only file with compaction, which never returns a
//! wrong record.
//!
//! A file consists of a head (version, secret, random name) and frames: records, and deletions of a key, a scope or
//! everything. Each frame is sealed with BLAKE3 under a key of its file, separately from its payload, so that a file
//! can be read quickly without the payloads.
//!
//! * **Torn end.** Bytes at the end of the file that are no frame are truncated when it is opened.
//! * **Damage.** The reader searches for the next intact frame. Frames count the earlier deletions and replacements: if
//!   one of those was in the damaged part, all records before it are dropped, since any of them may have been revoked.
//!   A damaged payload is detected when it is read.
//! * **Deletion.** A deletion is written twice and is on disk before the writer continues. After the deletion of a
//!   scope the file is compacted, so that its bytes leave the disk too.
//! * **Compaction.** Live records are copied into a new file in pieces, while new commands go to both files. Then the
//!   new file replaces the old one atomically. Until then the old one is complete.
//! * **Full queue.** Records that find the queue full are dropped and counted. Deletions are not: if too many wait, all
//!   records are deleted.
//!
//! Possible losses: records of the last moments before the machine itself fails; and, if the very end of the file is
//! damaged while nothing is written, a replaced record may return in place of its successor.

#![forbid(unsafe_code)]

mod error;
mod folder;
mod frame;
mod limits;
mod live;
mod log;
mod log_file;
mod queue;
mod record;
mod scan;
#[cfg(test)]
mod tests;
mod writer;

pub use self::folder::private_file;
#[cfg(any(test, feature = "fuzzing"))]
pub use self::scan::fuzz_store;
pub use self::{
    error::StoreError,
    limits::{Figures, Limits},
    log::{Log, Recovery},
    record::Record,
};
