//! Results of lookups that found no answer, with the state needed to store the new one.

use super::cache_status::CacheStatus;
use crate::Reply;
use signalbox_answers::{Miss, PendingEntry};
use signalbox_cache::Bypass;
use signalbox_journal::NearAnswer;

/// Reasons why no stored answer was returned.
pub(super) struct Missing {
    /// Reason of the exact lookup.
    pub(super) exact: &'static str,
    /// Result reported to the client.
    pub(super) status: CacheStatus,
    /// The nearest kept answer of the semantic lookup.
    pub(super) near: Option<NearAnswer>,
    /// The semantic lookup, if there was one.
    pub(super) pending: Option<Box<PendingEntry>>,
}

/// Result of a semantic lookup.
pub(super) enum SemanticOutcome {
    Hit(Box<Reply>),
    /// No answer, with the reason and the state needed to store the new one.
    Missed(Miss, Option<Box<PendingEntry>>),
    /// The request is not eligible, with the reason if it was asked for.
    Not(Option<Bypass>),
}
