//! The judgement on a backend: what the result of an attempt says of it to its breakers.

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
    /// Counts what a fault says of the backend in its breakers. Before the seat is given up, since what gets its place looks at that.
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

    /// Counts a proper answer of the backend.
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
