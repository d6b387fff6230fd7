//! What operators and their machines ask: health, metrics, the page, decisions, a reload.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Query, Request, State as Extract},
    middleware::{self, Next},
    response::{
        IntoResponse, Response,
        sse::{KeepAlive, Sse},
    },
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header, uri::Authority};
use serde_json::json;

use super::{Control, keys, origin::is_same_origin, page::page, state::State, watchers};
use crate::{
    cache::{ExactKey, Purge},
    gateway::{REMEMBERED, refuse, reply_to, wrong_method},
    prompt::complexity::Weights,
    telemetry::CONTENT_TYPE,
    types::Fault,
};

/// What anyone who may connect to the API may also ask.
pub(super) fn public(control: Arc<Control>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics_if_allowed))
        .method_not_allowed_fallback(wrong_method)
        .with_state(control)
}

/// Everything, for the admin listener. `local`: it listens on this machine alone.
pub(super) fn admin(control: Arc<Control>, local: bool) -> Router {
    let routes = Router::new()
        .route("/", get(page))
        .route("/health", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/admin/state", get(state))
        .route("/admin/events", get(events))
        .route("/admin/decisions", get(decisions))
        .route("/admin/decisions/{id}", get(decision))
        .route("/admin/complexity", get(complexity))
        .route("/admin/complexity/rollback", post(roll_back))
        .route("/admin/cache/purge", post(purge))
        .route("/admin/reload", post(reload))
        .with_state(control.clone())
        .merge(keys::routes(control));
    if local { routes.layer(middleware::from_fn(by_local_name)) } else { routes }
}

/// Refuses what was sent to this machine by a name that is not its own: a web page somewhere else may have its name resolve to
/// 127.0.0.1 and then read the answers, the browser's rules notwithstanding (DNS rebinding).
async fn by_local_name(request: Request, next: Next) -> Response {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = named.or(request.uri().authority().map(Authority::as_str));
    if host.is_none_or(is_local_name) {
        return next.run(request).await;
    }
    let message = "this listener answers on this machine alone: ask for it by an IP address or as 'localhost'";
    (StatusCode::FORBIDDEN, Json(json!({ "error": { "message": message } }))).into_response()
}

/// Refuses what a web page of another site sends to an API that is open to whoever can connect, which on this machine alone
/// means every page in its browser.
pub(super) async fn by_no_foreign_page(control: &Control, request: Request, next: Next) -> Response {
    let serving = control.house.live.load();
    let policy = &serving.snapshot.policy;
    let origin = request.headers().get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let foreign = origin.is_some_and(|origin| !origin.split_once("://").is_some_and(|(_, host)| is_local_name(host)));
    if foreign && policy.keys.is_empty() && policy.listen.ip().is_loopback() {
        let message =
            "a page of another site may not use this gateway, which asks for no keys: set 'keys' in the policy";
        let fault = Fault::client(StatusCode::FORBIDDEN, "foreign_origin", message).with_code("foreign_origin");
        return reply_to(None, "", &fault);
    }
    next.run(request).await
}

/// Whether `host`, with its port or without, needs no name server: an IP address, or `localhost`.
fn is_local_name(host: &str) -> bool {
    let Ok(host) = host.parse::<Authority>() else { return false };
    let host = host.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

async fn health() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

/// Ready while requests are taken: not during the drain.
async fn ready(Extract(control): Extract<Arc<Control>>) -> Response {
    if control.is_draining() {
        let body = Json(json!({ "status": "draining" }));
        return (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    }
    Json(json!({ "status": "ready" })).into_response()
}

async fn metrics(Extract(control): Extract<Arc<Control>>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], control.house.metrics()).into_response()
}

async fn metrics_if_allowed(Extract(control): Extract<Arc<Control>>, headers: HeaderMap) -> Response {
    match refuse(&control.house.live.load(), &headers) {
        Some(refusal) => refusal,
        None => ([(header::CONTENT_TYPE, CONTENT_TYPE)], control.house.public_metrics()).into_response(),
    }
}

/// The present state, made where it may take its time.
pub(super) async fn state_json(control: Arc<Control>) -> Option<String> {
    let make = move || serde_json::to_string(&State::of(&control.house, control.is_draining())).ok();
    tokio::task::spawn_blocking(make).await.ok().flatten()
}

async fn state(Extract(control): Extract<Arc<Control>>) -> Response {
    match state_json(control).await {
        Some(state) => ([(header::CONTENT_TYPE, "application/json")], state).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The same once a second, as events.
async fn events(Extract(control): Extract<Arc<Control>>) -> Response {
    let Some(updates) = control.watchers.join(control.stopping()) else {
        let message = format!("{} are watching already: ask for /admin/state now and then", watchers::MOST);
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": { "message": message } }))).into_response();
    };
    Sse::new(updates).keep_alive(KeepAlive::default()).into_response()
}

async fn decisions(Extract(control): Extract<Arc<Control>>) -> Response {
    let last = control.house.desk.last(100);
    Json(last.iter().map(|line| &**line).collect::<Vec<_>>()).into_response()
}

async fn decision(Extract(control): Extract<Arc<Control>>, Path(id): Path<String>) -> Response {
    let Some(line) = control.house.desk.find(&id) else {
        let message = format!("no decision '{id}' is remembered: the last {REMEMBERED} are");
        return (StatusCode::NOT_FOUND, Json(json!({ "error": { "message": message } }))).into_response();
    };
    Json(&*line).into_response()
}

/// How every route with tiers stands, and the weights that prompts are scored by.
async fn complexity(Extract(control): Extract<Arc<Control>>) -> Response {
    let desk = &control.house.desk;
    let routes: serde_json::Map<_, _> = desk
        .standings(desk.clock.now())
        .into_iter()
        .map(|(route, standing)| (route.to_string(), serde_json::to_value(standing).unwrap_or_default()))
        .collect();
    let weights = Weights::built_in();
    let weights = json!({ "version": weights.version, "provenance": weights.provenance });
    let learned: serde_json::Map<_, _> = desk
        .lessons
        .told()
        .into_iter()
        .map(|(route, told)| (route.to_string(), serde_json::to_value(told).unwrap_or_default()))
        .collect();
    Json(json!({ "weights": weights, "routes": routes, "learned": learned })).into_response()
}

/// Brings back the weights that a route used before its last promotion: `POST /admin/complexity/rollback?route=NAME`.
async fn roll_back(
    Extract(control): Extract<Arc<Control>>,
    Query(asked): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    if headers.contains_key(header::ORIGIN) && !is_same_origin(&headers) {
        return (StatusCode::FORBIDDEN, Json(json!({ "error": { "message": "not from another site" } })))
            .into_response();
    }
    let refuse = |status: StatusCode, message: String| (status, Json(json!({ "error": { "message": message } })));
    let Some(route) = asked.get("route").cloned() else {
        return refuse(StatusCode::BAD_REQUEST, "name the route: ?route=NAME".to_owned()).into_response();
    };
    let lessons = control.house.desk.lessons.clone();
    let name = route.clone();
    // It writes a file.
    let back = tokio::task::spawn_blocking(move || lessons.roll_back(&name)).await.ok().flatten();
    match back {
        None => refuse(StatusCode::NOT_FOUND, format!("the route '{route}' has learned nothing")).into_response(),
        Some(back) => Json(json!({ "route": route, "rolled_back": back })).into_response(),
    }
}

/// Forgets kept answers: `POST /admin/cache/purge?key=ID&route=NAME&entry=HEX`, all of them where it names none.
async fn purge(
    Extract(control): Extract<Arc<Control>>,
    Query(asked): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let refuse = |status: StatusCode, message: String| {
        (status, Json(json!({ "error": { "message": message } }))).into_response()
    };
    if headers.contains_key(header::ORIGIN) && !is_same_origin(&headers) {
        return refuse(StatusCode::FORBIDDEN, "not from another site".to_owned());
    }
    // A name that is misspelt must not take everything away.
    if let Some(odd) = asked.keys().find(|name| !matches!(name.as_str(), "key" | "route" | "entry")) {
        return refuse(StatusCode::BAD_REQUEST, format!("there is no '{odd}': name a key, a route or an entry"));
    }
    let entry = match asked.get("entry").map(|text| ExactKey::from_hex(text)) {
        None => None,
        Some(Some(entry)) => Some(entry),
        Some(None) => return refuse(StatusCode::BAD_REQUEST, "an entry is named by 64 hex digits".to_owned()),
    };
    let purge = Purge { caller: asked.get("key").cloned(), route: asked.get("route").cloned(), entry };
    // It looks at every entry.
    let desk = control.house.desk.clone();
    let gone = tokio::task::spawn_blocking(move || desk.forget(&purge)).await.unwrap_or(0);
    Json(json!({ "purged": gone })).into_response()
}

async fn reload(Extract(control): Extract<Arc<Control>>, headers: HeaderMap) -> Response {
    // A web page somewhere else must not be able to press this button.
    if headers.contains_key(header::ORIGIN) && !is_same_origin(&headers) {
        return (StatusCode::FORBIDDEN, Json(json!({ "error": { "message": "not from another site" } })))
            .into_response();
    }
    match control.reload().await {
        Ok(hash) => Json(json!({ "reloaded": true, "hash": hash })).into_response(),
        Err(message) => (StatusCode::BAD_REQUEST, Json(json!({ "reloaded": false, "error": { "message": message } })))
            .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_need_no_name_server() {
        for host in ["127.0.0.1:4101", "127.0.0.1", "[::1]:4101", "[::1]", "localhost", "LocalHost:4101", "10.0.0.7:80"]
        {
            assert!(is_local_name(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:4101", "localhost.evil.example", "127.0.0.1.evil.example:80", "", ":80"]
        {
            assert!(!is_local_name(host), "{host}");
        }
    }
}
