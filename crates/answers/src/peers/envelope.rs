//! Authentication of values on a server that others can write to: a keyed hash over the value and the server's key under which it is stored.

use signalbox_cache::Tags;

/// Version of the layout.
const VERSION: u8 = 1;
/// Bytes of the version, the hash, three numbers and the tags.
const HEAD: usize = 1 + 32 + 3 * 8 + 32;

/// A value with the facts that decide on its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope<'a> {
    /// Time of writing, in milliseconds since 1970.
    pub(super) written: u64,
    /// Time of expiry, likewise.
    pub(super) expires: u64,
    /// The newest purge that its writer knew.
    pub(super) after: u64,
    /// Tags that purges match.
    pub(super) tags: Tags,
    pub(super) payload: &'a [u8],
}

/// Seals and opens envelopes with the secret of the group.
pub(super) struct Sealer([u8; 32]);

impl Sealer {
    pub(super) fn new(secret: &str) -> Self {
        Self(blake3::derive_key("signalbox 2026 seal of the shared cache", secret.as_bytes()))
    }

    /// Writes an envelope as bytes that can only be opened under the server's key `key_name`.
    pub(super) fn seal(&self, key_name: &str, envelope: &Envelope<'_>) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[0] = VERSION;
        for (at, number) in [envelope.written, envelope.expires, envelope.after].into_iter().enumerate() {
            bytes[33 + at * 8..41 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[57..HEAD].copy_from_slice(envelope.tags.as_bytes());
        bytes.extend_from_slice(envelope.payload);
        let hash = self.hash(key_name, &bytes[33..]);
        bytes[1..33].copy_from_slice(hash.as_bytes());
        bytes
    }

    /// Opens an envelope that was sealed for `key_name`; `None` for anything else.
    pub(super) fn open<'a>(&self, key_name: &str, bytes: &'a [u8]) -> Option<Envelope<'a>> {
        let (head, payload) = bytes.split_first_chunk::<HEAD>()?;
        let hash: [u8; 32] = head[1..33].try_into().ok()?;
        // `blake3::Hash` compares in constant time.
        if head[0] != VERSION || self.hash(key_name, &bytes[33..]) != blake3::Hash::from_bytes(hash) {
            return None;
        }
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let tags = Tags::from_bytes(head[57..].try_into().ok()?);
        Some(Envelope { written: number(33), expires: number(41), after: number(49), tags, payload })
    }

    fn hash(&self, key_name: &str, bytes: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(key_name.len() as u64).to_le_bytes()).update(key_name.as_bytes()).update(bytes);
        hasher.finalize()
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_envelope_opens_only_unchanged_and_under_its_key(
            payload in prop::collection::vec(any::<u8>(), 0..200),
            numbers in any::<[u64; 3]>(),
            tags in any::<[u8; 32]>(),
            at in any::<prop::sample::Index>(),
            bit in 0_u32..8,
        ) {
            let [written, expires, after] = numbers;
            let envelope = Envelope { written, expires, after, tags: Tags::from_bytes(tags), payload: &payload };
            let sealer = Sealer::new("secret");
            let bytes = sealer.seal("here", &envelope);
            prop_assert_eq!(sealer.open("here", &bytes), Some(envelope));
            prop_assert_eq!(sealer.open("there", &bytes), None);
            prop_assert_eq!(Sealer::new("another").open("here", &bytes), None);
            prop_assert_eq!(sealer.open("here", &bytes[..at.index(bytes.len())]), None);
            let mut flipped = bytes;
            let index = at.index(flipped.len());
            flipped[index] ^= 1_u8 << bit;
            prop_assert_eq!(sealer.open("here", &flipped), None);
        }
    }
}
