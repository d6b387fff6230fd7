//! Log lines about breakers, for operators: which backend is avoided and since when, each at most twice a minute.

use crate::{fleet::Backend, types::Moment};

/// Reports that a failure of `kind` opened a breaker of `backend`.
pub(super) fn opened(backend: &Backend, kind: &str, now: Moment) {
    if backend.breaker.reports_opening(now) {
        let (engine, opened) = (&backend.engine.name, backend.breaker.opened() + backend.engine.breaker.opened());
        tracing::warn!(
            backend = %backend.name(),
            engine = %engine,
            failure = kind,
            opened,
            "breaker opened: requests avoid the backend; one at a time tries whether it is back"
        );
    }
}

/// Reports that `backend` answered again.
pub(super) fn closed(backend: &Backend) {
    if backend.breaker.reports_closing() {
        tracing::warn!(backend = %backend.name(), engine = %backend.engine.name, "breaker closed: the backend answers again");
    }
}
