//! Events of `/v1/responses`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    engine_error::{EngineError, ErrorForm},
    event_facts::EventFacts,
    json::word,
};
use signalbox_types::Usage;

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
    usage: Option<RawUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The `usage` object of a response.
#[derive(Deserialize)]
pub(super) struct RawUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Self {
        Self {
            prompt_tokens: raw.input_tokens.unwrap_or(0),
            cached_tokens: raw.input_tokens_details.and_then(|details| details.cached_tokens),
            completion_tokens: raw.output_tokens.unwrap_or(0),
            reasoning_tokens: raw.output_tokens_details.and_then(|details| details.reasoning_tokens),
            ..Self::default()
        }
    }
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
        usage: event.response.and_then(|response| response.usage).map(Usage::from),
        finished: done,
        done,
        error,
        ..EventFacts::default()
    })
}
