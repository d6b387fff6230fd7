//! The wall clock: Unix time, for files, other machines and people. The gateway's own clock ([`Clock`](super::Clock)) counts from its start.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now() -> u64 {
    millis(since_1970())
}

/// The time since 1970.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A duration in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds since 1970.
pub fn seconds() -> i64 {
    i64::try_from(now() / 1000).unwrap_or(i64::MAX)
}
