//! Serves the Anthropic Messages API on chat backends: translates a request of `/v1/messages` to
//! `/v1/chat/completions`, and the chat answer, whole or streamed, back.
//!
//! Not translated, by design: files by id, citations, and anything else that a chat backend cannot do and that would change
//! the answer. They are rejected by name. Hints are dropped and reported.
//!
//! Tools that the provider carries out are left out and reported beside others, and wherever a conversation is under way: it
//! goes on without them. A first request that offers nothing else, and one that demands such a tool, is rejected: its answer
//! would be another one. What such tools left in the history becomes text. Tools that the client carries out are functions.

mod chunk;
mod client_tools;
mod content;
mod conversation;
mod effort;
mod error;
mod events;
mod fields;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod overflow;
mod own_thinking;
mod parts;
mod provider_tools;
mod raw;
mod request;
mod stream;
mod tools;
mod turn;
mod usage;
mod whole;

#[cfg(test)]
mod tests;

use crate::{Dropped, ProviderStates, Translated, Unsupported, unsupported};

pub use effort::ThinkingDisplay;
pub use error::error;
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_messages;
pub use own_thinking::without_own_thinking;
pub use stream::Answer;

use raw::Object;
use request::Request;

/// Translates a request of `/v1/messages` to one of `/v1/chat/completions`. A streamed request asks for usage. `states` has
/// what providers want back with the calls of earlier turns.
///
/// # Errors
/// If the request is malformed, or asks for something that no chat backend can do.
pub fn to_chat(body: &[u8], states: &dyn ProviderStates) -> Result<Translated, Unsupported> {
    let request = Request::read(body)?;
    let mut dropped = Dropped::default();
    let mut out = Object::new(body.len() + body.len() / 8 + 512);
    fields::reject(&request)?;
    if let Some(model) = request.field("model") {
        out.json("model", model.get());
    }
    let messages = request.messages.as_deref().filter(|messages| !messages.is_empty());
    let messages =
        messages.ok_or_else(|| unsupported("messages", "`messages` must be a list with at least one message"))?;
    conversation::write(request.field("system"), messages, states, out.member("messages"), &mut dropped)?;
    tools::write(&request, &mut out, &mut dropped)?;
    fields::write(&request, &mut out, &mut dropped)?;
    Ok(Translated { body: out.finish(), dropped: dropped.into_names() })
}
