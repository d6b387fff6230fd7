//! Requests of a simulated workload.

use std::time::Duration;

use super::Job;

/// One request of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Arrival time from the start.
    pub at: Duration,
    /// Work for an engine.
    pub job: Job,
    /// Time after its arrival at which the client disconnects; `None` if it stays.
    pub leaves: Option<Duration>,
    /// True if the answer is not streamed: the client sees nothing before its end.
    pub whole: bool,
    /// Conversation that it belongs to, if known.
    pub session: Option<u64>,
}
