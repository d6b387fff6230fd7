//! Events of `/v1/responses`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    engine_error::{EngineError, ErrorForm},
    event_facts::EventFacts,
    json::word,
    usage,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

pub(super) fn read_event(data: &[u8]) -> Result<EventFacts, serde_json::Error> {
    let event: Event<'_> = serde_json::from_slice(data)?;
    let kind = word(event.r#type);
    let token = kind.rsplit('.').next() == Some("delta");
    let done = matches!(kind, "response.completed" | "response.incomplete" | "response.failed");
    let error = match kind {
        "error" if event.error.or(event.message).is_some() => {
            // The API itself puts the members of the error beside its type, and others an object.
            let error =
                event.message.and_then(EngineError::of_member).or_else(|| event.error.and_then(EngineError::of_member));
            error.map(|error| EngineError { form: ErrorForm::Usual, ..error })
        }
        "error" => Some(EngineError::of_named_event(data)),
        "response.failed" => {
            let error = event.response.as_ref().and_then(|response| response.error).and_then(EngineError::of_member);
            error.map(|error| EngineError { form: ErrorForm::Usual, ..error })
        }
        "" => {
            event.error.and_then(EngineError::of_member).map(|error| EngineError { form: ErrorForm::Unusual, ..error })
        }
        _ => None,
    };
    Ok(EventFacts {
        alive: true,
        token,
        reasoning: token && kind.contains("reasoning"),
        text_bytes: event.delta.filter(|_| token).map_or(0, |delta| delta.get().len().saturating_sub(2)),
        usage: event.response.and_then(|response| response.usage).and_then(usage::of_text),
        finished: done,
        done,
        error,
        ..EventFacts::default()
    })
}
