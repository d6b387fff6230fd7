//! The storage of responses and conversations for callers of the Responses API.

use std::time::Duration;

/// The storage of responses and conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponses {
    /// The most memory for them, in bytes; zero to store nothing.
    pub memory: usize,
    /// The time for which they are stored after their last use.
    pub ttl: Duration,
}

impl Default for StoredResponses {
    fn default() -> Self {
        Self { memory: 64 << 20, ttl: Duration::from_hours(1) }
    }
}
