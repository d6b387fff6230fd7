//! Admin API of the keys that are created on the running gateway. All keys are validated as they will be after a change,
//! then written, then served.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path as Segment, State as Extract},
    response::{IntoResponse, Response},
    routing::{patch, post},
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Control,
    app::Cause,
    audit::Target,
    json_body::{self, JsonBody},
    keys::refuse,
    managed_key_file::{ManagedKeysError, NewKey, Settings, add, lines, read},
    private_file,
};
use signalbox_config::{Pause, Scalar};
use signalbox_policy::{Key, Policy, compile_managed_keys, has_variable};
use signalbox_quota::calendar;
use signalbox_telemetry::Store;
use signalbox_types::wall_clock;

/// Time for which the secret before stays valid, unless the rotation says otherwise.
const OVERLAP: Duration = Duration::from_hours(24);
/// Most further secrets of a key.
const MOST_SECRETS: usize = 8;

/// Largest number of managed keys. Each change writes all of them.
const MOST_KEYS: usize = 10_000;

/// Routes of the admin listener.
pub(super) fn routes(control: Arc<Control>) -> Router {
    Router::new()
        .route("/admin/keys", post(create))
        .route("/admin/keys/{id}", patch(update).delete(delete))
        .route("/admin/keys/{id}/rotate", post(rotate))
        .layer(DefaultBodyLimit::max(json_body::LARGEST))
        .with_state(control)
}

/// Creates a key with the settings of the body: those of the policy's `keys`. Without a `hash`, a secret is generated and returned.
async fn create(Extract(control): Extract<Arc<Control>>, JsonBody(mut settings): JsonBody<Settings>) -> Response {
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
    let (added, key) = (settings.clone(), id.clone());
    let changed = change(control, id.clone(), move |keys, policy| {
        if keys.iter().any(|key| is(key, &id)) || policy.keys.iter().any(|key| *key.id == *id) {
            let message = format!("there is a key '{id}' already: choose another id, or change it with PATCH");
            return Err((StatusCode::CONFLICT, message));
        }
        if keys.len() >= MOST_KEYS {
            return Err((StatusCode::CONFLICT, format!("there are {MOST_KEYS} keys already: delete some")));
        }
        let key = check(&added, policy)?;
        if let Some(other) = policy.keys.iter().find(|other| key.hashes().any(|hash| other.has_hash(hash))) {
            let message = format!("the key '{}' has this hash already: `signalbox key new` makes another", other.id);
            return Err((StatusCode::CONFLICT, message));
        }
        keys.push(added);
        Ok(Change { what: "created", remark: remark(&key) })
    });
    let remark = match changed.await {
        Ok(remark) => remark,
        Err((status, message)) => return refuse(status, &message),
    };
    let mut answer = settings;
    if let Some(remark) = remark {
        answer.insert("remark".into(), remark.into());
    }
    if let Some(secret) = secret {
        answer.insert("secret".into(), secret.into());
    }
    (StatusCode::CREATED, Extension(Target(key)), Json(answer)).into_response()
}

/// Changes the settings of a key by a JSON merge patch (RFC 7396).
async fn update(
    Extract(control): Extract<Arc<Control>>,
    Segment(id): Segment<String>,
    JsonBody(patch): JsonBody<Settings>,
) -> Response {
    if patch.contains_key("id") {
        return refuse(StatusCode::BAD_REQUEST, "'id' cannot change: create another key");
    }
    let key = id.clone();
    let changed = change(control, key.clone(), move |keys, policy| {
        let settings = keys.iter_mut().find(|settings| is(settings, &id)).ok_or_else(|| unknown(&id, policy))?;
        let mut next = settings.clone();
        merge(&mut next, patch);
        let key = check(&next, policy)?;
        *settings = next;
        Ok(Change { what: "changed", remark: remark(&key) })
    });
    match changed.await {
        Ok(None) => Json(json!({ "key": key, "changed": true })).into_response(),
        Ok(Some(remark)) => Json(json!({ "key": key, "changed": true, "remark": remark })).into_response(),
        Err((status, message)) => refuse(status, &message),
    }
}

/// Gives a key another secret, which is generated unless the body has its `hash`. The one before stays valid for the `overlap`.
async fn rotate(Extract(control): Extract<Arc<Control>>, Segment(id): Segment<String>, body: Bytes) -> Response {
    let Rotation { overlap, hash, secret } = match Rotation::read(&body) {
        Ok(rotation) => rotation,
        Err(problem) => return refuse(StatusCode::BAD_REQUEST, &problem),
    };
    let now = wall_clock::seconds();
    let until = now.saturating_add(i64::try_from(overlap.as_secs()).unwrap_or(i64::MAX));
    let key = id.clone();
    let changed = change(control, key.clone(), move |keys, policy| {
        let settings = keys.iter_mut().find(|settings| is(settings, &id)).ok_or_else(|| unknown(&id, policy))?;
        let mut next = settings.clone();
        let before = next.insert("hash".into(), hash.into());
        let also = next.shift_remove("also").and_then(|also| also.as_array().cloned()).unwrap_or_default();
        let valid = policy.keys.iter().find(|key| *key.id == *id).into_iter().flat_map(|key| &key.also);
        // Those that have ended are dropped; the order is the same.
        let mut also: Vec<_> = also
            .into_iter()
            .zip(valid)
            .filter(|(_, it)| it.valid_until.is_none_or(|at| at > now))
            .map(|(it, _)| it)
            .collect();
        if !overlap.is_zero() {
            also.push(json!({ "hash": before, "valid_until": calendar::written(until) }));
        }
        if also.len() > MOST_SECRETS {
            let message = format!(
                "the key '{id}' has {MOST_SECRETS} further secrets already: wait until one has ended, or PATCH 'also'"
            );
            return Err((StatusCode::CONFLICT, message));
        }
        if !also.is_empty() {
            next.insert("also".into(), also.into());
        }
        let key = check(&next, policy)?;
        if let Some(other) = policy.keys.iter().find(|other| *other.id != *id && other.has_hash(&key.hash)) {
            return Err((StatusCode::CONFLICT, format!("the key '{}' has this hash already", other.id)));
        }
        *settings = next;
        Ok(Change { what: "rotated", remark: remark(&key) })
    });
    let remark = match changed.await {
        Ok(remark) => remark,
        Err((status, message)) => return refuse(status, &message),
    };
    let mut answer = json!({ "key": key, "rotated": true, "before_valid_until": calendar::written(until) });
    answer["secret"] = secret.into();
    answer["remark"] = remark.into();
    if let Value::Object(answer) = &mut answer {
        answer.retain(|_, value| !value.is_null());
    }
    Json(answer).into_response()
}

/// The request for a rotation.
struct Rotation {
    overlap: Duration,
    hash: String,
    /// The generated secret.
    secret: Option<String>,
}

impl Rotation {
    /// Reads a body, which may be empty.
    fn read(body: &[u8]) -> Result<Self, String> {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Asked {
            #[serde(alias = "grace")]
            overlap: Option<String>,
            hash: Option<String>,
        }
        let asked = if body.trim_ascii().is_empty() { Ok(Asked::default()) } else { serde_json::from_slice(body) };
        let asked = asked.map_err(|error| format!("the body is not the JSON that is expected: {error}"))?;
        let overlap = asked.overlap.map_or(Ok(OVERLAP), |text| {
            let read = Pause::read(&text).map(|Pause(overlap)| overlap);
            read.map_err(|mistake| format!("'overlap': {}: write a duration such as 24h or 0s", mistake.message))
        })?;
        if let Some(hash) = asked.hash {
            return Ok(Self { overlap, hash, secret: None });
        }
        let NewKey { secret, hash } = NewKey::generate().map_err(|error| error.to_string())?;
        Ok(Self { overlap, hash, secret: Some(secret) })
    }
}

/// Deletes a key. Its running requests finish.
async fn delete(Extract(control): Extract<Arc<Control>>, Segment(id): Segment<String>) -> Response {
    let key = id.clone();
    let changed = change(control, key.clone(), move |keys, policy| {
        let at = keys.iter().position(|settings| is(settings, &id)).ok_or_else(|| unknown(&id, policy))?;
        keys.remove(at);
        Ok(Change { what: "deleted", remark: None })
    });
    match changed.await {
        Ok(_) => Json(json!({ "key": key, "deleted": true })).into_response(),
        Err((status, message)) => refuse(status, &message),
    }
}

type Refusal = (StatusCode, String);

/// A change of the keys.
struct Change {
    /// Its name, for the log.
    what: &'static str,
    /// A remark for the operator.
    remark: Option<&'static str>,
}

/// Applies `edit` to the stored keys, checks all of them as they will be in the file, writes them, and serves them. If
/// it fails before, nothing is written. The log names the key `id` and the change. Returns
/// the remark of the change.
async fn change(
    control: Arc<Control>,
    id: String,
    edit: impl FnOnce(&mut Vec<Settings>, &Policy) -> Result<Change, Refusal> + Send + 'static,
) -> Result<Option<&'static str>, Refusal> {
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
        let Change { what, remark } = edit(&mut stored.keys, &policy)?;
        let text = serde_json::to_string_pretty(&stored).map_err(|error| failed(&error))?;
        add(&mut policy, &path, &text).map_err(|problems| {
            (StatusCode::CONFLICT, format!("the keys would not be valid together: {}", lines(&problems)))
        })?;
        let written = private_file::replace(&path, text.as_bytes());
        changing.note_write(Store::Keys, &written);
        written.map_err(io_failed)?;
        let next = changing.discovery.compose(&policy, Some(&changing.app.live.load().snapshot));
        changing.app.replace(next, Cause::Reload).map_err(|error| failed(&error))?;
        changing.discovery.adopt(policy);
        tracing::info!(key = %id, managed_keys = stored.keys.len(), "keys: managed key '{id}' {what}");
        Ok(remark)
    });
    changed.await.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
}

/// Validates the settings of one key against `policy`.
fn check(settings: &Settings, policy: &Policy) -> Result<Key, Refusal> {
    let bad = |message| (StatusCode::BAD_REQUEST, message);
    if settings.iter().any(|(name, value)| name.contains("${") || has_variable(value)) {
        return Err(bad("variables such as ${HOME} are for policy files: send the value itself".to_owned()));
    }
    let text = json!({ "keys": [settings] }).to_string();
    let compiled = compile_managed_keys("the request", &text, policy, true);
    let mut keys = compiled.map_err(|problems| bad(lines(&problems)))?;
    keys.pop().ok_or_else(|| bad("the settings are not those of a key".to_owned()))
}

/// A remark on settings that are valid and hardly meant.
fn remark(key: &Key) -> Option<&'static str> {
    let has_expired = key.expires.is_some_and(|expires| expires <= wall_clock::seconds());
    has_expired.then_some("'expires' is in the past: the key is rejected")
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
