//! Limits of the gateway itself as written in the file.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    keys::SharedLimits,
    scalar::{Field, Pause},
};

/// Limits of the gateway itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The largest request body, in bytes, such as `32Mi` (the default).
    pub body: Option<Field<u64>>,
    /// The most memory for all request bodies together, in bytes, such as `1Gi` (the default).
    pub bodies: Option<Field<u64>>,
    /// The most concurrent requests, such as `10k` (the default). Fewer where the limit on open descriptors (`ulimit -n`)
    /// does not suffice for their connections.
    pub in_flight: Option<Field<u64>>,
    /// The longest that a client may take to send its headers. Default: `10s`.
    pub header: Option<Field<Duration>>,
    /// The time that streams may continue after SIGTERM. Default: `30s`.
    pub drain: Option<Field<Pause>>,
    /// The time that new connections are accepted after SIGTERM while the gateway reports that it is not ready. Default:
    /// `0s`.
    pub lame_duck: Option<Field<Pause>>,
    /// The queue of requests that wait for capacity in a pool.
    pub queue: Option<Queue>,
    /// Counts limits of keys and budgets of teams across several gateways, through Redis or Valkey. Default: each
    /// gateway counts its own.
    pub shared: Option<SharedLimits>,
}

/// The queue of requests that wait for capacity in a pool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The most requests that wait for one pool, such as `1k` (the default).
    pub length: Option<Field<u64>>,
    /// The longest that a request waits. Default: `30s`; `0s` disables waiting.
    pub wait: Option<Field<Pause>>,
}
