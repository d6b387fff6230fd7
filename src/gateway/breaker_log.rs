//! Log lines for operators about breakers that open and close, each at most twice a minute per backend.

use crate::{fleet::Backend, types::Moment};

/// Logs that a failure of `kind` opened a breaker of `backend`.
pub(super) fn opened(backend: &Backend, kind: &str, now: Moment) {
    if backend.breaker.reports_opening(now) {
        let (engine, opened) = (&backend.engine.name, backend.breaker.opened() + backend.engine.breaker.opened());
        tracing::warn!(
            backend = %backend.name(),
            engine = %engine,
            failure = kind,
            opened,
            "breaker: opened, requests avoid the backend, except one probe at a time"
        );
    }
}

/// Logs that `backend` answered again, if the opening was logged.
pub(super) fn closed(backend: &Backend) {
    if backend.breaker.reports_closing() {
        tracing::info!(backend = %backend.name(), engine = %backend.engine.name, "breaker: closed, the backend answers again");
    }
}
