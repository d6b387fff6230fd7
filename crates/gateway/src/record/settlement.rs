//! The accounts of finished requests.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use signalbox_accounting::Accounting;
use signalbox_journal::DecisionLog;
use signalbox_learning::Learning;
use signalbox_telemetry::Metrics;
use signalbox_types::{
    Clock, Outcome,
    fault::{INTERNAL, STOPPED},
};

/// Accounts that settle a finished request, and the state that determines its outcome.
pub(crate) struct Settlement {
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) accounting: Arc<Accounting>,
    pub(crate) decisions: Arc<DecisionLog>,
    pub(crate) learning: Arc<Learning>,
    /// True once the gateway stops the requests still in flight.
    pub(crate) stopping: AtomicBool,
}

impl Settlement {
    /// Returns the outcome of a request that was dropped before its end.
    pub(super) fn dropped(&self) -> Outcome {
        if std::thread::panicking() {
            Outcome::Failed(INTERNAL)
        } else if self.stopping.load(Relaxed) {
            Outcome::Failed(STOPPED)
        } else {
            Outcome::ClientGone
        }
    }
}
