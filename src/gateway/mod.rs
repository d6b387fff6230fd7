//! The walk: a request goes through the house once, from door to door, and [`walk`] shows the order.
//!
//! The request changes type as it climbs (`Arrival` → `Authed` → `Call` → `Estimated` → `Routed` → `Missed` → `Covered` →
//! `Admitted`), so a step put in
//! the wrong place does not compile. Steps are composed by [`tower::Layer`]; only the [`Edge`] is a [`tower::Service`]: it boxes
//! once, and is the only place where a [`Fault`](crate::types::Fault) becomes HTTP.

mod admit;
mod auth;
mod background;
mod body_memory;
mod breaker_log;
mod credentials;
mod dispatch;
mod edge;
mod estimate;
mod estimator;
mod explain;
mod explain_api;
mod feedback;
mod limit;
mod lookup;
mod models;
mod objects;
mod observe;
mod parse;
mod parts;
mod placement;
mod record;
mod relay;
mod reply;
mod route;
mod serving;
mod spans;
mod stages;
mod step;
mod token_count;
mod traced;
mod wait_queue;

use std::sync::Arc;

use tower::{Layer, ServiceBuilder, layer::layer_fn};

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
};
pub use self::{
    credentials::check_keys,
    dispatch::fuzz_head,
    edge::{Edge, refuse},
    explain::{Explanation, explain},
    explain_api::ExplainApi,
    models::Models,
    observe::Observer,
    parts::Parts,
    reply::{reply_to, wrong_method},
    serving::{Live, Serving},
    step::{Reply, Step},
    wait_queue::{Standing as QueueStanding, WaitQueues},
};
use crate::upstream::Client;

/// The walk, from the door inward. Each step owns the handles it uses.
pub fn walk(live: Arc<Live>, parts: &Parts, client: Client) -> Edge<impl Step<Arrival>> {
    let Parts { clock, accounting, answers, learning, otel, estimator, held, placement, routing, settlement, .. } =
        parts;
    let dispatch = || Dispatch::new(client.clone(), estimator.clone());
    let background_requests =
        Arc::new(BackgroundRequests::new(dispatch(), settlement.clone(), placement.clone(), estimator.clone()));
    let background = &accounting.background;
    let steps = ServiceBuilder::new()
        // Who is asking? Before a byte of the body is read.
        .layer(step(Auth))
        // What is asked? One pass over the bytes.
        .layer(step(|inner| Parse::new(inner, *clock, held.clone())))
        // How much work is it?
        .layer(step(|inner| Estimation::new(inner, *clock, estimator.clone(), accounting.clone())))
        // Where may it go?
        .layer(step(|inner| Routing::new(inner, routing.clone())))
        // Do the provider's objects that it names belong to its caller?
        .layer(step(|inner| Objects::new(inner, accounting.callers.clone())))
        // Was it answered already?
        .layer(step(|inner| CacheLookup::new(inner, answers.clone(), background.clone(), background_requests.clone())))
        // Do its caller's limits leave room for it?
        .layer(step(|inner| Limit::new(inner, *clock, estimator.clone())))
        // Is another tier's answer wanted too, to learn from?
        .layer(step(|inner| Pairs::new(inner, learning.tiers.clone(), background.clone(), background_requests.clone())))
        // Is there room for it?
        .layer(step(|inner| Admit::new(inner, placement.clone())))
        // Which backend, and the answer.
        .service(dispatch());
    Edge::new(steps, live, settlement.clone(), otel.clone())
}

fn step<S, T>(make: impl Fn(S) -> T + Clone) -> impl Layer<S, Service = T> {
    layer_fn(make)
}
