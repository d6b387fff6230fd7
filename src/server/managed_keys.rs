//! Admin API of the keys that are created on the running gateway. Each change is validated and written before it is served.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path as Segment, State as Extract, rejection::JsonRejection},
    response::{IntoResponse, Response},
    routing::{patch, post},
};
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Control,
    app::Cause,
    keys::refuse,
    managed_key_file::{ManagedKeysError, NewKey, Settings, lines, load, read, write},
};
use crate::policy::{Policy, compile_managed_keys};

/// Largest number of managed keys. Each change writes all of them.
const MOST_KEYS: usize = 10_000;

/// Routes of the admin listener.
pub(super) fn routes(control: Arc<Control>) -> Router {
    Router::new()
        .route("/admin/keys", post(create))
        .route("/admin/keys/{id}", patch(update).delete(delete))
        .with_state(control)
}

/// Creates a key with the settings of the body: those of the policy's `keys`. Without a `hash`, a secret is generated and returned.
async fn create(Extract(control): Extract<Arc<Control>>, body: Result<Json<Settings>, JsonRejection>) -> Response {
    let mut settings = match body {
        Ok(Json(settings)) => settings,
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
    let mut secret = None;
    if !settings.contains_key("hash") {
        match NewKey::generate() {
            Ok(new) => {
                settings.insert("hash".into(), new.hash.into());
                secret = Some(new.secret);
            }
            Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
    let Some(id) = settings.get("id").and_then(Value::as_str).map(str::to_owned) else {
        return refuse(StatusCode::BAD_REQUEST, "a key needs an 'id': visible ASCII characters without spaces");
    };
    let added = settings.clone();
    let changed = change(control, id.clone(), move |keys, policy| {
        if keys.iter().any(|key| is(key, &id)) || policy.keys.iter().any(|key| *key.id == *id) {
            let message = format!("there is a key '{id}' already: choose another id, or change it with PATCH");
            return Err((StatusCode::CONFLICT, message));
        }
        if keys.len() >= MOST_KEYS {
            return Err((StatusCode::CONFLICT, format!("there are {MOST_KEYS} keys already: delete some")));
        }
        check(&added, policy)?;
        keys.push(added);
        Ok("created")
    });
    if let Err((status, message)) = changed.await {
        return refuse(status, &message);
    }
    let mut answer = settings;
    if let Some(secret) = secret {
        answer.insert("secret".into(), secret.into());
    }
    (StatusCode::CREATED, Json(answer)).into_response()
}

/// Changes the settings of a key by a JSON merge patch (RFC 7396).
async fn update(
    Extract(control): Extract<Arc<Control>>,
    Segment(id): Segment<String>,
    body: Result<Json<Settings>, JsonRejection>,
) -> Response {
    let patch = match body {
        Ok(Json(patch)) => patch,
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
    if patch.contains_key("id") || patch.contains_key("hash") {
        return refuse(StatusCode::BAD_REQUEST, "'id' and 'hash' cannot change: create another key");
    }
    let key = id.clone();
    let changed = change(control, key.clone(), move |keys, policy| {
        let settings = keys.iter_mut().find(|settings| is(settings, &id)).ok_or_else(|| unknown(&id, policy))?;
        let mut next = settings.clone();
        merge(&mut next, patch);
        check(&next, policy)?;
        *settings = next;
        Ok("changed")
    });
    match changed.await {
        Ok(()) => Json(json!({ "key": key, "changed": true })).into_response(),
        Err((status, message)) => refuse(status, &message),
    }
}

/// Deletes a key. Its running requests finish.
async fn delete(Extract(control): Extract<Arc<Control>>, Segment(id): Segment<String>) -> Response {
    let key = id.clone();
    let changed = change(control, key.clone(), move |keys, policy| {
        let at = keys.iter().position(|settings| is(settings, &id)).ok_or_else(|| unknown(&id, policy))?;
        keys.remove(at);
        Ok("deleted")
    });
    match changed.await {
        Ok(()) => Json(json!({ "key": key, "deleted": true })).into_response(),
        Err((status, message)) => refuse(status, &message),
    }
}

type Refusal = (StatusCode, String);

/// Applies `edit` to the stored keys, writes them, and serves them. The log names the key `id` and the change, which `edit` returns.
async fn change(
    control: Arc<Control>,
    id: String,
    edit: impl FnOnce(&mut Vec<Settings>, &Policy) -> Result<&'static str, Refusal> + Send + 'static,
) -> Result<(), Refusal> {
    let _alone = control.reloading.lock().await;
    let changing = control.clone();
    let changed = tokio::task::spawn_blocking(move || {
        let mut policy = (*changing.discovery.base()).clone();
        let Some(path) = policy.managed_keys.as_ref().map(|managed| managed.path.clone()) else {
            let message =
                "this gateway keeps no keys of its own: add `managed_keys: { path: keys.json }` to the policy";
            return Err((StatusCode::CONFLICT, message.to_owned()));
        };
        let failed = |error: &dyn std::fmt::Display| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        let io_failed = |error| failed(&ManagedKeysError::Io { path: path.clone(), error });
        let mut stored = read(&path).map_err(io_failed)?;
        let change = edit(&mut stored.keys, &policy)?;
        let text = serde_json::to_vec_pretty(&stored).map_err(|error| failed(&error))?;
        write(&path, &text).map_err(io_failed)?;
        load(&mut policy).map_err(|error| failed(&error))?;
        let next = changing.discovery.compose(&policy, Some(&changing.app.live.load().snapshot));
        changing.app.replace(next, Cause::Reload).map_err(|error| failed(&error))?;
        changing.discovery.adopt(policy);
        tracing::info!(key = %id, managed_keys = stored.keys.len(), "keys: managed key '{id}' {change}");
        Ok(())
    });
    changed.await.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
}

/// Validates the settings of one key against `policy`.
fn check(settings: &Settings, policy: &Policy) -> Result<(), Refusal> {
    let text = json!({ "keys": [settings] }).to_string();
    let compiled = compile_managed_keys("the request", &text, policy, true);
    compiled.map(drop).map_err(|problems| (StatusCode::BAD_REQUEST, lines(&problems)))
}

fn is(settings: &Settings, id: &str) -> bool {
    settings.get("id").and_then(Value::as_str) == Some(id)
}

fn unknown(id: &str, policy: &Policy) -> Refusal {
    if policy.keys.iter().any(|key| *key.id == *id && !key.managed) {
        let message = format!("the key '{id}' is in the policy file: change it there, or revoke it");
        return (StatusCode::CONFLICT, message);
    }
    (StatusCode::NOT_FOUND, format!("there is no key '{id}': GET /admin/keys lists them"))
}

/// Applies a JSON merge patch.
fn merge(settings: &mut Settings, patch: Settings) {
    for (name, value) in patch {
        match (settings.get_mut(&name), value) {
            (_, Value::Null) => drop(settings.shift_remove(&name)),
            (Some(Value::Object(inner)), Value::Object(patch)) => merge(inner, patch),
            (_, value) => drop(settings.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_changes_adds_and_removes() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let mut settings = map(json!({ "id": "a", "limits": { "rpm": 1, "tpm": 2 }, "team": "t" }));
        merge(&mut settings, map(json!({ "limits": { "rpm": 5, "tpm": null }, "team": null, "tags": ["x"] })));
        assert_eq!(Value::Object(settings), json!({ "id": "a", "limits": { "rpm": 5 }, "tags": ["x"] }));
    }
}
