//! Input of the meter.

use std::sync::Arc;

use crate::record::Record;
use signalbox_fleet::{Backend, PoolLearned};
use signalbox_journal::Predicted;
use signalbox_telemetry::{BackendMetrics, PoolMetrics};
use signalbox_types::{Name, Price};

/// The attempt that a meter measures, and the places that its measurements go to.
pub(crate) struct Gauges {
    pub(crate) record: Arc<Record>,
    /// Index among the attempts at the request.
    pub(crate) number: usize,
    pub(crate) metrics: Arc<BackendMetrics>,
    pub(crate) pool_metrics: Arc<PoolMetrics>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) pool: Arc<PoolLearned>,
    /// The ID of the caller's key, if it has one.
    pub(crate) caller: Option<Name>,
    pub(crate) price: Option<Price>,
    /// The bytes of text that the prompt weighs as much as.
    pub(crate) prompt_weight: u64,
    /// Forecast for the attempt when its backend was chosen.
    pub(crate) predicted: Predicted,
}
