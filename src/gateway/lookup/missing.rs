//! What lookups came to that found no answer, and what is needed to keep the one that comes.

use super::cache_status::CacheStatus;
use crate::{answers::PendingEntry, gateway::Reply};

/// Why no kept answer was given.
pub(super) struct Missing {
    /// By an equal request.
    pub(super) exact: &'static str,
    /// What is told of it.
    pub(super) told: CacheStatus,
    /// The lookup by meaning, where there was one.
    pub(super) pending: Option<Box<PendingEntry>>,
}

/// What came of a lookup by meaning.
pub(super) enum SemanticOutcome {
    Hit(Box<Reply>),
    /// None, for this reason; and what is needed to keep the answer that comes.
    Missed(&'static str, Option<Box<PendingEntry>>),
    /// It may not be looked up.
    Not,
}
