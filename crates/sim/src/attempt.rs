//! Attempts of a simulated gateway, the disposition of its requests, and engine signals from simulated gauges.

use super::{Gauges, Profile};
use signalbox_fleet::Ticket;
use signalbox_types::{EngineKind, EngineSignals, Moment};

/// Reason of a refusal: no rule matched. [`NO_BACKEND`]: every backend was tried.
pub(super) const NO_ROUTE: &str = "no_route";
/// See [`NO_ROUTE`].
pub(super) const NO_BACKEND: &str = "no_backend";

/// Disposition of a request.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Disposition {
    /// Pool and backend of the last attempt.
    pub sent: Option<(usize, usize)>,
    /// Reason of the refusal, if it was refused.
    pub refused: Option<&'static str>,
}

pub(super) struct Attempt {
    pub(super) request: u32,
    pub(super) ticket: Ticket,
    pub(super) sent: Moment,
    pub(super) engine: usize,
    pub pool: usize,
    pub backend: usize,
    pub(super) first_token: Option<Moment>,
    pub(super) whole: bool,
}

/// Signals as the `/metrics` of an engine with this profile reports them.
pub(super) fn signals(gauges: &Gauges, profile: Option<&Profile>) -> EngineSignals {
    EngineSignals {
        running: Some(f64::from(gauges.running)),
        waiting: Some(f64::from(gauges.waiting)),
        kv_usage: Some(gauges.kv_usage),
        kv_capacity_tokens: profile.map(|profile| u64::from(profile.kv_tokens)),
        prefix_queries: Some(gauges.prefix_queries as f64),
        prefix_hits: Some(gauges.prefix_hits as f64),
        preemptions: Some(f64::from(gauges.preemptions as u32)),
        ..EngineSignals::unknown(EngineKind::Vllm)
    }
}
