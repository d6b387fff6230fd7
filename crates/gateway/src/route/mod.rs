//! Routing: selects the first rule of the requested model that applies, then keeps those of its pools that support the
//! endpoint and can take the prompt.

mod access;
mod asking;
mod facts;
mod fit;
mod language;
mod one_model;
mod overrides;
mod route_input;
mod routing_facts;
mod rules;

use std::sync::Arc;

use http::StatusCode;

use self::facts::Known;
pub(super) use self::{
    access::{check_endpoint, refused},
    asking::{Asking, RouteContext},
    overrides::priority,
    rules::unknown,
};
use super::{
    Reply, Serving, Step,
    estimator::{Counting, Estimate, is_slow},
    stages::{Estimated, Routed},
};
use signalbox_journal::{Explained, RoutingFacts};
use signalbox_policy::Route;
use signalbox_prompt::tokens::Counter;
use signalbox_protocol::{LONG_BODY, RequestBody};
use signalbox_types::Fault;

/// Longest prompt, in bytes, for which the journal's routing facts are computed on a worker thread; they take 12 µs per
/// KB.
const LONGEST_FACTS: usize = 32 << 10;

/// A route, the reasons for it and, if there is a journal, the facts that routing conditions can use.
pub(super) type Way = (Arc<Route>, Explained, Option<RoutingFacts>);

pub(super) struct Routing<S> {
    inner: S,
    context: Arc<RouteContext>,
}

impl<S> Routing<S> {
    pub(super) fn new(inner: S, context: Arc<RouteContext>) -> Self {
        Self { inner, context }
    }
}

impl<S: Step<Routed>> Step<Estimated> for Routing<S> {
    async fn call(&self, estimated: Estimated) -> Result<Reply, Fault> {
        let began = self.context.clock.now();
        let (estimated, way) = if takes_long(&estimated.call.serving, &estimated.call.body) {
            let context = self.context.clone();
            let aside = tokio::task::spawn_blocking(move || {
                let way = decide(&context, &estimated);
                (estimated, way)
            });
            aside.await.map_err(|_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "routing failed"))?
        } else {
            let way = decide(&self.context, &estimated);
            (estimated, way)
        };
        let (route, explained, facts) = way?;
        let explained = Arc::new(explained);
        let Estimated { call, estimate: Estimate { tokens, blocks, session, .. } } = estimated;
        let prompt_tokens = tokens.expected;
        call.record.took("route", began);
        call.record.progress().routed(route.name.clone(), Some(explained.clone()), facts);
        self.inner.boxed(Routed { call, prompt_tokens, blocks, session, route, explained }).await
    }
}

/// True if deciding would block a worker thread: a long prompt must be counted exactly, or the journal needs its facts.
pub(super) fn takes_long(serving: &Serving, body: &RequestBody) -> bool {
    let journal = serving.snapshot.policy.journal.as_ref();
    let longest = journal.map(|journal| if journal.facts { LONGEST_FACTS } else { LONG_BODY });
    longest.is_some_and(|longest| body.prompt_bytes > longest) || is_slow(counter(serving, body), body)
}

fn decide(context: &RouteContext, Estimated { call, estimate }: &Estimated) -> Result<Way, Fault> {
    let prompt = Counting::of(&call.body, estimate.tokens, counter(&call.serving, &call.body));
    let asking = Asking {
        context,
        id: Some(call.record.id()),
        serving: &call.serving,
        endpoint: call.endpoint,
        creates: call.creates(),
        query: call.query.as_deref(),
        headers: &call.headers,
        key: call.key,
        body: &call.body,
        estimate,
        prompt: &prompt,
    };
    call.record.counts(prompt.known());
    find(&asking)
}

/// Finds the route of a request.
pub(super) fn find(asking: &Asking<'_>) -> Result<Way, Fault> {
    let known = Known::of(asking);
    let (route, explained) = asking.route_known(&known)?;
    let routing_facts = asking.context.decisions.journal.load().is_some().then(|| known.routing_facts());
    Ok((route, explained, routing_facts))
}

/// Returns the token counter of the pool that the model's requests go to first.
pub(super) fn counter<'a>(serving: &'a Serving, body: &RequestBody) -> &'a Arc<Counter> {
    let model = body.model.as_ref().and_then(|model| serving.snapshot.policy.models.get(model));
    let pool = model.and_then(|model| model.first()).map_or(0, |route| route.targets[0].pool);
    serving.counter(pool)
}
