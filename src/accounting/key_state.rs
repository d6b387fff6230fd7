//! What of a caller outlives policies.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use crate::{
    quota::{Allowance, Kind},
    schedule::predict::OutputLengths,
};

/// What of a caller outlives policies.
pub(super) struct Known {
    pub(super) allowance: Arc<Allowance>,
    pub(super) revoked: AtomicBool,
    /// How long its answers are: what is expected decides for this caller alone, and so nobody else's answers count.
    pub(super) outputs: OutputLengths,
    /// Requests that were refused, by [`LIMITS`].
    refused: [AtomicU64; 4],
}

/// The limits that a caller may meet, as metrics name them.
const LIMITS: [&str; 4] = ["requests", "tokens", "concurrency", "budget"];

impl Known {
    pub(super) fn new(allowance: Allowance) -> Self {
        Self {
            allowance: Arc::new(allowance),
            revoked: AtomicBool::new(false),
            outputs: OutputLengths::new(),
            refused: Default::default(),
        }
    }

    /// Counts a refusal; `None` stands for the budget of its team.
    pub(super) fn refuse(&self, kind: Option<Kind>) {
        let place = match kind {
            Some(Kind::Requests) => 0,
            Some(Kind::Tokens) => 1,
            Some(Kind::Concurrency) => 2,
            None => 3,
        };
        self.refused[place].fetch_add(1, Relaxed);
    }

    /// Refusals so far, by limit.
    pub(super) fn refused(&self) -> [(&'static str, u64); 4] {
        std::array::from_fn(|place| (LIMITS[place], self.refused[place].load(Relaxed)))
    }
}
