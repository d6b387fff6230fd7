//! Reports the result of an attempt to the backend's circuit breakers.

use super::Meter;
use crate::{breaker_log, record::Verdict};
use signalbox_fleet::{Backend, Failure};
use signalbox_types::{
    Blame, Clock, Fault, Moment, Outcome,
    fault::{DEADLINE, MISSING, UNSUPPORTED},
};

impl Meter {
    /// Counts a fault in the backend's breakers. Called before the permit is released, because the next request for it
    /// checks the breakers.
    pub(super) fn judge(&self, fault: &Fault) {
        if fault.blame == Blame::Upstream {
            self.blame();
        }
        if matches!(fault.kind, DEADLINE | MISSING | UNSUPPORTED) {
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
        serves(&self.backend, self.started);
    }

    /// Counts a failure of the backend.
    pub(super) fn fails(&self, failure: Failure, kind: &str) {
        fails(&self.backend, (self.clock, self.started), failure, kind);
    }

    /// Counts the outcome and settles the request: at once, or when the answer is translated.
    pub(super) fn settle(&self, outcome: Outcome, translates: bool) {
        if translates {
            return self.record.complete_when_translated(self.verdict());
        }
        if outcome == Outcome::Complete {
            self.metrics.attempt(outcome);
        }
        self.metrics.request(outcome);
        self.record.settle(outcome);
    }

    /// The verdict on a complete attempt whose answer is still to be translated: one that is no answer of its API shows
    /// only then, and counts as a failure.
    fn verdict(&self) -> Verdict {
        let (backend, metrics) = (self.backend.clone(), self.metrics.clone());
        let (clock, started, number) = (self.clock, self.started, self.number);
        Box::new(move |progress, spoilt| {
            let outcome = spoilt.map_or(Outcome::Complete, |fault| Outcome::Failed(fault.kind));
            match spoilt {
                None => serves(&backend, started),
                Some(fault) => {
                    progress.attempt_spoilt(number, fault.kind);
                    fails(&backend, (clock, started), Failure::Error, fault.kind);
                }
            }
            metrics.attempt(outcome);
            metrics.request(outcome);
        })
    }
}

fn serves(backend: &Backend, started: Moment) {
    if backend.succeeded(started) {
        breaker_log::closed(backend);
    }
}

fn fails(backend: &Backend, (clock, started): (Clock, Moment), failure: Failure, kind: &str) {
    let now = clock.now();
    if backend.failed(started, now, failure) {
        breaker_log::opened(backend, kind, now);
    }
}
