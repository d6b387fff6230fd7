//! Admin API of the remembered decisions: the last ones, a search, and one by its id.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Query, State as Extract},
    response::{IntoResponse, Response},
    routing::get,
};
use http::StatusCode;
use serde_json::json;

use super::{Control, keys::refuse, state::DecisionState};
use signalbox_journal::{JournalEntry, REMEMBERED};

/// Decisions in an answer without `limit`, and most with it.
const LISTED: (usize, usize) = (100, 1000);
/// Known parameters.
const KNOWN: [&str; 12] =
    ["q", "key", "model", "route", "pool", "backend", "reason", "cache", "outcome", "min_ms", "before", "limit"];

/// Routes of the admin listener.
pub(super) fn routes(control: Arc<Control>) -> Router {
    Router::new()
        .route("/admin/decisions", get(decisions))
        .route("/admin/decisions/{id}", get(decision))
        .with_state(control)
}

/// The last decisions; with parameters, those that match them all, newest first.
async fn decisions(Extract(control): Extract<Arc<Control>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    if asked.is_empty() {
        let last = control.app.parts.decisions.last(LISTED.0);
        return Json(last.iter().map(|line| &**line).collect::<Vec<_>>()).into_response();
    }
    let search = match Search::of(asked) {
        Ok(search) => search,
        Err(problem) => return refuse(StatusCode::BAD_REQUEST, &problem),
    };
    // Visits every decision.
    let found = tokio::task::spawn_blocking(move || search.run(&control.app.parts.decisions.last(REMEMBERED)));
    match found.await {
        Ok((decisions, more)) => Json(json!({ "decisions": decisions, "more": more })).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn decision(Extract(control): Extract<Arc<Control>>, Path(id): Path<String>) -> Response {
    let Some(line) = control.app.parts.decisions.find(&id) else {
        let message = format!("decision '{id}' is not among the last {REMEMBERED}, which are kept");
        return refuse(StatusCode::NOT_FOUND, &message);
    };
    Json(&*line).into_response()
}

/// Wanted decisions.
struct Search {
    /// Words that all have to occur, in lower case.
    words: Vec<String>,
    /// Exact values by the name of their parameter.
    values: HashMap<String, String>,
    min_ms: f64,
    before: Option<String>,
    limit: usize,
}

impl Search {
    fn of(mut asked: HashMap<String, String>) -> Result<Self, String> {
        if let Some(odd) = asked.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(format!("unknown parameter '{odd}': expected {}", KNOWN.join(", ")));
        }
        asked.retain(|_, value| !value.is_empty());
        let mut number = |name: &str, other: f64| match asked.remove(name).map(|text| text.parse::<f64>()) {
            None => Ok(other),
            Some(Ok(number)) if number >= 0.0 => Ok(number),
            Some(_) => Err(format!("'{name}' is a number")),
        };
        let (min_ms, limit) = (number("min_ms", 0.0)?, number("limit", LISTED.0 as f64)?);
        let words = asked.remove("q").unwrap_or_default().to_lowercase();
        Ok(Self {
            words: words.split_whitespace().map(str::to_owned).collect(),
            before: asked.remove("before"),
            values: asked,
            min_ms,
            limit: (limit as usize).min(LISTED.1),
        })
    }

    /// The wanted ones of `lines`, the newest of which come first, and whether there are more.
    fn run(&self, lines: &[Arc<JournalEntry>]) -> (Vec<DecisionState>, bool) {
        let after = self.before.as_ref().and_then(|id| lines.iter().position(|line| *line.id == **id));
        let rest = match (&self.before, after) {
            // Forgotten since, and so are all before it.
            (Some(_), None) => &[],
            (_, after) => &lines[after.map_or(0, |at| at + 1)..],
        };
        let wanted = rest.iter().filter(|line| line.e2e_ms >= self.min_ms).map(|line| DecisionState::of(line));
        let mut found: Vec<_> = wanted.filter(|line| self.matches(line)).take(self.limit + 1).collect();
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        (found, more)
    }

    fn matches(&self, line: &DecisionState) -> bool {
        let DecisionState { key, model, route, pool, backend, reason, cache, outcome, .. } = line;
        let fields = [
            ("key", key.as_deref()),
            ("model", model.as_deref()),
            ("route", route.as_deref()),
            ("pool", pool.as_deref()),
            ("backend", backend.as_deref()),
            ("reason", reason.as_deref()),
            ("cache", cache.as_deref()),
            ("outcome", Some(&**outcome)),
        ];
        let is_wanted =
            |(name, value): &(&str, Option<&str>)| self.values.get(*name).is_none_or(|it| Some(&**it) == *value);
        if !fields.iter().all(is_wanted) {
            return false;
        }
        let texts = fields.iter().filter_map(|(_, value)| value.map(str::to_lowercase));
        let texts: Vec<_> = texts.chain([line.id.to_lowercase(), line.status.to_string()]).collect();
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: usize) -> Arc<JournalEntry> {
        let (model, outcome) = (Some(format!("Model-{}", at % 3)), if at.is_multiple_of(2) { "ok" } else { "connect" });
        Arc::new(JournalEntry {
            id: format!("req-{at}").into(),
            model,
            outcome,
            e2e_ms: at as f64 * 10.0,
            ..JournalEntry::default()
        })
    }

    fn found(asked: &[(&str, &str)]) -> (Vec<String>, bool) {
        let lines: Vec<_> = (0..20).rev().map(line).collect();
        let asked = asked.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (found, more) = Search::of(asked).unwrap().run(&lines);
        (found.iter().map(|line| line.id.to_string()).collect(), more)
    }

    #[test]
    fn decisions_are_found_by_words_values_and_pages() {
        assert_eq!(found(&[("q", "model-1 CONNECT"), ("limit", "2")]), (vec!["req-19".into(), "req-13".into()], true));
        assert_eq!(
            found(&[("q", "model-1 connect"), ("before", "req-13")]),
            (vec!["req-7".into(), "req-1".into()], false)
        );
        assert_eq!(found(&[("outcome", "ok"), ("min_ms", "160"), ("model", "")]).0, ["req-18", "req-16"]);
        assert_eq!(found(&[("outcome", "o"), ("limit", "5")]), (vec![], false), "values are whole");
        assert_eq!(found(&[("q", "req-3")]).0, ["req-3"]);
        assert_eq!(found(&[("before", "forgotten")]), (vec![], false));
        for odd in [("pol", "x"), ("min_ms", "soon"), ("limit", "-1")] {
            assert!(Search::of(HashMap::from([(odd.0.to_owned(), odd.1.to_owned())])).is_err(), "{odd:?}");
        }
    }
}
