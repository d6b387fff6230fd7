//! Reports the result of an attempt to the backend's circuit breakers.

use super::Meter;
use crate::{
    fleet::Failure,
    gateway::breaker_log,
    types::{
        Blame, Fault,
        fault::{DEADLINE, MISSING},
    },
};

impl Meter {
    /// Counts a fault in the backend's breakers. Called before the permit is released, because the next request for it
    /// checks the breakers.
    pub(super) fn judge(&self, fault: &Fault) {
        if fault.blame == Blame::Upstream {
            self.blame();
        }
        if fault.kind == DEADLINE || fault.kind == MISSING {
            return;
        }
        match Failure::of(fault) {
            None => self.serves(),
            Some(failure) => {
                self.fails(failure, fault.kind);
                if failure == Failure::Unreachable {
                    self.backend.engine.process_ended();
                    self.backend.engine.set_reachable(false);
                }
            }
        }
    }

    /// Counts a success of the backend.
    pub(super) fn serves(&self) {
        if self.backend.succeeded(self.started) {
            breaker_log::closed(&self.backend);
        }
    }

    /// Counts a failure of the backend.
    pub(super) fn fails(&self, failure: Failure, kind: &str) {
        let now = self.clock.now();
        if self.backend.failed(self.started, now, failure) {
            breaker_log::opened(&self.backend, kind, now);
        }
    }
}
