//! What gateways give each other by way of a server that anybody in between could write to: sealed, and bound to its place.

use crate::cache::Tags;

/// The layout that is described here.
const VERSION: u8 = 1;
/// Version, seal, three numbers and the tags.
const HEAD: usize = 1 + 32 + 3 * 8 + 32;

/// What is sealed, and what decides whether it still counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter<'a> {
    /// When it was written, in milliseconds since 1970.
    pub(super) written: u64,
    /// When it counts no more.
    pub(super) expires: u64,
    /// The last purge that its writer knew of.
    pub(super) after: u64,
    /// What it can be forgotten by.
    pub(super) tags: Tags,
    pub(super) payload: &'a [u8],
}

/// Seals letters with what all gateways that share have in common.
pub(super) struct Seal([u8; 32]);

impl Seal {
    pub(super) fn new(secret: &str) -> Self {
        Self(blake3::derive_key("signalbox 2026 seal of the shared cache", secret.as_bytes()))
    }

    /// The letter as bytes that are good for `place` alone.
    pub(super) fn close(&self, place: &str, letter: &Letter<'_>) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[0] = VERSION;
        for (at, number) in [letter.written, letter.expires, letter.after].into_iter().enumerate() {
            bytes[33 + at * 8..41 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[57..HEAD].copy_from_slice(letter.tags.as_bytes());
        bytes.extend_from_slice(letter.payload);
        let seal = self.over(place, &bytes[33..]);
        bytes[1..33].copy_from_slice(seal.as_bytes());
        bytes
    }

    /// The letter that was closed for `place`; `None` for anything else.
    pub(super) fn open<'a>(&self, place: &str, bytes: &'a [u8]) -> Option<Letter<'a>> {
        let (head, payload) = bytes.split_first_chunk::<HEAD>()?;
        let seal: [u8; 32] = head[1..33].try_into().ok()?;
        // The comparison of hashes takes the same time wherever they differ.
        if head[0] != VERSION || self.over(place, &bytes[33..]) != blake3::Hash::from_bytes(seal) {
            return None;
        }
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let tags = Tags::from_bytes(head[57..].try_into().ok()?);
        Some(Letter { written: number(33), expires: number(41), after: number(49), tags, payload })
    }

    fn over(&self, place: &str, bytes: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(place.len() as u64).to_le_bytes()).update(place.as_bytes()).update(bytes);
        hasher.finalize()
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_letter_is_read_where_it_belongs_and_as_it_was_written(
            payload in prop::collection::vec(any::<u8>(), 0..200),
            numbers in any::<[u64; 3]>(),
            tags in any::<[u8; 32]>(),
            at in any::<prop::sample::Index>(),
            bit in 0_u32..8,
        ) {
            let [written, expires, after] = numbers;
            let letter = Letter { written, expires, after, tags: Tags::from_bytes(tags), payload: &payload };
            let seal = Seal::new("secret");
            let bytes = seal.close("here", &letter);
            prop_assert_eq!(seal.open("here", &bytes), Some(letter));
            prop_assert_eq!(seal.open("there", &bytes), None);
            prop_assert_eq!(Seal::new("another").open("here", &bytes), None);
            prop_assert_eq!(seal.open("here", &bytes[..at.index(bytes.len())]), None);
            let mut flipped = bytes;
            let place = at.index(flipped.len());
            flipped[place] ^= 1_u8 << bit;
            prop_assert_eq!(seal.open("here", &flipped), None);
        }
    }
}
