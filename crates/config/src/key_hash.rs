//! The hash of a caller's key, as written in the file.

use schemars::{Schema, json_schema};

use super::{mistake::Mistake, scalar::Scalar};

/// The hash of a caller's key: BLAKE3, or SHA-256 for keys of a gateway that kept only such hashes. No secret is known
/// that has a given hash by either function, so both are compared with the same 32 bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

impl Scalar for KeyHash {
    fn read(text: &str) -> Result<Self, Mistake> {
        let Some(hex) = text.strip_prefix("blake3:").or_else(|| text.strip_prefix("sha256:")) else {
            return Err(Mistake::new("not a hash: this file holds no plaintext keys").help(
                "`signalbox key new` makes a key and prints the line to put here, `signalbox key hash` that of an existing key; a \
                 key that stood in a file is best replaced",
            ));
        };
        // Both have 32 bytes, and the same form.
        let hash = blake3::Hash::from_hex(hex).map_err(|_| {
            Mistake::new("not the hash of a key")
                .help("write `blake3:` and 64 hex digits, as `signalbox key new` prints them")
        })?;
        Ok(Self(*hash.as_bytes()))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^((blake3|sha256):[0-9a-fA-F]{64}|.*\$\{.*)$" })
    }
}
