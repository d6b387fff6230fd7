//! Serves the Anthropic Messages API on chat backends: translates a request of `/v1/messages` to
//! `/v1/chat/completions`, and the chat answer, whole or streamed, back.
//!
//! Not translated, by design: server tools, files by id, citations, and anything else that a chat backend cannot do and
//! that would change the answer. They are rejected by name. Hints are dropped and reported.

mod calls;
mod chunk;
mod content;
mod conversation;
mod effort;
mod error;
mod events;
mod fields;
mod fuzz;
mod overflow;
mod parts;
mod raw;
mod request;
mod stream;
mod tools;
mod turn;
mod usage;
mod whole;

#[cfg(test)]
mod tests;

use crate::translation::{AnswerTranslator, Malformed, Translated, Unsupported};

pub use effort::{SIGNATURE_PREFIX, is_own_signature};
pub use error::error;
pub use fuzz::fuzz_messages;
pub use request::to_chat;
pub use stream::Answer;

/// The body of an answer of `/v1/messages/count_tokens`.
#[must_use]
pub fn count_tokens(tokens: u64) -> Vec<u8> {
    format!(r#"{{"input_tokens":{tokens}}}"#).into_bytes()
}

/// The names of dropped hints, each once.
#[derive(Debug, Default)]
struct Hints(Vec<String>);

impl Hints {
    fn add(&mut self, name: &str) {
        if !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }

    /// Reports `name` if `value` is present.
    fn note<T>(&mut self, name: &str, value: Option<&T>) {
        if value.is_some() {
            self.add(name);
        }
    }
}

fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Unsupported {
    Unsupported { param: param.into(), message: message.into() }
}
