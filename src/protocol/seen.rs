//! What an event of a streamed answer may say, whichever API it is of.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json;
use crate::types::Usage;

/// What one event of a stream says.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate thing that an event may say, in any combination")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// It carries content, reasoning or a tool call: the answer has begun.
    pub token: bool,
    /// Some of that is reasoning, shown as it comes.
    pub reasoning: bool,
    /// It is a sign of life: anything but a keep-alive.
    pub alive: bool,
    /// Bytes of text that it carries.
    pub text_bytes: usize,
    /// Where the text of the only choice stands in its data, as a JSON string, where that is all it carries.
    pub text_at: Option<Range<usize>>,
    /// Token counts that it reports.
    pub usage: Option<Usage>,
    /// It carries usage and nothing else, so that a client which did not ask for it need not see it.
    pub only_usage: bool,
    /// The answer, or one of its choices, is complete as to its content (a finish reason was given).
    pub finished: bool,
    /// The choices that it speaks of, a bit for each index.
    pub choices: u64,
    /// Those of them that it finishes.
    pub finished_choices: u64,
    /// The stream is at its end.
    pub done: bool,
    /// It reports an error.
    pub error: Option<StreamError>,
    /// Its data is not JSON, so that no client could read it.
    pub broken: bool,
}

/// An error that an engine reports within a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// What it says.
    pub message: String,
    /// The HTTP status that it names as its code, where it does.
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
