//! `POST /v1/feedback`: what a caller says of an answer, for routes with tiers to learn from.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use super::{Desk, Serving, auth, lessons::Heard, meaning};
use crate::{cache::evidence::Source, prompt::complexity::learn::Verdict, types::Fault};

/// What is shown of an id, in characters.
const LONGEST_ID: usize = 128;

/// Words that an outcome can be, in the order they are told.
const OUTCOMES: [(&str, Verdict); 4] = [
    ("ok", Verdict::Ok),
    ("underpowered", Verdict::Underpowered),
    ("overprovisioned", Verdict::Overprovisioned),
    ("failed", Verdict::Failed),
];

#[derive(Deserialize)]
struct Word<'a> {
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
}

/// What became of it.
#[derive(Serialize)]
pub(super) struct Recorded {
    recorded: bool,
    /// Whether weights are learned from it; not where no choice between tiers was made.
    learned: bool,
}

/// Takes a word on an answer.
pub(super) fn hear(serving: &Serving, desk: &Desk, headers: &HeaderMap, body: &Bytes) -> Result<Recorded, Fault> {
    let keys = &serving.snapshot.policy.keys;
    let caller = auth::check(keys, headers)?.map(|at| keys[at].id.clone());
    let word: Word<'_> = serde_json::from_slice(body).map_err(|error| {
        let message = format!(
            "the body is not feedback ({error}): send {{\"request_id\": \"…\", \"outcome\": \"ok\"}}, the id from 'x-signalbox-id'"
        );
        Fault::client(StatusCode::BAD_REQUEST, "bad_json", message).with_code("invalid_json")
    })?;
    let Some(id) = word.request_id.as_deref() else {
        return Err(Fault::field("request_id", "'request_id' is missing: it is the answer's 'x-signalbox-id'"));
    };
    let verdict = OUTCOMES.iter().find(|(name, _)| word.outcome.as_deref() == Some(name)).map(|(_, verdict)| *verdict);
    let Some(verdict) = verdict else {
        let names = OUTCOMES.map(|(name, _)| format!("'{name}'")).join(", ");
        return Err(Fault::field("outcome", format!("'outcome' is one of {names}")));
    };
    if let Some(judged) = desk.meanings.judged(id, caller.as_ref()) {
        let right = matches!(verdict, Verdict::Ok | Verdict::Overprovisioned);
        meaning::learn(desk, &judged, right, Source::Feedback, true);
        return Ok(Recorded { recorded: true, learned: true });
    }
    let known = desk.find(id).is_some_and(|line| line.key == caller);
    match desk.lessons.feedback(id, caller.as_ref(), verdict) {
        Heard::Learned => Ok(Recorded { recorded: true, learned: true }),
        Heard::Noted if known => Ok(Recorded { recorded: true, learned: false }),
        Heard::Noted | Heard::Unknown => {
            let id: String = id.chars().take(LONGEST_ID).collect();
            let message =
                format!("no request '{id}' of yours is remembered: feedback is taken for the last few thousand");
            Err(Fault {
                param: Some("request_id".into()),
                ..Fault::client(StatusCode::NOT_FOUND, "unknown_request", message).with_code("request_not_found")
            })
        }
    }
}
