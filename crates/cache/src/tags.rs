//! Tags for deleting stored answers that are not inspected one by one: on disk, and in other gateways.

use super::{
    exact::Purge,
    key::{ExactKey, Keys},
    record::Record,
};

/// Four tags of eight bytes: an answer's caller, its route and, in two of them, its key.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tags([u8; 32]);

impl Tags {
    /// Tags of the answer to requests with `key`.
    pub fn of(keys: &Keys, key: &ExactKey, record: &Record) -> Self {
        let caller = keys.tag("caller", record.caller.as_deref());
        Self::new(caller, keys.tag("route", Some(&record.route)), Some(key))
    }

    /// Pattern for a purge. Parts that `purge` leaves open are zero and match anything.
    pub fn meant(keys: &Keys, purge: &Purge) -> Self {
        let tag = |kind, name: Option<&str>| name.map_or([0; 8], |name| keys.tag(kind, Some(name)));
        let (caller, route) = (tag("caller", purge.caller.as_deref()), tag("route", purge.route.as_deref()));
        Self::new(caller, route, purge.entry.as_ref())
    }

    fn new(caller: [u8; 8], route: [u8; 8], key: Option<&ExactKey>) -> Self {
        let mut tags = [0; 32];
        tags[..8].copy_from_slice(&caller);
        tags[8..16].copy_from_slice(&route);
        if let Some(key) = key {
            tags[16..].copy_from_slice(&key.as_bytes()[..16]);
        }
        Self(tags)
    }

    /// Restores tags from their bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Their bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// True if this pattern matches an answer with `tags`.
    pub fn cover(&self, tags: &Self) -> bool {
        self.0.chunks(8).zip(tags.0.chunks(8)).all(|(wanted, tag)| wanted == [0; 8] || wanted == tag)
    }
}
