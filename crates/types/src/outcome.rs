//! The outcome of a request.

use super::fault::{DEADLINE, INTERNAL, STOPPED};

/// The outcome of a request, or of one attempt at it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A complete answer was delivered.
    Complete,
    /// The client disconnected before the answer was complete.
    ClientGone,
    /// The answer was discarded in favour of a larger model's (an attempt's outcome, never a request's).
    Escalated,
    /// Another attempt at the same request answered first (an attempt's outcome, never a request's).
    Outrun,
    /// It failed; the value is the [`Fault`](super::Fault)'s kind.
    Failed(&'static str),
}

impl Outcome {
    /// True if the outcome counts as a failure of the engine.
    pub fn blames_engine(self) -> bool {
        matches!(self, Self::Failed(kind) if ![DEADLINE, STOPPED, INTERNAL].contains(&kind))
    }

    /// A low-cardinality word for metric labels and the journal.
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
