//! Types of a request at each stage of the request path.

use std::sync::Arc;

use http::{HeaderMap, Method};

use super::{
    Serving,
    estimator::Estimate,
    placement::{PlacementRequest, Reservation},
    record::Record,
};
use signalbox_journal::Explained;
use signalbox_policy::Route;
use signalbox_prompt::Blocks;
use signalbox_protocol::RequestBody;
use signalbox_translation::responses::HeldState;
use signalbox_types::{Endpoint, Moment, Name};

/// A request on arrival.
pub struct Arrival {
    pub(super) endpoint: Endpoint,
    /// Model that the path named, as Azure's clients do.
    pub(super) deployment: Option<String>,
    /// Policy that serves the request, from arrival to the end.
    pub(super) serving: Arc<Serving>,
    pub(super) record: Arc<Record>,
    pub(super) request: axum::extract::Request,
}

/// A request whose caller is authenticated.
pub(super) struct Authed {
    pub(super) arrival: Arrival,
    /// Index of the caller's key in the policy, if the policy has keys.
    pub(super) key: Option<usize>,
}

/// A request that was parsed.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, found at a step of its own")]
pub(super) struct Call {
    /// Time when the last byte of the body arrived.
    pub(super) read_at: Moment,
    pub(super) endpoint: Endpoint,
    pub(super) serving: Arc<Serving>,
    pub(super) record: Arc<Record>,
    /// Index of the caller's key in the policy, if the policy has keys.
    pub(super) key: Option<usize>,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: RequestBody,
    /// The request in the caller's API, if it was translated and a backend may speak that API.
    pub(super) original: Option<Arc<OriginalRequest>>,
    /// True if a stream's usage chunk is passed on in any case. Clients that share the answer each decide whether to
    /// drop it.
    pub(super) keeps_usage: bool,
    /// True if the body has signed thinking, which only backends of Anthropic's API get.
    pub(super) signed_thinking: bool,
    /// True if the body carries what providers want back with calls, which only those get.
    pub(super) carries_state: bool,
    /// True if the request names an object of which it is not known which account has it.
    pub(super) seeks_object: bool,
    /// State of a Responses request that the gateway holds; `None` if it holds none.
    pub(super) held: Option<Arc<HeldState>>,
}

/// A request as the caller sent it, in another API than the internal one.
pub(super) struct OriginalRequest {
    pub(super) endpoint: Endpoint,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) body: RequestBody,
}

/// A request in the API of the backend that gets it.
#[derive(Copy, Clone)]
pub(super) struct RequestForm<'a> {
    pub(super) endpoint: Endpoint,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) body: &'a RequestBody,
}

impl Call {
    /// The request for backends of this pool: as the caller sent it, if the pool speaks the caller's API.
    pub(super) fn form_for(&self, pool: usize) -> RequestForm<'_> {
        let pool = &self.serving.snapshot.pools[pool];
        if let Some(original) = self.original.as_deref().filter(|original| pool.speaks(original.endpoint)) {
            let OriginalRequest { endpoint, path, query, body } = original;
            return RequestForm { endpoint: *endpoint, path, query: query.as_deref(), body };
        }
        let Self { endpoint, path, query, body, .. } = self;
        RequestForm { endpoint: *endpoint, path, query: query.as_deref(), body }
    }

    /// Id of the caller's key, if the policy has keys.
    pub(super) fn caller(&self) -> Option<&Name> {
        self.key.map(|key| &self.serving.caller(key).id)
    }

    /// True if the request asks for a new answer, or for the size of its prompt.
    pub(super) fn creates(&self) -> bool {
        self.method == Method::POST && (self.endpoint.is_root(&self.path) || self.counts_tokens())
    }

    /// True if the request asks for the number of its prompt's tokens.
    pub(super) fn counts_tokens(&self) -> bool {
        matches!(&*self.path, "/v1/messages/count_tokens" | "/v1/responses/input_tokens")
    }

    /// True if the request may be sent twice. If an engine stored it, there would be two copies.
    pub(super) fn is_repeatable(&self) -> bool {
        let endpoint = self.endpoint;
        match self.body.member("store") {
            Some(b"true") => false,
            Some(b"false") => endpoint.repeatable() || endpoint == Endpoint::Responses,
            _ => endpoint.repeatable(),
        }
    }
}

/// A call with an estimate of its work.
pub(super) struct Estimated {
    pub(super) call: Call,
    pub(super) estimate: Estimate,
}

/// A call with its route.
pub(super) struct Routed {
    pub(super) call: Call,
    /// Expected tokens of its prompt.
    pub(super) prompt_tokens: u64,
    pub(super) blocks: Blocks,
    pub(super) session: Option<u64>,
    pub(super) route: Arc<Route>,
    /// Reasons for the route.
    pub(super) explained: Arc<Explained>,
}

/// A call in the internal API, or in one that its backends speak.
pub(super) struct Translated(pub(super) Routed);

/// A call that no cached or shared answer served.
pub(super) struct Missed(pub(super) Routed);

/// A call within its caller's limits.
pub(super) struct Covered(pub(super) Routed);

/// A call that may be dispatched.
pub(super) struct Admitted {
    pub(super) call: Call,
    pub(super) asked: PlacementRequest,
    /// Reasons for the route. `None` for a background request.
    pub(super) explained: Option<Arc<Explained>>,
    /// Reservation on the first backend, with its permit.
    pub(super) first: Reservation,
}
