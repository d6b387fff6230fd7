//! Input of the meter.

use std::sync::Arc;

use crate::{
    fleet::{Backend, PoolLearned},
    gateway::{estimator::Estimator, record::Record},
    journal::Predicted,
    telemetry::{BackendMetrics, PoolMetrics},
    types::{Name, Price},
};

/// The attempt that a meter measures, and the places that its measurements go to.
pub(in crate::gateway) struct Gauges {
    pub(in crate::gateway) estimator: Arc<Estimator>,
    pub(in crate::gateway) record: Arc<Record>,
    /// Index among the attempts at the request.
    pub(in crate::gateway) number: usize,
    pub(in crate::gateway) metrics: Arc<BackendMetrics>,
    pub(in crate::gateway) pool_metrics: Arc<PoolMetrics>,
    pub(in crate::gateway) backend: Arc<Backend>,
    pub(in crate::gateway) pool: Arc<PoolLearned>,
    /// The ID of the caller's key, if it has one.
    pub(in crate::gateway) caller: Option<Name>,
    pub(in crate::gateway) price: Option<Price>,
    /// Prompt length in bytes, as hashed.
    pub(in crate::gateway) prompt_bytes: u64,
    /// Forecast for the attempt when its backend was chosen.
    pub(in crate::gateway) predicted: Predicted,
}
