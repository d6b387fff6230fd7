//! The input of a routing decision.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    Serving, WaitQueues,
    estimator::{Counting, Estimate, Estimator},
};
use signalbox_accounting::Accounting;
use signalbox_journal::DecisionLog;
use signalbox_learning::Learning;
use signalbox_policy::{Policy, Target};
use signalbox_protocol::RequestBody;
use signalbox_types::{Clock, Endpoint};

/// The parts of the gateway that routing reads.
pub(crate) struct RouteContext {
    pub(crate) clock: Clock,
    pub(crate) estimator: Arc<Estimator>,
    pub(crate) learning: Arc<Learning>,
    pub(crate) queues: Arc<WaitQueues>,
    pub(crate) accounting: Arc<Accounting>,
    pub(crate) decisions: Arc<DecisionLog>,
}

/// A request to route.
pub(crate) struct Asking<'a> {
    pub(crate) context: &'a RouteContext,
    /// ID under which the decision is stored for learning; `None` for a dry run.
    pub(crate) id: Option<Arc<str>>,
    pub(crate) serving: &'a Serving,
    pub(crate) endpoint: Endpoint,
    /// True if it asks for a new answer, or for the size of its prompt.
    pub(crate) creates: bool,
    /// The query string of the URL.
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    /// Index of the caller's key in the policy, if the gateway requires keys.
    pub(crate) key: Option<usize>,
    pub(crate) body: &'a RequestBody,
    pub(crate) estimate: &'a Estimate,
    /// Its token count, computed on demand.
    pub(crate) prompt: &'a Counting<'a>,
}

impl Asking<'_> {
    pub(super) fn policy(&self) -> &Policy {
        &self.serving.snapshot.policy
    }

    /// True for a dry run, from which nothing is learned.
    pub(super) fn is_dry(&self) -> bool {
        self.id.is_none()
    }

    /// True if no user waits for the answer: `x-signalbox-class` is `batch` or, without that header, the service tier
    /// is one for such work.
    pub(super) fn is_batch(&self) -> bool {
        if let Some(class) = self.headers.get("x-signalbox-class") {
            return class == "batch";
        }
        self.body.member("service_tier").is_some_and(|tier| tier == b"\"flex\"" || tier == b"\"batch\"")
    }

    /// Name of the field that holds the prompt; `None` if there is no prompt, or more than one.
    pub(super) fn prompt_field(&self) -> Option<&'static str> {
        match self.endpoint {
            Endpoint::Chat | Endpoint::Messages => Some("messages"),
            Endpoint::Responses => Some("input"),
            Endpoint::Completions => {
                self.body.member("prompt").is_some_and(|prompt| prompt.starts_with(b"\"")).then_some("prompt")
            }
            _ => None,
        }
    }

    /// True if a pool speaks the API of the request.
    pub(super) fn speaks(&self, target: &Target) -> bool {
        self.serving.snapshot.pools[target.pool].speaks(self.endpoint)
    }

    /// True if a pool speaks the API of the request, or one to which a request for a model can be translated.
    pub(super) fn serves(&self, pool: usize) -> bool {
        let own = &self.serving.snapshot.pools[pool];
        own.speaks(self.endpoint) || self.creates && self.serving.serves(pool, self.endpoint)
    }
}
