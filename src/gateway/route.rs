//! Where it may go: the model's route, cut down to the pools that speak what is asked.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};

use super::{
    Reply, Step,
    stages::{Call, Estimated, Routed},
};
use crate::{
    config::duration,
    policy::{Policy, Route, Target},
    types::Fault,
};

pub(super) struct Routing<S>(pub S);

impl<S: Step<Routed>> Step<Estimated> for Routing<S> {
    async fn call(&self, Estimated { call, prompt_tokens, blocks, session }: Estimated) -> Result<Reply, Fault> {
        let mut route = route(&call.serving.snapshot.policy, &call)?;
        if let Some(bound) = own_bound(&call.serving.snapshot.policy, &call.headers)? {
            route = Arc::new(Route { bound: Some(bound), ..Route::clone(&route) });
        }
        call.record.note(|line| {
            line.estimated_prompt_tokens = prompt_tokens;
            line.route = Some(route.name.clone());
        });
        self.0.call(Routed { call, blocks, session, route }).await
    }
}

/// The bound on the time to the first token that a client sets itself, in the place of its route's: where nobody is asked for a
/// key and only this machine can ask, everybody may.
fn own_bound(policy: &Policy, headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
    const HEADER: &str = "x-signalbox-bound-ttft";
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    if !policy.keys.is_empty() || !policy.listen.ip().is_loopback() {
        let message = format!("'{HEADER}' may be set only where the gateway asks for no keys and listens on loopback");
        return Err(Fault::client(StatusCode::FORBIDDEN, "override_refused", message).with_code("override_refused"));
    }
    match value.to_str().ok().and_then(|text| duration(text).ok()) {
        Some(bound) => Ok(Some(bound)),
        None => Err(Fault::field(HEADER, format!("'{HEADER}' is a time with its unit, such as 800ms or 2s"))),
    }
}

fn route(policy: &Policy, call: &Call) -> Result<Arc<Route>, Fault> {
    let speaks = |target: &Target| policy.pools[target.pool].speaks.contains(&call.endpoint);
    let Some(model) = &call.body.model else { return unnamed(policy, call) };
    let Some(route) = policy.models.route(model) else { return Err(unknown(policy, model)) };
    if route.targets.iter().all(speaks) {
        return Ok(route.clone());
    }
    let targets: Vec<_> = route.targets.iter().filter(|target| speaks(target)).cloned().collect();
    if targets.is_empty() {
        let name = call.endpoint.name();
        let message = format!(
            "the model '{model}' does not serve '{name}': none of the pools behind it speaks it (pools.….speaks in the policy)"
        );
        return Err(Fault::field("model", message).with_code("unsupported_endpoint"));
    }
    Ok(Arc::new(Route { targets, ..Route::clone(route) }))
}

/// A request that names no model (a file, a batch, an upload) goes to the pools that speak its endpoint.
fn unnamed(policy: &Policy, call: &Call) -> Result<Arc<Route>, Fault> {
    let pools = policy.pools.iter().enumerate().filter(|(_, pool)| pool.speaks.contains(&call.endpoint));
    let targets: Vec<_> = pools.map(|(pool, _)| Target { pool, serves: None, model: None }).collect();
    let name = call.endpoint.name();
    if targets.is_empty() {
        let message = format!("no pool of this gateway speaks '{name}' (pools.….speaks in the policy)");
        return Err(
            Fault::client(StatusCode::NOT_FOUND, "unsupported_endpoint", message).with_code("unsupported_endpoint")
        );
    }
    Ok(Arc::new(Route::new(name.into(), targets, policy.timeouts)))
}

pub(super) fn unknown(policy: &Policy, model: &str) -> Fault {
    let shown: String = model.chars().take(100).collect();
    let help = match policy.models.nearest(model) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "GET /v1/models lists what there is".to_owned(),
    };
    Fault {
        param: Some("model".into()),
        ..Fault::client(
            StatusCode::NOT_FOUND,
            "model_not_found",
            format!("the model '{shown}' does not exist here: {help}"),
        )
        .with_code("model_not_found")
    }
}
