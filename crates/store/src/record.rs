//! Records, in their owner's terms.

use bytes::Bytes;

/// A record that survives restarts. Its content is opaque to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Kind of the record; keys of different kinds are unrelated.
    pub kind: u8,
    /// Key of the record. A later record of the same kind and key replaces it.
    pub key: [u8; 32],
    /// [`Tags`](signalbox_cache::Tags), for deleting it together with others.
    pub scope: [u8; 32],
    /// Creation time, in milliseconds since 1970.
    pub written: u64,
    /// Expiry time, in milliseconds since 1970.
    pub expires: u64,
    /// Content.
    pub payload: Bytes,
}

/// Kind and key.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) kind: u8,
    pub(super) key: [u8; 32],
}
