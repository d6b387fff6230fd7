//! Chunks and answers of `/v1/chat/completions`, as they are read. Text stays raw.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{effort::ReasoningField, raw::says_something};
use crate::translation::{
    first_choice::{self, First},
    json::{filled, inner, is_blank, nested_text},
};

/// A chunk of a stream, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) choices: First<Choice<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// The message of a whole answer. Some providers repeat all text so far in it with every chunk of a stream.
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    /// The stop string that vLLM matched, or the number of the token that ended the answer.
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    /// The same in `SGLang`.
    #[serde(borrow)]
    matched_stop: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<Function<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of content that is a list, the form of Mistral's reasoning models.
#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
}

impl<'a> Chunk<'a> {
    /// The text, if the chunk has nothing else.
    pub(super) fn plain_text(&self) -> Option<&'a str> {
        let choice = self.choices.0.as_ref().filter(|_| self.usage.is_none() && self.error.is_none())?;
        let delta = choice.delta.as_ref().filter(|_| choice.finish().is_none())?;
        let more = [delta.reasoning_content, delta.reasoning, delta.refusal];
        let alone = more.iter().all(Option::is_none) && delta.tool_calls.is_none() && delta.function_call.is_none();
        inner(delta.content.filter(|_| alone)?).filter(|text| !text.is_empty())
    }
}

/// A piece of visible output.
pub(super) enum Piece<'a> {
    Text(&'a str),
    Thinking(&'a str, ReasoningField),
}

impl<'a> Delta<'a> {
    /// Calls `take` with the text of this delta, escaped, in the order of an answer.
    pub(super) fn pieces(&self, take: &mut dyn FnMut(Piece<'a>)) {
        // Some engines send the same text under both names.
        if let Some(text) = filled(self.reasoning_content) {
            take(Piece::Thinking(text, ReasoningField::ReasoningContent));
        } else if let Some(text) = filled(self.reasoning) {
            take(Piece::Thinking(text, ReasoningField::Reasoning));
        }
        if let Some(content) = self.content {
            match inner(content) {
                Some("") => {}
                Some(text) => take(Piece::Text(text)),
                None => list_pieces(content, take),
            }
        }
        if let Some(text) = filled(self.refusal) {
            take(Piece::Text(text));
        }
    }
}

fn list_pieces<'a>(content: &'a RawValue, take: &mut dyn FnMut(Piece<'a>)) {
    let Ok(parts) = serde_json::from_str::<Vec<ContentPart<'a>>>(content.get()) else { return };
    for part in parts {
        if let Some(text) = filled(part.text) {
            take(Piece::Text(text));
        }
        let Some(thinking) = part.thinking else { continue };
        if let Some(text) = filled(Some(thinking)) {
            take(Piece::Thinking(text, ReasoningField::ReasoningContent));
        }
        let inner: Vec<ContentPart<'a>> = serde_json::from_str(thinking.get()).unwrap_or_default();
        for text in inner.iter().filter_map(|part| filled(part.text)) {
            take(Piece::Thinking(text, ReasoningField::ReasoningContent));
        }
    }
}

impl first_choice::Choice for Choice<'_> {
    fn is_first(&self) -> bool {
        self.index.unwrap_or(0) == 0
    }
}

impl<'a> Choice<'a> {
    /// The reason for the end of the answer, if this is its end.
    pub(super) fn finish(&self) -> Option<&str> {
        self.finish_reason.as_deref().filter(|reason| !reason.is_empty())
    }

    /// The stop sequence that ended the answer, escaped, if the engine reports it.
    pub(super) fn stop_sequence(&self) -> Option<&'a str> {
        filled(self.stop_reason).or_else(|| filled(self.matched_stop))
    }
}

impl<'a> CallDelta<'a> {
    pub(super) fn name(&self) -> Option<&'a str> {
        filled(self.function.and_then(|function| function.name))
    }

    pub(super) fn arguments(&self) -> Option<Arguments<'a>> {
        let raw = self.function.and_then(|function| function.arguments)?;
        match inner(raw) {
            Some("") => None,
            Some(text) => Some(Arguments::Escaped(text)),
            None => says_something(raw).then(|| Arguments::Json(raw.get())),
        }
    }
}

/// Arguments of a call: JSON within a string, as specified, or JSON itself, as some engines write it.
#[derive(Clone, Copy)]
pub(super) enum Arguments<'a> {
    Escaped(&'a str),
    Json(&'a str),
}

impl<'a> Arguments<'a> {
    /// The text for a JSON string.
    pub(super) fn escaped(self) -> Cow<'a, str> {
        match self {
            Self::Escaped(text) => Cow::Borrowed(text),
            Self::Json(text) => Cow::Owned(nested_text(text)),
        }
    }

    /// The JSON text.
    pub(super) fn json(self) -> Cow<'a, str> {
        match self {
            Self::Json(text) => Cow::Borrowed(text),
            Self::Escaped(text) if !text.contains('\\') => Cow::Borrowed(text),
            Self::Escaped(text) => match serde_json::from_str(&format!("\"{text}\"")) {
                Ok(decoded) => Cow::Owned(decoded),
                Err(_) => Cow::Borrowed(text),
            },
        }
    }

    pub(super) fn is_blank(self) -> bool {
        matches!(self, Self::Escaped(text) if is_blank(text))
    }
}
