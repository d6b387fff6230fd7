//! What is kept, in the terms of whoever keeps it.

use bytes::Bytes;

/// Something to find again after a restart. What is in it is its owner's affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which sort of record it is; keys of different sorts have nothing to do with each other.
    pub kind: u8,
    /// What it is found by. A later record of the same kind and key takes its place.
    pub key: [u8; 32],
    /// [`Tags`](crate::cache::Tags), by which it can be deleted together with others.
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
