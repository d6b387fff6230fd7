//! Endpoints that backends lack for now, as operators see them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use signalbox_fleet::{Backend, LeftOut};
use signalbox_types::{Endpoint, Moment};

/// An endpoint that a backend lacks for now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingEndpoint {
    pub(crate) endpoint: Cow<'static, str>,
    /// Answers that show it, in words.
    pub(crate) answer: String,
    /// True if it was there before.
    pub(crate) was_served: bool,
    /// Time for which it has been missing, and time until it is asked for again.
    pub(crate) for_s: f64,
    pub(crate) again_s: f64,
}

/// Endpoints that probes found missing, and those for which real requests were refused.
pub(super) fn missing(backend: &Backend, now: Moment) -> Vec<MissingEndpoint> {
    let probed = backend.engine.apis.missing(now).into_iter().map(|it| MissingEndpoint {
        endpoint: it.api.name().into(),
        answer: format!("a probe got {}", it.status),
        was_served: it.was_served,
        for_s: it.missing_for.as_secs_f64(),
        again_s: it.again_in.as_secs_f64(),
    });
    let mut all: Vec<_> = probed.collect();
    for LeftOut { endpoint, lasts, again_in } in Endpoint::ALL.into_iter().filter_map(|it| backend.left_out(it, now)) {
        let of = MissingEndpoint {
            endpoint: endpoint.name().into(),
            answer: "requests got 404, 405 or 501".to_owned(),
            was_served: true,
            for_s: lasts.as_secs_f64(),
            again_s: again_in.as_secs_f64(),
        };
        if all.iter().all(|it| it.endpoint != of.endpoint) {
            all.push(of);
        }
    }
    all
}
