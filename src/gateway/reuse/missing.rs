//! Results of lookups that found no answer, with the state needed to store the new one.

use super::told::Told;
use crate::{answers::Pending, gateway::Reply};

/// Reasons why no stored answer was returned.
pub(super) struct Missing {
    /// Reason of the exact lookup.
    pub(super) exact: &'static str,
    /// Result reported to the client.
    pub(super) told: Told,
    /// The semantic lookup, if there was one.
    pub(super) pending: Option<Box<Pending>>,
}

/// Result of a semantic lookup.
pub(super) enum Meant {
    Hit(Box<Reply>),
    /// No answer, with the reason and the state needed to store the new one.
    Missed(&'static str, Option<Box<Pending>>),
    /// The request is not eligible.
    Not,
}
