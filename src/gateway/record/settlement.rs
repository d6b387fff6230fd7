//! The accounts of finished requests.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::{
    accounting::Accounting,
    journal::DecisionLog,
    learning::Learning,
    telemetry::Metrics,
    types::{
        Clock, Outcome,
        fault::{INTERNAL, STOPPED},
    },
};

/// Accounts that settle a finished request, and the state that determines its outcome.
pub(in crate::gateway) struct Settlement {
    pub(in crate::gateway) clock: Clock,
    pub(in crate::gateway) metrics: Metrics,
    pub(in crate::gateway) accounting: Arc<Accounting>,
    pub(in crate::gateway) decisions: Arc<DecisionLog>,
    pub(in crate::gateway) learning: Arc<Learning>,
    /// True once the gateway stops the requests still in flight.
    pub(in crate::gateway) stopping: AtomicBool,
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
