//! A complete answer as it is kept, and what makes an answer fit to be kept.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::types::{Endpoint, Usage};

/// The members of a delta or a choice whose texts are streamed bit by bit, in the order in which they are given again.
pub(super) const TEXTS: [&str; 5] = ["reasoning_content", "reasoning", "refusal", "content", "text"];

/// A complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    pub(super) endpoint: Endpoint,
    /// The whole answer as JSON. Its usage says that the whole prompt was cached.
    whole: Bytes,
    /// Token counts as the engine gave them.
    usage: Option<Usage>,
    /// How its texts came, where that was asked for.
    pub(super) pieces: Box<[Piece]>,
}

/// A bit of text as it came.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Place of its choice, and of its member in [`TEXTS`].
    pub(super) choice: u32,
    pub(super) text: u8,
    /// In bytes.
    pub(super) length: u32,
    /// Microseconds since the piece before.
    pub(super) pause: u32,
}

/// Why an answer is not kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// It broke off, or reported an error.
    Unfinished,
    /// It ended for another reason than that the model was done.
    FinishReason,
    /// The model declined.
    Refused,
    /// It is longer than the limit.
    TooLarge,
    /// It has a form that is not known.
    Unreadable,
}

impl Unkept {
    /// A word of low cardinality, for metric labels.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::FinishReason => "finish_reason",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Transcript {
    /// An answer that came whole, if it is complete and its JSON no longer than `largest` bytes.
    ///
    /// # Errors
    /// [`Unkept`] where it is not to be given again.
    pub fn of_whole(endpoint: Endpoint, body: &[u8], largest: usize) -> Result<Self, Unkept> {
        if body.len() > largest {
            return Err(Unkept::TooLarge);
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(answer)) => Self::of(endpoint, answer, largest),
            _ => Err(Unkept::Unreadable),
        }
    }

    pub(super) fn of(endpoint: Endpoint, mut answer: Map<String, Value>, largest: usize) -> Result<Self, Unkept> {
        if answer.get("error").is_some_and(says_something) {
            return Err(Unkept::Unfinished);
        }
        let choices = answer.get("choices").and_then(Value::as_array).ok_or(Unkept::Unreadable)?;
        if choices.is_empty() {
            return Err(Unkept::Unreadable);
        }
        let said = if endpoint == Endpoint::Chat { "message" } else { "text" };
        for choice in choices {
            if choice["finish_reason"] != "stop" {
                return Err(if choice["finish_reason"].is_null() { Unkept::Unfinished } else { Unkept::FinishReason });
            }
            if !(choice[said].is_object() || choice[said].is_string()) {
                return Err(Unkept::Unreadable);
            }
            if choice[said].get("refusal").is_some_and(says_something) {
                return Err(Unkept::Refused);
            }
        }
        let usage = answer.get_mut("usage").and_then(cached);
        let whole = serde_json::to_vec(&answer).map_err(|_| Unkept::Unreadable)?;
        if whole.len() > largest {
            return Err(Unkept::TooLarge);
        }
        Ok(Self { endpoint, whole: whole.into(), usage, pieces: Box::default() })
    }

    /// One that was kept.
    pub(super) fn of_kept(endpoint: Endpoint, whole: Bytes, usage: Option<Usage>, pieces: Box<[Piece]>) -> Self {
        Self { endpoint, whole, usage, pieces }
    }

    /// The endpoint that gave it.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// The whole answer as JSON. Its usage says that the whole prompt was cached.
    pub fn whole(&self) -> &Bytes {
        &self.whole
    }

    /// Token counts as the engine gave them.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// What it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.whole.len() + size_of_val(&*self.pieces) + size_of::<Self>()
    }
}

/// The tool calls of a message.
pub(super) fn calls(message: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    calls.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Reads token counts, and makes them say that the whole prompt was cached.
fn cached(usage: &mut Value) -> Option<Usage> {
    let count = |usage: &Value, path: &str| usage.pointer(path).and_then(Value::as_u64);
    let prompt_tokens = count(usage, "/prompt_tokens")?;
    let read = Usage {
        prompt_tokens,
        cached_tokens: count(usage, "/prompt_tokens_details/cached_tokens"),
        completion_tokens: count(usage, "/completion_tokens").unwrap_or(0),
        reasoning_tokens: count(usage, "/completion_tokens_details/reasoning_tokens"),
    };
    let details = usage.as_object_mut()?.entry("prompt_tokens_details").or_insert(Value::Null);
    if !details.is_object() {
        *details = json!({});
    }
    details["cached_tokens"] = prompt_tokens.into();
    Some(read)
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
