//! The facts read from one event of a streamed answer, for every API.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json;
use signalbox_types::Usage;

/// The facts read from one event of a stream.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate thing that an event may say, in any combination")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFacts {
    /// It carries content, reasoning or a tool call: the answer has begun.
    pub token: bool,
    /// Part of that is visible reasoning.
    pub reasoning: bool,
    /// It is a sign of life: anything but a keep-alive.
    pub alive: bool,
    /// Bytes of text in it.
    pub text_bytes: usize,
    /// The range in its data of the only choice's text, as a JSON string, if the event carries nothing else.
    pub text_at: Option<Range<usize>>,
    /// Token counts that it reports.
    pub usage: Option<Usage>,
    /// It carries only usage, so it is hidden from a client that did not request usage.
    pub only_usage: bool,
    /// The answer, or one of its choices, has its complete content (a finish reason was given).
    pub finished: bool,
    /// The choices in it, one bit per index.
    pub choices: u64,
    /// The choices that it finishes, one bit per index.
    pub finished_choices: u64,
    /// It ends the stream.
    pub done: bool,
    /// It reports an error.
    pub error: Option<StreamError>,
    /// Its data is not JSON, so no client could read it.
    pub broken: bool,
}

/// An error that an engine reports within a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The error message.
    pub message: String,
    /// The HTTP status that the error gives as its code, if any.
    pub status: Option<u16>,
}

impl StreamError {
    /// Reads an error object in any of the shapes that engines use.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object<'a> {
            message: Option<String>,
            #[serde(borrow)]
            code: Option<&'a RawValue>,
        }
        if !json::says_something(raw) {
            return None;
        }
        let object = serde_json::from_str::<Object<'_>>(raw.get()).ok();
        let status = object.as_ref().and_then(|object| object.code?.get().trim_matches('"').parse().ok());
        let message = object.and_then(|object| object.message);
        Some(Self { message: message.unwrap_or_else(|| raw.get().chars().take(200).collect()), status })
    }
}
