//! Identity of the process in telemetry, and what could not be exported.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// State of the export that outlives a reload of the policy.
#[derive(Debug)]
pub struct ExportState {
    /// Unique id of the process.
    pub(crate) instance: String,
    dropped: [AtomicU64; 3],
}

/// Cause for which spans were dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Too many waited.
    Queue,
    /// The collector rejected them.
    Rejected,
    /// No collector accepted them in time.
    Unreachable,
}

impl ExportState {
    /// Spans that were not exported, by cause: `queue` (too many waited), `rejected` (by the collector) and `unreachable`
    /// (no collector accepted them in time).
    pub fn dropped(&self) -> [(&'static str, u64); 3] {
        let [queue, rejected, unreachable] = self.dropped.each_ref().map(|count| count.load(Relaxed));
        [("queue", queue), ("rejected", rejected), ("unreachable", unreachable)]
    }

    pub(crate) fn drop_spans(&self, cause: Loss, count: u64) {
        self.dropped[cause as usize].fetch_add(count, Relaxed);
    }

    pub(crate) fn all_dropped(&self) -> u64 {
        self.dropped.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// A new process.
impl Default for ExportState {
    fn default() -> Self {
        // A random UUID (version 4).
        let random = (fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62)) | 0x4 << 76 | 0x2 << 62;
        let hex = format!("{random:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Self { instance: parts.join("-"), dropped: Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_own_identity() {
        let [one, other] = [ExportState::default(), ExportState::default()];
        assert_ne!(one.instance, other.instance);
        assert_eq!((one.instance.len(), &one.instance[14..15]), (36, "4"));
        assert!(matches!(&one.instance[19..20], "8" | "9" | "a" | "b"), "{}", one.instance);
    }
}
