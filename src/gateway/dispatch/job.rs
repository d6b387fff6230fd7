//! State shared by all attempts at a request.

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
    /// Client headers that may go upstream.
    pub(super) headers: HeaderMap,
}

/// Position of an attempt's backend.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    /// Index of the target in the route.
    pub(super) target: usize,
    /// Index of the backend in the pool.
    pub(super) backend: usize,
}

impl Job {
    pub(super) fn new(client: Client, estimator: Arc<Estimator>, call: Call) -> Arc<Self> {
        Self { client, estimator, headers: address::forwarded(&call.headers), call }.into()
    }

    /// True if the answer is streamed token by token.
    pub(super) fn streams(&self) -> bool {
        self.call.body.stream && is_generation(self.call.endpoint)
    }

    /// True if the request asks for reasoning before the answer.
    pub(super) fn reasons(&self) -> bool {
        self.call.body.asks_to_think()
    }
}
