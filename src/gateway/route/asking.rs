//! A request that asks for its way: what is known of it, and by which policy.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    accounting::Accounting,
    gateway::{
        Serving, WaitQueues,
        estimator::{Estimate, Estimator},
        token_count::Counting,
    },
    journal::DecisionLog,
    learning::Learning,
    policy::{Policy, Target},
    protocol::RequestBody,
    types::{Clock, Endpoint},
};

/// What routing asks of the rest of the gateway.
pub(in crate::gateway) struct RouteContext {
    pub(in crate::gateway) clock: Clock,
    pub(in crate::gateway) estimator: Arc<Estimator>,
    pub(in crate::gateway) learning: Arc<Learning>,
    pub(in crate::gateway) queues: Arc<WaitQueues>,
    pub(in crate::gateway) accounting: Arc<Accounting>,
    pub(in crate::gateway) decisions: Arc<DecisionLog>,
}

/// A request that asks for its way.
pub(in crate::gateway) struct Asking<'a> {
    pub(in crate::gateway) context: &'a RouteContext,
    /// Its id, under which the decision is remembered; `None` where it only asks: nothing is learned from it.
    pub(in crate::gateway) id: Option<Arc<str>>,
    pub(in crate::gateway) serving: &'a Serving,
    pub(in crate::gateway) endpoint: Endpoint,
    /// The parameters in its address.
    pub(in crate::gateway) query: Option<&'a str>,
    pub(in crate::gateway) headers: &'a HeaderMap,
    /// Place of the caller's key in the policy, where keys are asked for.
    pub(in crate::gateway) key: Option<usize>,
    pub(in crate::gateway) body: &'a RequestBody,
    pub(in crate::gateway) estimate: &'a Estimate,
    /// Its tokens.
    pub(in crate::gateway) prompt: &'a Counting<'a>,
}

impl Asking<'_> {
    pub(super) fn policy(&self) -> &Policy {
        &self.serving.snapshot.policy
    }

    /// Whether it only asks.
    pub(super) fn is_dry(&self) -> bool {
        self.id.is_none()
    }

    /// Whether nobody waits for the answer: the client says so by a header, or asks for a tier of service that is for such work.
    pub(super) fn is_batch(&self) -> bool {
        if let Some(class) = self.headers.get("x-signalbox-class") {
            return class == "batch";
        }
        self.body.member("service_tier").is_some_and(|tier| tier == b"\"flex\"" || tier == b"\"batch\"")
    }

    /// The field with the one prompt that there is; `None` where there are several, or none at all.
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

    pub(super) fn speaks(&self, target: &Target) -> bool {
        self.policy().pools[target.pool].speaks.contains(&self.endpoint)
    }
}
