//! The admin API: health, metrics, the page, decisions, reload.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Query, Request, State as Extract},
    middleware::{self, Next},
    response::{
        IntoResponse, Response,
        sse::{KeepAlive, Sse},
    },
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;

use super::{
    Control, backends, decisions, explain, guard, history::Range, keys, managed_keys, metrics_page::metrics_page,
    page::page, policy_view, state::State, state_broadcast,
};
use signalbox_cache::{ExactKey, Purge};
use signalbox_gateway::{refuse, wrong_method};
use signalbox_prompt::complexity::Weights;

/// Routes that are also served on the API listener.
pub(super) fn public(control: Arc<Control>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics_if_allowed))
        .method_not_allowed_fallback(wrong_method)
        .with_state(control)
}

/// All routes of the admin listener at `listen`, with those of `more`.
pub(super) fn admin(control: Arc<Control>, listen: SocketAddr, more: Router) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/admin/state", get(state))
        .route("/admin/events", get(events))
        .route("/admin/history", get(history))
        .route("/admin/complexity", get(complexity))
        .route("/admin/complexity/rollback", post(roll_back))
        .route("/admin/cache/purge", post(purge))
        .route("/admin/responses/purge", post(purge_responses))
        .route("/admin/reload", post(reload))
        .with_state(control.clone())
        .merge(decisions::routes(control.clone()))
        .merge(explain::routes(control.clone()))
        .merge(policy_view::routes(control.clone()))
        .merge(keys::routes(control.clone()))
        .merge(backends::routes(control.clone()))
        .merge(managed_keys::routes(control.clone()))
        .merge(more)
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            guard::operators(control.clone(), listen, request, next)
        }))
}

async fn health() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

/// 200 while requests are accepted; 503 during the drain, and while no pool has a backend.
async fn ready(Extract(control): Extract<Arc<Control>>) -> Response {
    if control.is_draining() {
        let body = Json(json!({ "status": "draining" }));
        return (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    }
    let serving = control.app.live.load();
    let (empty, served): (Vec<_>, Vec<_>) = serving.snapshot.pools.iter().partition(|pool| pool.backends.is_empty());
    let empty: Vec<_> = empty.into_iter().map(|pool| &pool.spec.name).collect();
    match (served.is_empty(), empty.is_empty()) {
        (_, true) => Json(json!({ "status": "ready" })).into_response(),
        (false, false) => Json(json!({ "status": "ready", "pools_without_backends": empty })).into_response(),
        (true, false) => {
            let body = Json(json!({ "status": "no backends", "pools_without_backends": empty }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

async fn metrics(Extract(control): Extract<Arc<Control>>, headers: HeaderMap) -> Response {
    metrics_page(&headers, move || control.app.metrics(&control.discovery)).await
}

async fn metrics_if_allowed(Extract(control): Extract<Arc<Control>>, headers: HeaderMap) -> Response {
    match refuse(&control.app.live.load(), &headers) {
        Some(refusal) => refusal,
        None => metrics_page(&headers, move || control.app.public_metrics()).await,
    }
}

/// Serialises the current state on a blocking thread.
pub(super) async fn state_json(control: Arc<Control>) -> Option<String> {
    let make = move || serde_json::to_string(&State::of(&control)).ok();
    tokio::task::spawn_blocking(make).await.ok().flatten()
}

async fn state(Extract(control): Extract<Arc<Control>>) -> Response {
    match state_json(control).await {
        Some(state) => ([(header::CONTENT_TYPE, "application/json")], state).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Sends the state once a second as server-sent events.
async fn events(Extract(control): Extract<Arc<Control>>) -> Response {
    let Some(updates) = control.state_events.subscribe(control.stopping()) else {
        let message =
            format!("{} subscribers are watching already: poll /admin/state", state_broadcast::MAX_SUBSCRIBERS);
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": { "message": message } }))).into_response();
    };
    Sse::new(updates).keep_alive(KeepAlive::default()).into_response()
}

/// Figures over time: `GET /admin/history?range=15m|1h|6h|3d`.
async fn history(Extract(control): Extract<Arc<Control>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    let Some(range) = Range::of(asked.get("range").map_or("1h", String::as_str)) else {
        return keys::refuse(StatusCode::BAD_REQUEST, "'range' is 15m, 1h, 6h or 3d");
    };
    let make = move || control.history.json(range, &control.app.live.load().snapshot.policy);
    match tokio::task::spawn_blocking(make).await {
        Ok(history) => Json(history).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Standing of every route with tiers, and the version of the complexity weights.
async fn complexity(Extract(control): Extract<Arc<Control>>) -> Response {
    let parts = &control.app.parts;
    let routes: serde_json::Map<_, _> = parts
        .learning
        .standings(parts.clock.now())
        .into_iter()
        .map(|(route, standing)| (route.to_string(), serde_json::to_value(standing).unwrap_or_default()))
        .collect();
    let weights = Weights::built_in();
    let weights = json!({ "version": weights.version, "provenance": weights.provenance });
    let learned: serde_json::Map<_, _> = parts
        .learning
        .tiers
        .statuses()
        .into_iter()
        .map(|(route, status)| (route.to_string(), serde_json::to_value(status).unwrap_or_default()))
        .collect();
    Json(json!({ "weights": weights, "routes": routes, "learned": learned })).into_response()
}

/// Restores the weights that a route used before its last promotion: `POST /admin/complexity/rollback?route=NAME`.
async fn roll_back(Extract(control): Extract<Arc<Control>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    let refuse = |status: StatusCode, message: String| (status, Json(json!({ "error": { "message": message } })));
    let Some(route) = asked.get("route").cloned() else {
        return refuse(StatusCode::BAD_REQUEST, "name the route: ?route=NAME".to_owned()).into_response();
    };
    let learning = control.app.parts.learning.tiers.clone();
    let name = route.clone();
    // Writes a file, which blocks.
    let back = tokio::task::spawn_blocking(move || learning.roll_back(&name)).await.ok().flatten();
    match back {
        None => refuse(StatusCode::NOT_FOUND, format!("the route '{route}' has learned nothing")).into_response(),
        Some(back) => Json(json!({ "route": route, "rolled_back": back })).into_response(),
    }
}

/// Removes cached answers: `POST /admin/cache/purge?key=ID&route=NAME&entry=HEX`. Without a parameter it removes all.
async fn purge(Extract(control): Extract<Arc<Control>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    let refuse = |status: StatusCode, message: String| {
        (status, Json(json!({ "error": { "message": message } }))).into_response()
    };
    // A misspelt parameter must not purge everything.
    if let Some(odd) = asked.keys().find(|name| !matches!(name.as_str(), "key" | "route" | "entry")) {
        return refuse(StatusCode::BAD_REQUEST, format!("unknown parameter '{odd}': expected key, route or entry"));
    }
    let entry = match asked.get("entry").map(|text| ExactKey::from_hex(text)) {
        None => None,
        Some(Some(entry)) => Some(entry),
        Some(None) => return refuse(StatusCode::BAD_REQUEST, "an entry is named by 64 hex digits".to_owned()),
    };
    let purge = Purge { caller: asked.get("key").cloned(), route: asked.get("route").cloned(), entry };
    // Visits every entry, which may take long.
    let parts = control.app.parts.clone();
    let gone = tokio::task::spawn_blocking(move || parts.answers.purge(&purge)).await.unwrap_or(0);
    Json(json!({ "purged": gone })).into_response()
}

/// Removes stored responses and conversations: `POST /admin/responses/purge?key=ID`. Without a key it removes all.
async fn purge_responses(
    Extract(control): Extract<Arc<Control>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    if let Some(odd) = asked.keys().find(|name| *name != "key") {
        let message = format!("unknown parameter '{odd}': expected key");
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": { "message": message } }))).into_response();
    }
    let owner = asked.get("key").map(|key| Some(key.as_str().into()));
    let parts = control.app.parts.clone();
    let purge = move || parts.answers.responses.purge(owner.as_ref());
    Json(json!({ "purged": tokio::task::spawn_blocking(purge).await.unwrap_or(0) })).into_response()
}

async fn reload(Extract(control): Extract<Arc<Control>>) -> Response {
    match control.reload().await {
        Ok(hash) => Json(json!({ "reloaded": true, "hash": hash })).into_response(),
        Err(message) => (StatusCode::BAD_REQUEST, Json(json!({ "reloaded": false, "error": { "message": message } })))
            .into_response(),
    }
}
