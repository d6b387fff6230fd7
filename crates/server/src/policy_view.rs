//! `GET /admin/policy`: the policy in force, its file as it is now, and what lies between them. Secrets are masked. And `GET /admin/audit`.

use std::{collections::HashMap, path::Path, sync::Arc};

use axum::{
    Json, Router,
    extract::{Query, State as Extract},
    response::{IntoResponse, Response},
    routing::get,
};
use http::StatusCode;
use serde_json::{Value, json};
use similar::TextDiff;

use super::{Control, keys::refuse};
use signalbox_config::{Config, Problems};
use signalbox_policy::compile;

/// Actions that are listed without `limit`.
const LISTED: usize = 100;

/// Routes of the admin listener.
pub(super) fn routes(control: Arc<Control>) -> Router {
    Router::new().route("/admin/policy", get(policy)).route("/admin/audit", get(audit)).with_state(control)
}

async fn policy(Extract(control): Extract<Arc<Control>>) -> Response {
    // Reads a file, which blocks.
    let view = tokio::task::spawn_blocking(move || {
        let serving = control.app.live.load();
        let policy = &serving.snapshot.policy;
        let path = control.policy_log.file.as_deref();
        json!({
            "path": path.map(|path| path.display().to_string()),
            "hash": policy.hash,
            "text": path.map(|_| &policy.text),
            "loaded_s": control.app.parts.clock.now().seconds_since(serving.since),
            "file": path.map(|path| file(path, &policy.hash, &policy.text)),
            "history": control.policy_log.loads(),
        })
    });
    match view.await {
        Ok(view) => Json(view).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The file as it is now, beside the policy in force with this hash and text.
fn file(path: &Path, hash: &str, text: &str) -> Value {
    let read = Config::load(path);
    let (now, problems) = match &read {
        Ok(config) => (Some((config.hash().to_owned(), config.text().to_owned())), compile(config).err()),
        Err(problems) => (None, Some(problems.clone())),
    };
    // A text that cannot be parsed has its problems alone.
    let shown = now.as_ref().map(|(_, text)| &**text).or_else(|| problems.as_ref().map(Problems::text));
    let changed = now.as_ref().is_none_or(|(now, _)| now != hash);
    let diff = shown.filter(|_| changed).map(|now| {
        TextDiff::from_lines(text, now).unified_diff().context_radius(3).header("in force", "file").to_string()
    });
    json!({
        "hash": now.as_ref().map(|(hash, _)| hash),
        "changed": changed,
        "text": shown.filter(|_| changed),
        "diff": diff,
        "problems": problems.iter().flat_map(Problems::iter).map(|(line, column, problem)| {
            json!({ "line": line, "column": column, "message": problem.message, "help": problem.help })
        }).collect::<Vec<_>>(),
    })
}

/// Actions of operators, newest first: `GET /admin/audit?limit=100`.
async fn audit(Extract(control): Extract<Arc<Control>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    match asked.get("limit").map_or(Ok(LISTED), |limit| limit.parse()) {
        Ok(limit) => Json(json!(control.audit.last(limit))).into_response(),
        Err(_) => refuse(StatusCode::BAD_REQUEST, "'limit' is a number"),
    }
}
