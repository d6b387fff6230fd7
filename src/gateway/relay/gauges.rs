//! What an attempt is measured with.

use std::sync::Arc;

use crate::{
    fleet::{Backend, PoolLearned},
    gateway::{estimator::Estimator, record::Record},
    telemetry::{BackendMetrics, PoolMetrics},
    types::{Name, Price},
};

/// What an attempt is measured with.
pub(in crate::gateway) struct Gauges {
    pub(in crate::gateway) estimator: Arc<Estimator>,
    pub(in crate::gateway) record: Arc<Record>,
    /// Place of the attempt among those at the request.
    pub(in crate::gateway) number: usize,
    pub(in crate::gateway) metrics: Arc<BackendMetrics>,
    pub(in crate::gateway) pool_metrics: Arc<PoolMetrics>,
    pub(in crate::gateway) backend: Arc<Backend>,
    pub(in crate::gateway) pool: Arc<PoolLearned>,
    /// The id of the caller's key, where it has one.
    pub(in crate::gateway) caller: Option<Name>,
    pub(in crate::gateway) price: Option<Price>,
    /// Of the prompt, as it was hashed.
    pub(in crate::gateway) prompt_bytes: u64,
    /// Prompt tokens that the engine should have cached.
    pub(in crate::gateway) cached_tokens: u64,
}
