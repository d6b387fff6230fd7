//! Admin API for callers: standing of keys and teams, revocation, usage, and the stability of prompt prefixes.

use std::{collections::HashMap, fmt::Write, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Query, State as Extract},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{StatusCode, header};
use serde_json::json;

use super::Control;
use signalbox_quota::{Entry, Row, Used};

/// Routes of the admin listener.
pub(super) fn routes(control: Arc<Control>) -> Router {
    Router::new()
        .route("/admin/keys", get(keys))
        .route("/admin/keys/{id}/revoke", post(revoke))
        .route("/admin/keys/{id}/restore", post(restore))
        .route("/admin/usage", get(usage))
        .route("/admin/prompt-cache", get(prompt_cache))
        .with_state(control)
}

async fn keys(Extract(control): Extract<Arc<Control>>) -> Response {
    let (parts, serving) = (&control.app.parts, control.app.live.load());
    let policy = &serving.snapshot.policy;
    let (keys, teams) = (parts.accounting.callers.keys(policy, parts.clock.now()), parts.accounting.callers.teams());
    Json(json!({ "keys": keys, "teams": teams, "required": policy.asks_keys() })).into_response()
}

/// Stability of each caller's prompt prefixes, with advice where they diverge early.
async fn prompt_cache(Extract(control): Extract<Arc<Control>>) -> Response {
    let (parts, serving) = (&control.app.parts, control.app.live.load());
    Json(json!({ "callers": parts.accounting.prefix_stability.report(&serving.snapshot.policy) })).into_response()
}

async fn revoke(control: Extract<Arc<Control>>, id: Path<String>) -> Response {
    change(control, id, true).await
}

async fn restore(control: Extract<Arc<Control>>, id: Path<String>) -> Response {
    change(control, id, false).await
}

async fn change(Extract(control): Extract<Arc<Control>>, Path(id): Path<String>, revoked: bool) -> Response {
    // A concurrent reload might bring another key with this id.
    let _alone = control.reloading.lock().await;
    let serving = control.app.live.load();
    let policy = &serving.snapshot.policy;
    let callers = &control.app.parts.accounting.callers;
    let done = if revoked { callers.revoke(policy, &id) } else { callers.restore(policy, &id) };
    if !done {
        let what = if revoked { "in the policy" } else { "that was revoked" };
        return refuse(StatusCode::NOT_FOUND, &format!("there is no key '{id}' {what}: GET /admin/keys lists them"));
    }
    tracing::info!(key = id, revoked, "keys: key '{id}' {}", if revoked { "revoked" } else { "restored" });
    let writing = control.clone();
    // Written before the answer, where usage is kept on disk.
    let written = tokio::task::spawn_blocking(move || writing.app.write_revocations()).await;
    match written.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        Ok(kept) => Json(json!({ "key": id, "revoked": revoked, "kept": kept })).into_response(),
        Err(error) => {
            let remark = format!(
                "in force on this gateway until it restarts, since it could not be written: {error} (usage.path); it will be when \
                 writing works again"
            );
            Json(json!({ "key": id, "revoked": revoked, "kept": false, "remark": remark })).into_response()
        }
    }
}

/// Exports usage: `GET /admin/usage?format=jsonl|csv&from=DAY&to=DAY&key=ID&team=NAME`. Days are in UTC and inclusive.
async fn usage(Extract(control): Extract<Arc<Control>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    const KNOWN: [&str; 5] = ["format", "from", "to", "key", "team"];
    if let Some(odd) = asked.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return refuse(StatusCode::BAD_REQUEST, &format!("unknown parameter '{odd}': expected {}", KNOWN.join(", ")));
    }
    for name in ["from", "to"] {
        if asked.get(name).is_some_and(|day| day.parse::<jiff::civil::Date>().is_err()) {
            return refuse(StatusCode::BAD_REQUEST, &format!("'{name}' is a day such as 2026-11-21"));
        }
    }
    let is = |name: &str, value: &str| asked.get(name).is_none_or(|wanted| wanted == value);
    let wanted = |entry: &Entry| {
        let day = entry.day.to_string();
        asked.get("from").is_none_or(|from| *from <= day)
            && asked.get("to").is_none_or(|to| day <= *to)
            && is("key", &entry.key)
            && is("team", &entry.team)
    };
    let rows = control.app.parts.accounting.callers.book.rows(wanted);
    match asked.get("format").map(String::as_str) {
        None | Some("jsonl") => ([(header::CONTENT_TYPE, "application/x-ndjson")], jsonl(&rows)).into_response(),
        Some("csv") => ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv(&rows)).into_response(),
        Some(_) => refuse(StatusCode::BAD_REQUEST, "'format' is jsonl or csv"),
    }
}

fn jsonl(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        text += &serde_json::to_string(row).unwrap_or_default();
        text.push('\n');
    }
    text
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "day,key,team,model,served,requests,failed,reused,prompt_tokens,cached_tokens,completion_tokens,estimated_tokens,cost_usd\n",
    );
    for Row { entry: Entry { day, key, team, model, served }, used } in rows {
        let [day, key, team, model, served] = [day, key, team, model, served].map(|name| cell(name));
        let Used {
            requests,
            failed,
            reused,
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            estimated_tokens,
            cost_usd,
        } = used;
        let _ = writeln!(
            text,
            "{day},{key},{team},{model},{served},{requests},{failed},{reused},{prompt_tokens},{cached_tokens},\
             {completion_tokens},{estimated_tokens},{cost_usd}"
        );
    }
    text
}

/// Escapes a cell after RFC 4180. A quote defuses formulas, since spreadsheets run them and clients choose model names.
fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

pub(super) fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": { "message": message } }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_what_clients_name() {
        assert_eq!([cell("gpt-4o"), cell("a,b"), cell("a\"b")], ["gpt-4o", "\"a,b\"", "\"a\"\"b\""]);
        assert_eq!(cell("=1+1"), "'=1+1");
    }
}
