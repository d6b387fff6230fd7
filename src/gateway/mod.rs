//! The walk: a request goes through the house once, from door to door, and [`walk`] shows the order.
//!
//! The request changes type as it climbs (`Arrival` → `Authed` → `Call` → `Estimated` → `Routed` → `Missed` → `Covered` →
//! `Admitted`), so a step put in
//! the wrong place does not compile. Steps are composed by [`tower::Layer`]; only the [`Edge`] is a [`tower::Service`]: it boxes
//! once, and is the only place where a [`Fault`](crate::types::Fault) becomes HTTP.

mod admit;
mod asked;
mod auth;
mod breaker_log;
mod counting;
mod credentials;
mod desk;
mod dispatch;
mod edge;
mod estimate;
mod explain;
mod feedback;
mod hall;
mod held;
mod inquiry;
mod limit;
mod models;
mod objects;
mod observe;
mod parse;
mod record;
mod relay;
mod reply;
mod reuse;
mod route;
mod seat;
mod serving;
mod session;
mod shadow;
mod spans;
mod stages;
mod step;
mod traced;
mod work;

use std::sync::Arc;

use tower::{Layer, ServiceBuilder, layer::layer_fn};

use self::{
    admit::Admit,
    auth::Auth,
    dispatch::Dispatch,
    estimate::Estimation,
    limit::Limit,
    objects::Objects,
    parse::Parse,
    reuse::Reuse,
    route::Routing,
    shadow::{Errands, Pairs},
    stages::Arrival,
};
pub use self::{
    credentials::check_keys,
    desk::Desk,
    dispatch::fuzz_head,
    edge::{Edge, refuse},
    explain::{Explanation, explain},
    hall::{Hall, Standing},
    inquiry::Inquiry,
    models::Models,
    observe::Observer,
    reply::{reply_to, wrong_method},
    serving::{Live, Serving},
    step::{Reply, Step},
};
use crate::upstream::Client;

/// The walk, from the door inward. Each step owns the handles it uses.
pub fn walk(live: Arc<Live>, desk: Arc<Desk>, client: Client) -> Edge<impl Step<Arrival>> {
    let errands = Arc::new(Errands::new(Dispatch::new(client.clone()), desk.clone()));
    let steps = ServiceBuilder::new()
        // Who is asking? Before a byte of the body is read.
        .layer(step(Auth))
        // What is asked? One pass over the bytes.
        .layer(step(|inner| Parse::new(inner, desk.clone())))
        // How much work is it?
        .layer(step(|inner| Estimation::new(inner, desk.clone())))
        // Where may it go?
        .layer(step(|inner| Routing::new(inner, desk.clone())))
        // Are the provider's objects that it names its caller's?
        .layer(step(|inner| Objects::new(inner, desk.clone())))
        // Was it answered already?
        .layer(step(|inner| Reuse::new(inner, desk.clone(), errands.clone())))
        // Do its caller's limits leave room for it?
        .layer(step(|inner| Limit::new(inner, desk.clone())))
        // Is another tier's answer wanted too, to learn from?
        .layer(step(|inner| Pairs::new(inner, desk.clone(), errands.clone())))
        // Is there room for it?
        .layer(step(|inner| Admit::new(inner, desk.clone())))
        // Which backend, and the answer.
        .service(Dispatch::new(client));
    Edge::new(steps, live, desk)
}

fn step<S, T>(make: impl Fn(S) -> T + Clone) -> impl Layer<S, Service = T> {
    layer_fn(make)
}
