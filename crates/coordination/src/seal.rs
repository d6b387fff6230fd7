//! Encryption and authentication of messages on a server that others can read and write: ChaCha20-Poly1305 (RFC 8439),
//! with a key of its own for each message, so that no number of messages makes a nonce repeat under a key.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// Version of the format.
const VERSION: u8 = 1;
/// Random bytes from which the key of a message is derived.
const SALT: usize = 32;

/// Seals and opens messages with the secret of the group.
pub(super) struct Sealer([u8; 32]);

impl Sealer {
    pub(super) fn new(secret: &str) -> Self {
        Self(blake3::derive_key("signalbox 2026 seal of shared placement", secret.as_bytes()))
    }

    /// The salt of the group's prompt hashes.
    pub(super) fn salt(secret: &str) -> u64 {
        number(blake3::derive_key("signalbox 2026 salt of shared placement", secret.as_bytes()))
    }

    /// A number that names the group and tells nothing of its secret.
    pub(super) fn group(&self) -> u64 {
        number(blake3::derive_key("signalbox 2026 name of shared placement", &self.0))
    }

    /// Seals a message, or returns `None` where the system has no random numbers.
    pub(super) fn seal(&self, mut message: Vec<u8>) -> Option<Vec<u8>> {
        let mut salt = [0; SALT];
        getrandom::fill(&mut salt).ok()?;
        let tag = self.key(&salt)?.seal_in_place_separate_tag(nonce(), Aad::from([VERSION]), &mut message).ok()?;
        let mut sealed = Vec::with_capacity(1 + SALT + message.len() + tag.as_ref().len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&salt);
        sealed.append(&mut message);
        sealed.extend_from_slice(tag.as_ref());
        Some(sealed)
    }

    /// Opens a message that a member of the group has sealed; `None` for anything else.
    pub(super) fn open(&self, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let (head, rest) = sealed.split_at_mut_checked(1 + SALT)?;
        let salt = head[1..].try_into().ok()?;
        if head[0] != VERSION {
            return None;
        }
        let length = self.key(&salt)?.open_in_place(nonce(), Aad::from([VERSION]), rest).ok()?.len();
        sealed.drain(..=SALT);
        sealed.truncate(length);
        Some(sealed)
    }

    fn key(&self, salt: &[u8; SALT]) -> Option<LessSafeKey> {
        let key = blake3::keyed_hash(&self.0, salt);
        UnboundKey::new(&CHACHA20_POLY1305, key.as_bytes()).ok().map(LessSafeKey::new)
    }
}

/// Each key seals one message.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn number(hash: [u8; 32]) -> u64 {
    hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
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
        fn a_message_opens_only_unchanged_and_with_its_secret(
            message in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            bit in 0_u32..8,
        ) {
            let sealer = Sealer::new("secret");
            let sealed = sealer.seal(message.clone()).unwrap();
            prop_assert_eq!(sealer.open(sealed.clone()), Some(message.clone()));
            prop_assert_ne!(sealer.seal(message), Some(sealed.clone()), "every message has a key of its own");
            prop_assert_eq!(Sealer::new("another").open(sealed.clone()), None);
            prop_assert_eq!(sealer.open(sealed[..at.index(sealed.len())].to_vec()), None);
            let mut flipped = sealed;
            let index = at.index(flipped.len());
            flipped[index] ^= 1_u8 << bit;
            prop_assert_eq!(sealer.open(flipped), None);
        }
    }

    #[test]
    fn name_and_salt_follow_from_the_secret() {
        let (one, other) = (Sealer::new("one"), Sealer::new("other"));
        assert_eq!((one.group(), Sealer::salt("one")), (Sealer::new("one").group(), Sealer::salt("one")));
        assert_ne!((one.group(), Sealer::salt("one")), (other.group(), Sealer::salt("other")));
        assert_ne!(one.group(), Sealer::salt("one"));
    }
}
