//! The pieces of chat answers in the order of a message. Text stays raw.

use serde_json::value::RawValue;

use super::effort::ReasoningField;
use crate::{
    chat_answer::{ContentPart, Delta},
    json::{filled, inner},
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
