//! Records on disk, so that a cache is warm after a restart: one append-only file that is compacted, and never a wrong record out of it.
//!
//! A file begins with a head (version, secret, random name) and goes on in frames: records, and deletions of a key, a scope or all.
//! Each frame is sealed with BLAKE3 under a key of the file's own, its payload apart, so that a file is read quickly without the payloads.
//!
//! * **Torn.** What is no frame at the end of the file is cut off when it is opened.
//! * **Damaged.** A reader looks for the next whole frame. Frames count the deletions and replacements before them: if one of those was
//!   in the damaged part, all records before it are let go, since any of them may be the one that was taken back. A damaged payload is found when it is read.
//! * **Deleted.** A deletion is written twice, and is on the disk before the writer goes on. The file is then compacted after the deletion of a scope,
//!   so that its bytes leave the disk too.
//! * **Compacted.** What counts is copied into a new file beside the old one, in pieces, while both are told of what comes; then the new one takes
//!   the old one's name in one step. Until then the old one is whole.
//! * **Full.** Records that find the queue full are dropped and counted. Deletions are not: should too many wait, all records are deleted.
//!
//! What can still be lost or come back: records of the last moments when the machine itself goes down; and where the very end
//! of the file is damaged while nobody writes, an older record in place of the one that had replaced it.

mod book;
mod error;
mod folder;
mod frame;
mod fuzz;
mod limits;
mod live;
mod log;
mod queue;
mod record;
mod scan;
#[cfg(test)]
mod tests;
mod writer;

pub use self::{
    error::StoreError,
    fuzz::fuzz_store,
    limits::{Figures, Limits},
    log::{Log, Recovery},
    record::Record,
};
