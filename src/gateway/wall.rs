//! Time that other processes understand: what counts on a disk and between machines, where no process's own clock is known.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    millis(since_1970())
}

/// The time since 1970.
pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds since 1970.
pub(super) fn seconds() -> i64 {
    i64::try_from(now() / 1000).unwrap_or(i64::MAX)
}
