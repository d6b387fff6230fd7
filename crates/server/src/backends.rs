//! Admin API for the fleet: lists backends with their origin, and adds, removes and drains them while the gateway runs.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State as Extract},
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Control,
    discovery::{Edits, EditsError, Leaving, MOST_ADDED},
    json_body::{self, JsonBody},
};
use signalbox_config::authority;
use signalbox_gateway::wrong_method;
use signalbox_policy::{Backend, BackendIdentity, BackendOrigin, DrainedBackend, Policy, compile_added};
use signalbox_telemetry::Store;
use signalbox_types::Name;

/// Routes of the admin listener.
pub(super) fn routes(control: Arc<Control>) -> Router {
    Router::new()
        .route("/admin/backends", get(list))
        .route("/admin/backends/{pool}/{id}", put(add).delete(remove))
        .route("/admin/backends/{pool}/{id}/drain", post(drain))
        .route("/admin/backends/{pool}/{id}/undrain", post(undrain))
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(json_body::LARGEST))
        .with_state(control)
}

/// A refused change.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": { "message": self.1 } }))).into_response()
    }
}

impl From<EditsError> for Refusal {
    fn from(error: EditsError) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, format!("the change could not be kept, and was not made: {error}"))
    }
}

async fn list(Extract(control): Extract<Arc<Control>>) -> Response {
    let serving = control.app.live.load();
    let (policy, now) = (&serving.snapshot.policy, control.app.parts.clock.now());
    let serving_now = serving.snapshot.pools.iter().flat_map(|pool| {
        pool.backends.iter().map(move |backend| {
            let state = match backend.is_up(now) {
                None => "unknown",
                Some(true) => "up",
                Some(false) => "down",
            };
            json!({
                "pool": pool.spec.name,
                "id": backend.name(),
                "label": policy.labels.shown(backend.name()),
                "origin": policy.origin_of(backend.name()).label(),
                "url": policy.engines[backend.spec.engine].url,
                "model": backend.spec.model,
                "state": state,
                "in_flight": backend.load.in_flight(),
            })
        })
    });
    let leaving = control.discovery.leaving(&serving.snapshot).into_iter();
    let leaving = leaving.map(|Leaving { pool, name, engine: _, url, model, origin, state, in_flight, since: _ }| {
        let label = policy.labels.shown(&name);
        json!({ "pool": pool, "id": name, "label": label, "origin": origin, "url": url, "model": model, "state": state, "in_flight": in_flight })
    });
    let kept = control.discovery.edits(Edits::is_persistent);
    Json(json!({ "backends": serving_now.chain(leaving).collect::<Vec<_>>(), "kept": kept })).into_response()
}

/// Adds a backend: `PUT /admin/backends/{pool}/{id}` with the mapping of a backend as in a policy, as JSON. A second one
/// with this name replaces the first.
async fn add(
    Extract(control): Extract<Arc<Control>>,
    Path((pool, id)): Path<(String, String)>,
    JsonBody(backend): JsonBody<Value>,
) -> Result<Response, Refusal> {
    let bad = |message| Refusal(StatusCode::BAD_REQUEST, message);
    let _alone = control.reloading.lock().await;
    let base = control.discovery.base();
    let Some(of_pool) = base.pools.iter().find(|it| *it.name == *pool) else { return Err(no_pool(&base, &pool)) };
    let added = compile_added(&base.admin_access, of_pool, &id, &backend).map_err(bad)?;
    let own = control.discovery.edits(|edits| edits.pool_of(&id).cloned());
    if own.as_ref().is_some_and(|other| **other != *pool) {
        let other = own.unwrap_or_default();
        return Err(conflict(format!(
            "'{id}' was added to the pool '{other}': choose another name, or remove that one first"
        )));
    }
    let live = control.app.live.load();
    let serving = &live.snapshot.policy;
    if own.is_none()
        && let Some(known) = named(serving, &id)
    {
        return Err(conflict(format!("'{id}' is the name of a backend already ({known}): choose another name")));
    }
    let at_address = serving.engines.iter().find(|engine| engine.url == added.engine.url && *engine.name != *id);
    let is_left = |name: &Name| serving.kept.iter().any(|(at, _)| serving.engines[*at].name == *name);
    if let Some(engine) = at_address.filter(|engine| !is_left(&engine.name)) {
        let message = format!("{} is the address of the engine '{}' already", authority(&engine.url), engine.name);
        return Err(conflict(message));
    }
    let is_new = own.is_none();
    if is_new && control.discovery.edits(Edits::added) >= MOST_ADDED {
        return Err(conflict(format!(
            "{MOST_ADDED} backends were added, the most that may: write them into the policy"
        )));
    }
    apply(&control, {
        let (pool, id) = (pool.clone(), id.clone());
        move |edits| edits.put(&pool, &id, backend)
    })
    .await?;
    tracing::info!(
        pool,
        backend = id,
        url = added.engine.url,
        "backends: '{id}' {} by an operator",
        if is_new { "added" } else { "changed" }
    );
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(json!({ "pool": pool, "id": id, "added": is_new, "kept": kept(&control) }))).into_response())
}

/// Removes a backend that was added: no new requests, and those that run there end.
async fn remove(
    Extract(control): Extract<Arc<Control>>,
    Path((pool, id)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let _alone = control.reloading.lock().await;
    if control.discovery.edits(|edits| edits.pool_of(&id).is_none_or(|of| **of != *pool)) {
        let live = control.app.live.load();
        return Err(match member(&live.snapshot.policy, &pool, &id) {
            Some(origin) => conflict(format!(
                "'{id}' comes from {}: remove it there, or drain it: POST /admin/backends/{{pool}}/{{id}}/drain",
                from(&origin)
            )),
            None => unknown(&pool, &id),
        });
    }
    apply(&control, {
        let (pool, id) = (pool.clone(), id.clone());
        move |edits| edits.remove(&pool, &id)
    })
    .await?;
    tracing::info!(pool, backend = id, "backends: '{id}' removed by an operator");
    Ok(Json(json!({ "pool": pool, "id": id, "removed": true, "kept": kept(&control) })).into_response())
}

async fn drain(control: Extract<Arc<Control>>, backend: Path<(String, String)>) -> Result<Response, Refusal> {
    set_drained(control, backend, true).await
}

async fn undrain(control: Extract<Arc<Control>>, backend: Path<(String, String)>) -> Result<Response, Refusal> {
    set_drained(control, backend, false).await
}

async fn set_drained(
    Extract(control): Extract<Arc<Control>>,
    Path((pool, id)): Path<(String, String)>,
    drained: bool,
) -> Result<Response, Refusal> {
    let _alone = control.reloading.lock().await;
    let id = unlabelled(&control.app.live.load().snapshot.policy, &pool, id);
    let is_drained = control.discovery.edits(|edits| edits.is_drained(&pool, &id));
    let live = control.app.live.load();
    let policy = &live.snapshot.policy;
    let identity = backend_of(policy, &pool, &id).map(|backend| BackendIdentity::of(&policy.engines, backend));
    // A drain may outlast its backend, and must end nonetheless.
    if identity.is_none() && (drained || !is_drained) {
        return Err(unknown(&pool, &id));
    }
    if is_drained != drained {
        let backend = DrainedBackend { pool: pool.as_str().into(), id: id.as_str().into(), identity };
        apply(
            &control,
            move |edits| {
                if drained { edits.drain(backend) } else { edits.undrain(&backend.pool, &backend.id) }
            },
        )
        .await?;
        tracing::info!(
            pool,
            backend = id,
            drained,
            "backends: '{id}' {} by an operator",
            if drained { "drained" } else { "returned to service" }
        );
    }
    let leaving = control.discovery.leaving(&control.app.live.load().snapshot);
    let own = leaving.iter().find(|left| *left.pool == *pool && *left.name == *id);
    let in_flight = own.map_or(0, |left| left.in_flight);
    Ok(Json(json!({ "pool": pool, "id": id, "drained": drained, "in_flight": in_flight, "kept": kept(&control) }))
        .into_response())
}

/// Writes a change to disk, then serves by it. The caller holds the lock of reloads.
async fn apply<T: Send + 'static>(
    control: &Arc<Control>,
    change: impl FnOnce(&mut Edits) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let internal = |message: String| Refusal(StatusCode::INTERNAL_SERVER_ERROR, message);
    let control = control.clone();
    let done = tokio::task::spawn_blocking(move || {
        let result = control.discovery.edit(change);
        if kept(&control) {
            control.note_write(Store::Backends, &result.as_ref().map(|_| ()));
        }
        let result = result?;
        control
            .serve_fleet()
            .map_err(|error| internal(format!("the change was kept, and is not in force: {error}")))?;
        Ok(result)
    });
    done.await.unwrap_or_else(|error| Err(internal(error.to_string())))
}

fn kept(control: &Control) -> bool {
    control.discovery.edits(Edits::is_persistent)
}

/// Origin of the backend `id` of `pool`, if there is one.
fn member(policy: &Policy, pool: &str, id: &str) -> Option<BackendOrigin> {
    backend_of(policy, pool, id).map(|backend| policy.origin_of(&backend.name))
}

/// The name of the backend that callers see as `id`, or `id` itself.
fn unlabelled(policy: &Policy, pool: &str, id: String) -> String {
    if backend_of(policy, pool, &id).is_some() {
        return id;
    }
    let pool = policy.pools.iter().find(|it| *it.name == *pool);
    let mut all = pool.into_iter().flat_map(|pool| pool.backends.iter().chain(&pool.drained));
    let labelled = all.find(|backend| **policy.labels.shown(&backend.name) == *id);
    labelled.map_or(id, |backend| backend.name.to_string())
}

/// The backend `id` of `pool`, drained or not.
fn backend_of<'a>(policy: &'a Policy, pool: &str, id: &str) -> Option<&'a Backend> {
    let pool = policy.pools.iter().find(|it| *it.name == *pool)?;
    pool.backends.iter().chain(&pool.drained).find(|backend| *backend.name == *id)
}

/// Words for the origin of the backend with this name, in any pool.
fn named(policy: &Policy, id: &str) -> Option<String> {
    policy.pools.iter().find_map(|pool| member(policy, &pool.name, id)).map(|origin| format!("from {}", from(&origin)))
}

fn from(origin: &BackendOrigin) -> String {
    match origin {
        BackendOrigin::Policy => "the policy".to_owned(),
        BackendOrigin::Admin => "the admin API".to_owned(),
        BackendOrigin::Found(whence) => format!("'{}'", whence.label()),
    }
}

fn conflict(message: String) -> Refusal {
    Refusal(StatusCode::CONFLICT, message)
}

fn unknown(pool: &str, id: &str) -> Refusal {
    Refusal(
        StatusCode::NOT_FOUND,
        format!("there is no backend '{id}' in the pool '{pool}': GET /admin/backends lists them"),
    )
}

fn no_pool(policy: &Policy, pool: &str) -> Refusal {
    let pools = policy.pools.iter().map(|pool| format!("'{}'", pool.name)).collect::<Vec<_>>().join(", ");
    Refusal(StatusCode::NOT_FOUND, format!("there is no pool '{pool}' in the policy: known are {pools}"))
}
