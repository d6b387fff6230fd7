//! An attempt of a simulated gateway, what it made of a request in the end, and what engines tell it of themselves.

use super::{Gauges, Profile};
use crate::{
    fleet::Ticket,
    types::{EngineKind, EngineSignals, Moment},
};

/// Why a request is refused that no rule takes, or for which no backend is left.
pub const NO_ROUTE: &str = "no_route";
/// See [`NO_ROUTE`].
pub const NO_BACKEND: &str = "no_backend";

/// What the gateway made of a request.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Disposition {
    /// The pool and, in it, the backend that it was sent to last.
    pub sent: Option<(usize, usize)>,
    /// Why it was refused, where it was.
    pub refused: Option<&'static str>,
}

pub(super) struct Attempt {
    pub(super) request: u32,
    pub(super) ticket: Ticket,
    pub(super) engine: usize,
    pub(super) pool: usize,
    pub(super) backend: usize,
    pub(super) first_token: Option<Moment>,
    pub(super) whole: bool,
}

/// What an engine of this profile says of itself.
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
