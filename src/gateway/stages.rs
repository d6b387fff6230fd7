//! What a request is at each stage of the walk.

use std::sync::Arc;

use http::{HeaderMap, Method};

use super::{
    Serving,
    estimator::Estimate,
    placement::{PlacementRequest, Reservation},
    record::Record,
};
use crate::{
    policy::Route,
    prompt::Blocks,
    protocol::RequestBody,
    types::{Endpoint, Moment, Name},
};

/// A request at the door.
pub struct Arrival {
    /// What it asks for.
    pub(super) endpoint: Endpoint,
    /// The policy that serves it, whole, from the door to the end.
    pub(super) serving: Arc<Serving>,
    /// What is noted of it.
    pub(super) record: Arc<Record>,
    /// The request itself.
    pub(super) request: axum::extract::Request,
}

/// A request whose caller is known to be allowed in.
pub(super) struct Authed {
    pub(super) arrival: Arrival,
    /// Place of the caller's key in the policy, where keys are asked for.
    pub(super) key: Option<usize>,
}

/// A request that was read.
#[derive(Clone)]
pub(super) struct Call {
    /// When the last byte of the body had come.
    pub(super) read_at: Moment,
    pub(super) endpoint: Endpoint,
    pub(super) serving: Arc<Serving>,
    pub(super) record: Arc<Record>,
    /// Place of the caller's key in the policy, where keys are asked for.
    pub(super) key: Option<usize>,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: RequestBody,
    /// Whether a stream's usage chunk is passed on whoever asked for it: those who share the answer decide by themselves.
    pub(super) keeps_usage: bool,
}

impl Call {
    /// The id of the caller's key, where keys are asked for.
    pub(super) fn caller(&self) -> Option<&Name> {
        self.key.map(|key| &self.serving.caller(key).id)
    }

    /// Whether it may be asked twice: what an engine keeps of it would be there twice.
    pub(super) fn is_repeatable(&self) -> bool {
        let endpoint = self.endpoint;
        match self.body.member("store") {
            Some(b"true") => false,
            Some(b"false") => endpoint.repeatable() || endpoint == Endpoint::Responses,
            _ => endpoint.repeatable(),
        }
    }
}

/// A call whose work is estimated.
pub(super) struct Estimated {
    pub(super) call: Call,
    pub(super) estimate: Estimate,
}

/// A call that knows where it may go.
pub(super) struct Routed {
    pub(super) call: Call,
    pub(super) blocks: Blocks,
    pub(super) session: Option<u64>,
    pub(super) route: Arc<Route>,
}

/// A call that nothing kept or under way has answered.
pub(super) struct Missed(pub(super) Routed);

/// A call that its caller's limits leave room for.
pub(super) struct Covered(pub(super) Routed);

/// A call that may be dispatched.
pub(super) struct Admitted {
    pub(super) call: Call,
    pub(super) asked: PlacementRequest,
    /// The first backend, with a permit there.
    pub(super) first: Reservation,
}
