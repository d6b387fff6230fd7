//! What all attempts at a request share.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    gateway::{relay::is_generation, stages::Call},
    types::Endpoint,
    upstream::{Client, address},
};

/// A request that is being answered.
pub(super) struct Job {
    pub(super) client: Client,
    pub(super) call: Call,
    /// The client's headers that may go upstream.
    pub(super) headers: HeaderMap,
}

/// Where an attempt is made.
#[derive(Copy, Clone)]
pub(super) struct Spot {
    /// Place of the target in the route.
    pub(super) target: usize,
    /// Place of the backend in the pool.
    pub(super) backend: usize,
}

impl Job {
    pub(super) fn new(client: Client, call: Call) -> Arc<Self> {
        Self { client, headers: address::forwarded(&call.headers), call }.into()
    }

    /// Whether its answer comes token by token.
    pub(super) fn streams(&self) -> bool {
        self.call.body.stream && is_generation(self.call.endpoint)
    }

    /// Whether it may be asked twice: what an engine keeps of it would be there twice.
    pub(super) fn is_repeatable(&self) -> bool {
        let endpoint = self.call.endpoint;
        match self.call.body.member("store") {
            Some(b"true") => false,
            Some(b"false") => endpoint.repeatable() || endpoint == Endpoint::Responses,
            _ => endpoint.repeatable(),
        }
    }

    /// Whether the model is asked to think first.
    pub(super) fn reasons(&self) -> bool {
        self.call.body.asks_to_think()
    }
}
