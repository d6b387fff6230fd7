//! Sources of backends and backends that leave, in `/admin/state`.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::discovery::{Discovery, Leaving, SourceStanding};
use signalbox_fleet::Snapshot;
use signalbox_types::Name;

/// A source of backends: a DNS name or a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceState {
    /// `dns NAME` or `file PATH`.
    pub source: String,
    /// Addresses in force.
    pub endpoints: usize,
    /// Seconds since the last answer; `None` before the first.
    pub answered_s: Option<f64>,
    /// Error of the source's last lookup, if it failed.
    pub error: Option<String>,
    /// Failed attempts since the start.
    pub errors: u64,
    /// Seconds for which answers have been empty while the last addresses stay in force.
    pub empty_s: Option<f64>,
}

/// A backend that gets no new requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LeavingState {
    pub name: Name,
    pub engine: Name,
    pub model: Option<Name>,
    /// Its origin, as of a backend.
    pub origin: String,
    /// `draining`, `drained` or `removed`.
    pub state: String,
    pub in_flight: u32,
    /// Seconds since it left; `None` if that was before the start.
    pub for_s: Option<f64>,
}

/// Sources in the order of the policy.
pub(super) fn sources(discovery: &Discovery) -> Vec<SourceState> {
    let since = |moment: Instant| moment.elapsed().as_secs_f64();
    let sources = discovery.standings().into_iter().map(|(from, standing)| {
        let SourceStanding { addresses, answered, error, errors, empty_since, .. } = standing;
        SourceState {
            source: from.label(),
            endpoints: addresses.len(),
            answered_s: answered.map(since),
            error,
            errors,
            empty_s: empty_since.map(since),
        }
    });
    sources.collect()
}

/// Backends that leave, with the names of their pools.
pub(super) fn leaving(discovery: &Discovery, serving: &Snapshot) -> Vec<(Name, LeavingState)> {
    let state = |Leaving { pool, name, engine, url: _, model, origin, state, in_flight, since }| {
        let for_s = since.as_ref().map(Duration::as_secs_f64);
        (pool, LeavingState { name, engine, model, origin, state: String::from(state), in_flight, for_s })
    };
    discovery.leaving(serving).into_iter().map(state).collect()
}
