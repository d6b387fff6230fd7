//! Feedback of callers on answers. `POST /v1/feedback` takes it on any answer, so that routes with tiers and the cache
//! learn from it. `POST /v1/cache/feedback` takes it on answers from the cache alone.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use super::{Serving, auth, parts::Parts};
use signalbox_answers::{self as answers, HitLabel};
use signalbox_prompt::complexity::learn::Verdict;
use signalbox_types::{Fault, Name};

/// Longest part of an id that errors repeat, in characters.
const LONGEST_ID: usize = 128;

/// Possible outcomes, in the order in which errors list them.
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

#[derive(Deserialize)]
struct OfHit<'a> {
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    served: Option<bool>,
}

/// Result of a feedback request.
#[derive(Serialize)]
pub(super) struct FeedbackReply {
    recorded: bool,
    /// True if anything was learned. False if the request involved no choice between tiers, or was judged before.
    learned: bool,
    /// The reason why nothing was learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl FeedbackReply {
    const LEARNED: Self = Self { recorded: true, learned: true, reason: None };

    fn without(reason: &'static str) -> Self {
        Self { recorded: true, learned: false, reason: Some(reason) }
    }
}

/// Records feedback on an answer.
pub(super) fn record_feedback(
    serving: &Serving,
    parts: &Parts,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<FeedbackReply, Fault> {
    let caller = caller(serving, headers)?;
    let word: Word<'_> = read(body, r#"{"request_id": "…", "outcome": "ok"}"#)?;
    let id = named(word.request_id.as_deref())?;
    let verdict = OUTCOMES.iter().find(|(name, _)| word.outcome.as_deref() == Some(name)).map(|(_, verdict)| *verdict);
    let Some(verdict) = verdict else {
        let names = OUTCOMES.map(|(name, _)| format!("'{name}'")).join(", ");
        return Err(Fault::field("outcome", format!("'outcome' is one of {names}")));
    };
    let served = matches!(verdict, Verdict::Ok | Verdict::Overprovisioned);
    let learned = judge(serving, parts, id, caller.as_ref(), served)
        || parts.learning.tiers.feedback(id, caller.as_ref(), verdict);
    if learned {
        return Ok(FeedbackReply::LEARNED);
    }
    match parts.decisions.find_of(id, caller.as_ref()) {
        Some(_) => Ok(FeedbackReply::without("the request involved no choice between tiers, or was judged before")),
        None => Err(unknown(id)),
    }
}

/// Records feedback on an answer from the cache.
pub(super) fn record_hit_feedback(
    serving: &Serving,
    parts: &Parts,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<FeedbackReply, Fault> {
    let caller = caller(serving, headers)?;
    let word: OfHit<'_> = read(body, r#"{"request_id": "…", "served": false}"#)?;
    let id = named(word.request_id.as_deref())?;
    let Some(served) = word.served else {
        return Err(Fault::field(
            "served",
            "'served' is missing: true where the answer was one to the question, else false",
        ));
    };
    if judge(serving, parts, id, caller.as_ref(), served) {
        return Ok(FeedbackReply::LEARNED);
    }
    let line = parts.decisions.find_of(id, caller.as_ref()).ok_or_else(|| unknown(id))?;
    // Hits of equal requests leave nothing to learn, and a hit is judged only once.
    if line.cache.as_ref().is_some_and(|reused| reused.result.starts_with("hit")) {
        return Ok(FeedbackReply::without("the hit was one of an equal request, or was judged before"));
    }
    let message =
        format!("the answer to '{}' did not come from the cache: 'POST /v1/feedback' takes a word on it", shown(id));
    Err(Fault::field("request_id", message).with_code("not_a_hit"))
}

/// Learns whether a semantic hit served its caller. Returns false if no such hit is remembered under this id.
fn judge(serving: &Serving, parts: &Parts, id: &str, caller: Option<&Name>, served: bool) -> bool {
    let Some(judged) = parts.answers.local.semantic.take_hit(id, caller) else { return false };
    let semantic = serving.snapshot.policy.caching.as_ref().and_then(|caching| caching.semantic);
    let scope = semantic.map(|semantic| semantic.scope).unwrap_or_default();
    answers::record_label(&parts.answers, &judged, HitLabel::by(caller, scope, served), true);
    true
}

fn caller(serving: &Serving, headers: &HeaderMap) -> Result<Option<Name>, Fault> {
    let keys = &serving.snapshot.policy.keys;
    Ok(auth::check(serving, headers)?.map(|at| keys[at].id.clone()))
}

fn read<'a, T: Deserialize<'a>>(body: &'a Bytes, example: &str) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body is not feedback ({error}): send {example}, the id from 'x-signalbox-id'");
        Fault::client(StatusCode::BAD_REQUEST, "bad_json", message).with_code("invalid_json")
    })
}

fn named(id: Option<&str>) -> Result<&str, Fault> {
    id.ok_or_else(|| Fault::field("request_id", "'request_id' is missing: it is the answer's 'x-signalbox-id'"))
}

fn shown(id: &str) -> String {
    id.chars().take(LONGEST_ID).collect()
}

fn unknown(id: &str) -> Fault {
    let message =
        format!("no request '{}' of yours is remembered: feedback is taken for the last few thousand", shown(id));
    Fault {
        param: Some("request_id".into()),
        ..Fault::client(StatusCode::NOT_FOUND, "unknown_request", message).with_code("request_not_found")
    }
}
