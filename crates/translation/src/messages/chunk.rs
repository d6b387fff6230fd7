//! The pieces of chat answers in the order of a message. Text stays raw.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{effort::ReasoningField, raw::says_something};
use crate::{
    chat_answer::{CallDelta, ContentPart, Delta},
    json::{filled, inner, is_blank, nested_text},
};

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

impl<'a> CallDelta<'a> {
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
