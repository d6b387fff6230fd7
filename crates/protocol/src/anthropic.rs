//! Events of `/v1/messages`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    engine_error::EngineError,
    event_facts::EventFacts,
    json::{says_something, word},
};
use signalbox_types::Usage;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    message: Option<Message>,
    usage: Option<RawUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message {
    usage: Option<RawUsage>,
}

/// The `usage` object of a message. Tokens read from and written to the prompt cache are counted beside `input_tokens`.
#[expect(clippy::struct_field_names, reason = "the API's own names")]
#[derive(Deserialize)]
pub(super) struct RawUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Self {
        let cached = raw.cache_read_input_tokens;
        Self {
            prompt_tokens: raw
                .input_tokens
                .unwrap_or(0)
                .saturating_add(cached.unwrap_or(0))
                .saturating_add(raw.cache_creation_input_tokens.unwrap_or(0)),
            cached_tokens: cached,
            completion_tokens: raw.output_tokens.unwrap_or(0),
            cache_written_tokens: raw.cache_creation_input_tokens,
            ..Self::default()
        }
    }
}

/// The part of a delta that says why the answer ends.
#[derive(Deserialize)]
struct Ending<'a> {
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
}

pub(super) fn read_event(data: &[u8]) -> Result<EventFacts, serde_json::Error> {
    let event: Event<'_> = serde_json::from_slice(data)?;
    let kind = word(event.r#type);
    let token = kind == "content_block_delta";
    let done = kind == "message_stop";
    let ends = kind == "message_delta" && event.delta.is_some_and(ends);
    let usage = event.usage.or_else(|| event.message.and_then(|message| message.usage));
    Ok(EventFacts {
        alive: kind != "ping",
        token,
        text_bytes: event.delta.filter(|_| token).map_or(0, |delta| delta.get().len()),
        usage: usage.map(Usage::from),
        finished: done || ends,
        done,
        error: event.error.and_then(EngineError::of_member),
        ..EventFacts::default()
    })
}

/// True if a delta of the message gives the reason for its end: its content is complete.
fn ends(delta: &RawValue) -> bool {
    serde_json::from_str::<Ending<'_>>(delta.get()).is_ok_and(|ending| ending.stop_reason.is_some_and(says_something))
}
