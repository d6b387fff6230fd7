//! Log lines for operators about breakers that open and close, each at most twice a minute per backend, and about endpoints
//! that backends refuse.

use std::time::Duration;

use http::StatusCode;

use signalbox_fleet::Backend;
use signalbox_types::{Endpoint, Moment};

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

/// Logs that `backend` is left out for an endpoint.
pub(super) fn endpoint_left_out(backend: &Backend, endpoint: Endpoint, status: StatusCode, pause: Duration) {
    let (name, endpoint, again_s) = (backend.name(), endpoint.name(), pause.as_secs());
    tracing::warn!(
        backend = %name, engine = %backend.engine.name, endpoint, status = status.as_u16(), again_s,
        "endpoints: backend '{name}' seems to lack {endpoint}, others are tried first, and it is tried again after {again_s} s at first \
         and 10 s at most; check its 'url', and 'speaks' of its pool"
    );
}

/// Logs that `backend` answered at an endpoint again.
pub(super) fn endpoint_back(backend: &Backend, endpoint: Endpoint) {
    let (name, endpoint) = (backend.name(), endpoint.name());
    tracing::info!(backend = %name, engine = %backend.engine.name, endpoint, "endpoints: backend '{name}' answers at {endpoint} again");
}
