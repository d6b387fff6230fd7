//! A complete answer as it is cached, and the conditions for caching it.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::UsageReport;
use signalbox_types::{Endpoint, Usage};

/// The members of a delta or a choice whose texts are streamed piece by piece, in replay order.
pub(super) const TEXTS: [&str; 5] = ["reasoning_content", "reasoning", "refusal", "content", "text"];

/// A complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    pub(super) endpoint: Endpoint,
    /// The whole answer as JSON. Its usage reports the whole prompt as cached.
    whole: Bytes,
    /// Token counts as reported by the engine.
    usage: Option<Usage>,
    /// The pieces in which its texts arrived, if recorded.
    pub(super) pieces: Box<[Piece]>,
}

/// A piece of text as it arrived.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Indices of its choice and of its member in [`TEXTS`].
    pub(super) choice: u32,
    pub(super) text: u8,
    /// Length in bytes.
    pub(super) length: u32,
    /// Microseconds since the previous piece.
    pub(super) pause: u32,
}

/// The reason why an answer is not cached.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Uncacheable {
    /// It broke off or reported an error.
    Unfinished,
    /// Its finish reason is not `stop`.
    FinishReason,
    /// The model refused.
    Refused,
    /// It calls tools.
    Calls,
    /// It says nothing, or no more than its reasoning.
    Empty,
    /// It is longer than the limit.
    TooLarge,
    /// Its shape is unknown.
    Unreadable,
}

impl Uncacheable {
    /// A low-cardinality word for metric labels.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::FinishReason => "finish_reason",
            Self::Refused => "refused",
            Self::Calls => "tool_calls",
            Self::Empty => "empty",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Transcript {
    /// An answer received whole, if it is complete and its JSON no longer than `largest` bytes.
    ///
    /// # Errors
    /// [`Uncacheable`] if it must not be replayed.
    pub fn of_whole(endpoint: Endpoint, body: &[u8], largest: usize) -> Result<Self, Uncacheable> {
        if body.len() > largest {
            return Err(Uncacheable::TooLarge);
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(answer)) => Self::of(endpoint, answer, largest),
            _ => Err(Uncacheable::Unreadable),
        }
    }

    pub(super) fn of(endpoint: Endpoint, mut answer: Map<String, Value>, largest: usize) -> Result<Self, Uncacheable> {
        if answer.get("error").is_some_and(says_something) {
            return Err(Uncacheable::Unfinished);
        }
        let choices = answer.get("choices").and_then(Value::as_array).ok_or(Uncacheable::Unreadable)?;
        if choices.is_empty() {
            return Err(Uncacheable::Unreadable);
        }
        let said = if endpoint == Endpoint::Chat { "message" } else { "text" };
        for choice in choices {
            if choice.get("error").is_some_and(says_something) {
                return Err(Uncacheable::Unfinished);
            }
            if choice["finish_reason"] != "stop" {
                return Err(if choice["finish_reason"].is_null() {
                    Uncacheable::Unfinished
                } else {
                    Uncacheable::FinishReason
                });
            }
            if !(choice[said].is_object() || choice[said].is_string()) {
                return Err(Uncacheable::Unreadable);
            }
            if choice[said].get("refusal").is_some_and(says_something) {
                return Err(Uncacheable::Refused);
            }
            // Under `stop`, too: as OpenAI's API ends calls of a named `tool_choice`.
            if ["tool_calls", "function_call"].iter().any(|calls| choice[said].get(calls).is_some_and(says_something)) {
                return Err(Uncacheable::Calls);
            }
            if !answers(&choice[said]) {
                return Err(Uncacheable::Empty);
            }
        }
        let usage = answer.get_mut("usage").and_then(mark_cached);
        let whole = serde_json::to_vec(&answer).map_err(|_| Uncacheable::Unreadable)?;
        if whole.len() > largest {
            return Err(Uncacheable::TooLarge);
        }
        Ok(Self { endpoint, whole: whole.into(), usage, pieces: Box::default() })
    }

    /// An answer restored from storage.
    pub(super) fn restored(endpoint: Endpoint, whole: Bytes, usage: Option<Usage>, pieces: Box<[Piece]>) -> Self {
        Self { endpoint, whole, usage, pieces }
    }

    /// The endpoint that produced it.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// The whole answer as JSON. Its usage reports the whole prompt as cached.
    pub fn whole(&self) -> &Bytes {
        &self.whole
    }

    /// Token counts as reported by the engine.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Its size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.whole.len() + size_of_val(&*self.pieces) + size_of::<Self>()
    }
}

/// The tool calls of a message.
pub(super) fn calls(message: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    calls.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Reads the token counts, and rewrites them to report the whole prompt as cached.
fn mark_cached(usage: &mut Value) -> Option<Usage> {
    let report = UsageReport::read(&usage.to_string())?;
    let (prompt_tokens, read) = (report.prompt()?, report.usage()?);
    let details = usage.as_object_mut()?.entry("prompt_tokens_details").or_insert(Value::Null);
    if !details.is_object() {
        *details = json!({});
    }
    details["cached_tokens"] = prompt_tokens.into();
    Some(read)
}

/// True if a message, or the text of a completion, has something for its reader beside reasoning.
fn answers(said: &Value) -> bool {
    let speaks = |text: &str| {
        let text = text.trim_start();
        let visible = match text.strip_prefix("<think>") {
            Some(thought) => thought.split_once("</think>").map_or("", |(_, answer)| answer),
            None => text,
        };
        !visible.trim().is_empty()
    };
    match said {
        Value::String(text) => speaks(text),
        said => {
            said["content"].as_str().map_or_else(|| says_something(&said["content"]), speaks)
                || ["audio", "images"].iter().any(|other| said.get(other).is_some_and(says_something))
        }
    }
}

pub(super) fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}
