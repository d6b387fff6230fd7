//! How a request ended.

use super::fault::{DEADLINE, INTERNAL, STOPPED};

/// How a request, or one attempt at it, ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A complete answer was handed over.
    Complete,
    /// The client went away before the answer was complete.
    ClientGone,
    /// Its answer was given up for a larger model's (an attempt's outcome, never a request's).
    Escalated,
    /// Another attempt at the same request answered first (an attempt's outcome, never a request's).
    Outrun,
    /// It failed; the value is the [`Fault`](super::Fault)'s kind.
    Failed(&'static str),
}

impl Outcome {
    /// Whether it tells of an engine that failed.
    pub fn blames_engine(self) -> bool {
        matches!(self, Self::Failed(kind) if ![DEADLINE, STOPPED, INTERNAL].contains(&kind))
    }

    /// A word of low cardinality, for metric labels and the journal.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Complete => "ok",
            Self::ClientGone => "client_gone",
            Self::Escalated => "escalated",
            Self::Outrun => "outrun",
            Self::Failed(kind) => kind,
        }
    }
}
