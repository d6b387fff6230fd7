//! What operators ask about callers: how keys and teams stand, that one is let in no longer or again, what was used, and how their prompts begin.

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
use crate::quota::{Entry, Row, Used};

/// The routes for the admin listener.
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
    let (desk, serving) = (&control.house.desk, control.house.live.load());
    let keys = desk.accounting.callers.keys(&serving.snapshot.policy, desk.clock.now());
    Json(json!({ "keys": keys, "teams": desk.accounting.callers.teams() })).into_response()
}

/// How callers' prompts begin, and what to do where they depart early.
async fn prompt_cache(Extract(control): Extract<Arc<Control>>) -> Response {
    let (desk, serving) = (&control.house.desk, control.house.live.load());
    Json(json!({ "callers": desk.accounting.prefix_stability.report(&serving.snapshot.policy) })).into_response()
}

async fn revoke(control: Extract<Arc<Control>>, id: Path<String>) -> Response {
    change(control, id, true).await
}

async fn restore(control: Extract<Arc<Control>>, id: Path<String>) -> Response {
    change(control, id, false).await
}

async fn change(Extract(control): Extract<Arc<Control>>, Path(id): Path<String>, revoked: bool) -> Response {
    // A reload meanwhile might bring another key of this name.
    let _alone = control.reloading.lock().await;
    let serving = control.house.live.load();
    let policy = &serving.snapshot.policy;
    let callers = &control.house.desk.accounting.callers;
    let done = if revoked { callers.revoke(policy, &id) } else { callers.restore(policy, &id) };
    if !done {
        let what = if revoked { "in the policy" } else { "that was revoked" };
        return refuse(StatusCode::NOT_FOUND, &format!("there is no key '{id}' {what}: GET /admin/keys lists them"));
    }
    tracing::warn!(key = id, revoked, "a key was {}", if revoked { "revoked" } else { "let in again" });
    let writing = control.clone();
    // On disk before it is told, where it is kept.
    let _ = tokio::task::spawn_blocking(move || writing.house.write_usage()).await;
    Json(json!({ "key": id, "revoked": revoked, "kept": callers.is_persistent() })).into_response()
}

/// What was used: `GET /admin/usage?format=jsonl|csv&from=DAY&to=DAY&key=ID&team=NAME`, days in UTC, both included.
async fn usage(Extract(control): Extract<Arc<Control>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    const KNOWN: [&str; 5] = ["format", "from", "to", "key", "team"];
    if let Some(odd) = asked.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return refuse(StatusCode::BAD_REQUEST, &format!("there is no '{odd}': there are {}", KNOWN.join(", ")));
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
    let rows = control.house.desk.accounting.callers.book.rows(wanted);
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

/// A cell as RFC 4180 has it. Spreadsheets run what begins like a formula, and clients name models as they like.
fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn refuse(status: StatusCode, message: &str) -> Response {
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
