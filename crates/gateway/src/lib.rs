//! The request path: each request passes the steps once, and [`walk`] shows the order.
//!
//! The type of the request changes at each step (`Arrival` → `Authed` → `Call` → `Estimated` → `Routed` → `Translated` →
//! `Missed` → `Covered` → `Admitted`), so a step in the wrong place does not compile. Steps are composed by [`tower::Layer`]. Only
//! the [`Edge`] is a [`tower::Service`]: it boxes the future once, and alone converts a step's
//! [`Fault`](signalbox_types::Fault) to HTTP.

#![forbid(unsafe_code)]

mod admit;
mod auth;
mod background;
mod body_fault;
mod body_memory;
mod breaker_log;
mod credentials;
mod descriptors;
mod dispatch;
mod edge;
mod estimate;
mod estimator;
mod explain;
mod explain_api;
mod feedback;
mod keep_alive;
mod limit;
mod lookup;
mod models;
mod objects;
mod observe;
mod parse;
mod parts;
mod placement;
mod record;
mod refusal;
mod relay;
mod reply;
mod responses_socket;
mod root;
mod route;
mod serving;
mod span_facts;
mod spans;
mod stages;
mod step;
mod stored_responses;
#[cfg(test)]
mod testing;
mod traced;
mod translate;
mod unpack;
mod wait_queue;
mod watched_answer;

use std::sync::Arc;

use tower::{Layer, ServiceBuilder, layer::layer_fn};

#[cfg(any(test, feature = "fuzzing"))]
pub use self::dispatch::fuzz_head;
use self::{
    admit::Admit,
    auth::Auth,
    background::{BackgroundRequests, Pairs},
    dispatch::Dispatch,
    estimate::Estimation,
    limit::Limit,
    lookup::CacheLookup,
    objects::Objects,
    parse::Parse,
    route::Routing,
    stages::Arrival,
    stored_responses::StoredResponses,
    translate::Translation,
};
pub use self::{
    credentials::check_keys,
    descriptors::{Descriptors, OpenConnection},
    edge::{Edge, refuse},
    explain::{Explanation, explain},
    explain_api::ExplainApi,
    models::Models,
    observe::Observer,
    parts::Parts,
    reply::{is_events, reply_to, wrong_method},
    responses_socket::SocketSession,
    root::root,
    serving::{Live, Serving},
    step::{Reply, Step},
    wait_queue::{Standing as QueueStanding, WaitQueues},
};
use signalbox_upstream::Client;

/// Builds the request path, outermost step first. Each step owns the handles it uses.
pub fn walk(live: Arc<Live>, parts: &Parts, client: &Client) -> Edge<impl Step<Arrival>> {
    let Parts {
        clock,
        accounting,
        answers,
        learning,
        otel,
        descriptors,
        estimator,
        held,
        placement,
        routing,
        settlement,
        ..
    } = parts;
    let dispatch = || Dispatch::new(client.clone());
    let background_requests =
        Arc::new(BackgroundRequests::new(dispatch(), settlement.clone(), placement.clone(), estimator.clone()));
    let background = &accounting.background;
    let steps = ServiceBuilder::new()
        // Authenticates the API key, before any byte of the body is read.
        .layer(step(Auth))
        // Reads the body and parses it in one pass.
        .layer(step(|inner| Parse::new(inner, *clock, held.clone())))
        // Puts stored items into requests of the Responses API, and stores their answers.
        .layer(step(|inner| StoredResponses::new(inner, *clock, answers.clone(), held.clone())))
        // Estimates the work.
        .layer(step(|inner| Estimation::new(inner, *clock, estimator.clone(), accounting.clone())))
        // Selects the route.
        .layer(step(|inner| Routing::new(inner, routing.clone())))
        // Converts a request of another API to the internal one, and its answer back.
        .layer(step(Translation::new))
        // Checks that the caller owns the provider objects that the request names.
        .layer(step(|inner| Objects::new(inner, accounting.callers.clone())))
        // Answers from the cache, or shares an answer under way.
        .layer(step(|inner| CacheLookup::new(inner, answers.clone(), background.clone(), background_requests.clone())))
        // Reserves tokens and cost within the caller's limits.
        .layer(step(|inner| Limit::new(inner, *clock)))
        // Sends some prompts to another tier too, to learn from both answers.
        .layer(step(|inner| Pairs::new(inner, learning.tiers.clone(), background.clone(), background_requests.clone())))
        // Waits for a permit on an engine.
        .layer(step(|inner| Admit::new(inner, placement.clone(), descriptors.clone())))
        // Sends the request to a backend and relays the answer.
        .service(dispatch());
    Edge::new(steps, live, settlement.clone(), otel.clone(), held.clone())
}

fn step<S, T>(make: impl Fn(S) -> T + Clone) -> impl Layer<S, Service = T> {
    layer_fn(make)
}
