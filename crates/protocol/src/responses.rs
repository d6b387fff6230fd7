//! Events of `/v1/responses`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event_facts::{EventFacts, StreamError};
use signalbox_types::Usage;

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
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
    let token = event.r#type.rsplit('.').next() == Some("delta");
    let done = matches!(event.r#type, "response.completed" | "response.incomplete" | "response.failed");
    let error = match event.r#type {
        "error" => Some(
            event
                .message
                .and_then(StreamError::read)
                .unwrap_or_else(|| StreamError { message: "the engine reported an error".to_owned(), status: None }),
        ),
        "response.failed" => event.response.as_ref().and_then(|response| response.error).and_then(StreamError::read),
        _ => None,
    };
    Ok(EventFacts {
        alive: true,
        token,
        reasoning: token && event.r#type.contains("reasoning"),
        text_bytes: event.delta.filter(|_| token).map_or(0, |delta| delta.get().len().saturating_sub(2)),
        usage: event.response.and_then(|response| response.usage).map(Usage::from),
        finished: done,
        done,
        error,
        ..EventFacts::default()
    })
}
