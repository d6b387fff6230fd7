//! The live state of one key. It outlives policies.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::RwLock;

use signalbox_quota::{Allowance, Kind};
use signalbox_schedule::predict::OutputLengths;

/// The live state of one key. It outlives policies.
pub(super) struct KeyState {
    pub(super) allowance: Arc<Allowance>,
    /// The hashes of its revoked secrets.
    revoked: RwLock<Vec<[u8; 32]>>,
    /// Lengths of the caller's answers. They decide its reservations, so other callers' answers do not count.
    pub(super) outputs: OutputLengths,
    /// Refused requests, in the order of [`LIMITS`].
    refused: [AtomicU64; 4],
}

/// The limits, as metrics name them.
const LIMITS: [&str; 4] = ["requests", "tokens", "concurrency", "budget"];

impl KeyState {
    pub(super) fn new(allowance: Allowance) -> Self {
        Self {
            allowance: Arc::new(allowance),
            revoked: RwLock::default(),
            outputs: OutputLengths::new(),
            refused: Default::default(),
        }
    }

    /// True if the secret with this hash is revoked.
    pub(super) fn is_revoked(&self, hash: &[u8; 32]) -> bool {
        self.revoked.read().contains(hash)
    }

    /// Sets the revoked ones of the key's secrets.
    pub(super) fn set_revoked(&self, hashes: Vec<[u8; 32]>) {
        *self.revoked.write() = hashes;
    }

    /// Counts a refusal; `None` stands for a budget, of the key or of its team.
    pub(super) fn count_refusal(&self, kind: Option<Kind>) {
        let index = match kind {
            Some(Kind::Requests) => 0,
            Some(Kind::Tokens) => 1,
            Some(Kind::Concurrency) => 2,
            None => 3,
        };
        self.refused[index].fetch_add(1, Relaxed);
    }

    /// Number of refused requests, by limit.
    pub(super) fn refused(&self) -> [(&'static str, u64); 4] {
        std::array::from_fn(|index| (LIMITS[index], self.refused[index].load(Relaxed)))
    }
}
