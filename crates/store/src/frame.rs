//! Frame format of records and deletions, each sealed with a key of its file.
//!
//! The checksums are keyed BLAKE3. Payloads contain third-party data, and a reader that searches for the next frame
//! after damage may find a complete frame inside a payload: without the key nobody can forge one. Each file has its own
//! key, so that a fragment of an older file that a disk returns is no valid frame either.

use super::record::{Key, Record};

/// Length of a file's head.
pub(super) const HEAD: usize = 72;
/// Length of a frame without its payload.
pub(super) const FRAME: usize = 130;
/// First bytes of a frame.
pub(super) const MARK: [u8; 4] = [0xf5, b'S', b'b', 0xf8];
/// First bytes of a file.
const MAGIC: [u8; 7] = *b"SGNLBXC";
/// Version of the layout.
const VERSION: u8 = 1;
/// Length of a checksum: 128 bits make collisions infeasible.
const CHECK: usize = 16;

/// Head of a file: version, secret, and the random name from which its key is derived.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) secret: [u8; 32],
    pub(super) file: [u8; 16],
}

/// Result of reading a head.
pub(super) enum HeadRead {
    Ours(Head),
    /// Written by another version; the file is left untouched.
    Version(u8),
    /// Not a head, or damaged.
    Damaged,
}

impl Head {
    pub(super) fn write(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8..40].copy_from_slice(&self.secret);
        bytes[40..56].copy_from_slice(&self.file);
        let check = check_of(&blake3::hash(&bytes[..56]));
        bytes[56..].copy_from_slice(&check);
        bytes
    }

    pub(super) fn read(bytes: &[u8; HEAD]) -> HeadRead {
        if bytes[..7] != MAGIC {
            return HeadRead::Damaged;
        }
        // A flipped bit in the version invalidates the checksum; another version may keep its checksum elsewhere.
        let whole = bytes[56..] == check_of(&blake3::hash(&bytes[..56]));
        match (whole, bytes[7]) {
            (true, VERSION) => HeadRead::Ours(Self { secret: array(&bytes[8..40]), file: array(&bytes[40..56]) }),
            (false, VERSION) => HeadRead::Damaged,
            (_, version) => HeadRead::Version(version),
        }
    }

    /// Key of this file's frames.
    pub(super) fn key(&self) -> [u8; 32] {
        blake3::derive_key("signalbox 2026 frames of the cache log", &[&self.secret[..], &self.file[..]].concat())
    }
}

/// Effect of a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Stores a record and replaces an earlier one with its key.
    Put,
    /// Deletes the record of a key.
    Remove,
    /// Deletes all records of a scope.
    RemoveScope,
    /// Deletes all records.
    Clear,
}

/// A frame without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) act: Act,
    /// True if the frame revokes an earlier record, by deletion or replacement.
    pub(super) revokes: bool,
    /// Number of revoking frames up to and including this one. After damage it shows a reader if a revocation was lost.
    pub(super) revocations: u64,
    pub(super) key: Key,
    pub(super) scope: [u8; 32],
    pub(super) written: u64,
    pub(super) expires: u64,
    pub(super) length: u32,
    digest: [u8; CHECK],
}

impl Frame {
    /// Length with its payload.
    pub(super) fn total(&self) -> u64 {
        FRAME as u64 + u64::from(self.length)
    }

    /// Creates the frame of a record.
    pub(super) fn put(record: &Record) -> Self {
        Self {
            act: Act::Put,
            scope: record.scope,
            written: record.written,
            expires: record.expires,
            ..Self::bare(Act::Put, Key { kind: record.kind, key: record.key })
        }
    }

    /// Creates the frame of a deletion.
    pub(super) fn bare(act: Act, key: Key) -> Self {
        Self {
            act,
            revokes: act != Act::Put,
            revocations: 0,
            key,
            scope: [0; 32],
            written: 0,
            expires: 0,
            length: 0,
            digest: [0; CHECK],
        }
    }

    /// Creates the frame of a scope's deletion.
    pub(super) fn scope(scope: [u8; 32]) -> Self {
        Self { scope, ..Self::bare(Act::RemoveScope, Key { kind: 0, key: [0; 32] }) }
    }

    /// Appends the sealed frame with its payload to `out`.
    pub(super) fn write(&mut self, seal: &[u8; 32], payload: &[u8], out: &mut Vec<u8>) {
        self.length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.digest = digest(seal, payload);
        let start = out.len();
        out.extend_from_slice(&MARK);
        out.push(self.act as u8 | u8::from(self.revokes) << 7);
        out.push(self.key.kind);
        out.extend_from_slice(&self.length.to_le_bytes());
        for number in [self.revocations, self.written, self.expires] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.key.key);
        out.extend_from_slice(&self.scope);
        out.extend_from_slice(&self.digest);
        let check = check_of(&blake3::keyed_hash(seal, &out[start..]));
        out.extend_from_slice(&check);
        out.extend_from_slice(payload);
    }

    /// Parses a frame; `None` if its seal is invalid.
    pub(super) fn read(seal: &[u8; 32], bytes: &[u8; FRAME]) -> Option<Self> {
        let (body, check) = bytes.split_last_chunk::<CHECK>()?;
        if body[..4] != MARK || check_of(&blake3::keyed_hash(seal, body)) != *check {
            return None;
        }
        let number = |at: usize| u64::from_le_bytes(array(&body[at..at + 8]));
        Some(Self {
            act: [Act::Put, Act::Remove, Act::RemoveScope, Act::Clear]
                .into_iter()
                .find(|act| *act as u8 == body[4] & 0x7f)?,
            revokes: body[4] >> 7 == 1,
            key: Key { kind: body[5], key: array(&body[34..66]) },
            length: u32::from_le_bytes(array(&body[6..10])),
            revocations: number(10),
            written: number(18),
            expires: number(26),
            scope: array(&body[66..98]),
            digest: array(&body[98..114]),
        })
    }

    /// True if the payload is intact.
    pub(super) fn holds(&self, seal: &[u8; 32], payload: &[u8]) -> bool {
        payload.len() == self.length as usize && digest(seal, payload) == self.digest
    }
}

/// Separates payload digests from frame checksums: the input of a frame's checksum begins with `MARK`, while a payload
/// is hashed twice.
fn digest(seal: &[u8; 32], payload: &[u8]) -> [u8; CHECK] {
    check_of(&blake3::keyed_hash(seal, blake3::keyed_hash(seal, payload).as_bytes()))
}

fn check_of(hash: &blake3::Hash) -> [u8; CHECK] {
    array(&hash.as_bytes()[..CHECK])
}

/// Copies bytes into an array of the same length.
fn array<const LENGTH: usize>(bytes: &[u8]) -> [u8; LENGTH] {
    let mut array = [0; LENGTH];
    array.copy_from_slice(bytes);
    array
}
