//! What all attempts at a request share.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    gateway::{estimator::Estimator, relay::is_generation, stages::Call},
    upstream::{Client, address},
};

/// A request that is being answered.
pub(super) struct Job {
    pub(super) client: Client,
    pub(super) estimator: Arc<Estimator>,
    pub(super) call: Call,
    /// The client's headers that may go upstream.
    pub(super) headers: HeaderMap,
}

/// Where an attempt is made.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    /// Place of the target in the route.
    pub(super) target: usize,
    /// Place of the backend in the pool.
    pub(super) backend: usize,
}

impl Job {
    pub(super) fn new(client: Client, estimator: Arc<Estimator>, call: Call) -> Arc<Self> {
        Self { client, estimator, headers: address::forwarded(&call.headers), call }.into()
    }

    /// Whether its answer comes token by token.
    pub(super) fn streams(&self) -> bool {
        self.call.body.stream && is_generation(self.call.endpoint)
    }

    /// Whether the model is asked to think first.
    pub(super) fn reasons(&self) -> bool {
        self.call.body.asks_to_think()
    }
}
