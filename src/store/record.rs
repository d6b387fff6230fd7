//! What is kept, in the terms of whoever keeps it.

use bytes::Bytes;

/// Something to find again after a restart. What is in it is its owner's affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which sort of record it is; keys of different sorts have nothing to do with each other.
    pub kind: u8,
    /// What it is found by. A later record of the same kind and key takes its place.
    pub key: [u8; 32],
    /// Four tags of eight bytes: whose it is, where it came from, whatever its owner deletes records by. See [`Log::remove_scope`](super::Log::remove_scope).
    pub scope: [u8; 32],
    /// When it was made, in milliseconds since 1970.
    pub written: u64,
    /// When it counts no more, in milliseconds since 1970.
    pub expires: u64,
    /// The rest.
    pub payload: Bytes,
}

/// Kind and key.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) kind: u8,
    pub(super) key: [u8; 32],
}

/// Whether a deletion of `pattern` means a record of `scope`: a tag of zeros stands for any.
pub(super) fn covers(pattern: &[u8; 32], scope: &[u8; 32]) -> bool {
    pattern.chunks(8).zip(scope.chunks(8)).all(|(wanted, tag)| wanted == [0; 8] || wanted == tag)
}
