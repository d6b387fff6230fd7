//! What an event of a streamed answer may say, whichever API it is of.

use serde::Deserialize;

use super::json;
use crate::types::Usage;

/// What one event of a stream says.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate thing that an event may say, in any combination")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// It carries content, reasoning or a tool call: the answer has begun.
    pub token: bool,
    /// Bytes of text that it carries.
    pub text_bytes: usize,
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
    /// It reports an error, with this message.
    pub error: Option<String>,
    /// Its data is not JSON, so that no client could read it.
    pub broken: bool,
}

/// The message of an error object in any of the shapes that engines use.
pub(super) fn error_message(raw: &serde_json::value::RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Object {
        message: Option<String>,
    }
    if !json::says_something(raw) {
        return None;
    }
    let message = serde_json::from_str::<Object>(raw.get()).ok().and_then(|object| object.message);
    Some(message.unwrap_or_else(|| raw.get().chars().take(200).collect()))
}
