//! The input of a routing decision.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    accounting::Accounting,
    gateway::{
        Serving, WaitQueues,
        estimator::{Counting, Estimate, Estimator},
    },
    journal::DecisionLog,
    learning::Learning,
    policy::{Policy, Target},
    protocol::RequestBody,
    types::{Clock, Endpoint},
};

/// The parts of the gateway that routing reads.
pub(in crate::gateway) struct RouteContext {
    pub(in crate::gateway) clock: Clock,
    pub(in crate::gateway) estimator: Arc<Estimator>,
    pub(in crate::gateway) learning: Arc<Learning>,
    pub(in crate::gateway) queues: Arc<WaitQueues>,
    pub(in crate::gateway) accounting: Arc<Accounting>,
    pub(in crate::gateway) decisions: Arc<DecisionLog>,
}

/// A request to route.
pub(in crate::gateway) struct Asking<'a> {
    pub(in crate::gateway) context: &'a RouteContext,
    /// ID under which the decision is stored for learning; `None` for a dry run.
    pub(in crate::gateway) id: Option<Arc<str>>,
    pub(in crate::gateway) serving: &'a Serving,
    pub(in crate::gateway) endpoint: Endpoint,
    /// True if it asks for a new answer, or for the size of its prompt.
    pub(in crate::gateway) creates: bool,
    /// The query string of the URL.
    pub(in crate::gateway) query: Option<&'a str>,
    pub(in crate::gateway) headers: &'a HeaderMap,
    /// Index of the caller's key in the policy, if the gateway requires keys.
    pub(in crate::gateway) key: Option<usize>,
    pub(in crate::gateway) body: &'a RequestBody,
    pub(in crate::gateway) estimate: &'a Estimate,
    /// Its token count, computed on demand.
    pub(in crate::gateway) prompt: &'a Counting<'a>,
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
