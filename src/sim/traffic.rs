//! What is asked of simulated engines, and when.

use std::time::Duration;

use super::Job;

/// One request of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// When it comes, from the start.
    pub at: Duration,
    /// What it asks of an engine.
    pub job: Job,
    /// When its client leaves, counted from its arrival; `None` when it stays.
    pub leaves: Option<Duration>,
    /// Whether its answer comes whole: then nothing is seen of it before its end.
    pub whole: bool,
    /// The conversation it is part of, where known.
    pub session: Option<u64>,
}
