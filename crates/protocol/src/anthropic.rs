//! Events of `/v1/messages`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    engine_error::{EngineError, ErrorForm},
    event_facts::EventFacts,
    json::{says_something, word},
    usage,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
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
        usage: usage.and_then(usage::of_text),
        finished: done || ends,
        done,
        error: event.error.and_then(EngineError::of_member).map(|error| match kind {
            "error" => error,
            _ => EngineError { form: ErrorForm::Unusual, ..error },
        }),
        ..EventFacts::default()
    })
}

/// True if a delta of the message gives the reason for its end: its content is complete.
fn ends(delta: &RawValue) -> bool {
    serde_json::from_str::<Ending<'_>>(delta.get()).is_ok_and(|ending| ending.stop_reason.is_some_and(says_something))
}
