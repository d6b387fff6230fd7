//! Serves chat completions from an upstream that speaks only Anthropic Messages.
//!
//! [`from_chat`] turns the body of `/v1/chat/completions` into one of `/v1/messages`; [`Answer`] turns the answer, whole
//! or streamed, into a chat completion; [`error()`] turns an error body into OpenAI's.

mod answer;
mod base64;
mod block;
mod calls;
mod content;
mod effort;
mod error;
mod event;
#[cfg(test)]
mod generated_tests;
mod media;
mod members;
mod messages;
mod model;
#[cfg(test)]
mod option_tests;
mod options;
mod raw;
mod request;
#[cfg(test)]
mod request_tests;
mod response_format;
mod root_union;
#[cfg(test)]
mod samples;
mod sampling;
mod schema;
mod stream;
#[cfg(test)]
mod stream_tests;
mod tools;
mod turns;
mod usage;
mod whole;

use crate::{AnswerTranslator, Dropped, Malformed, Translated, Unsupported};

pub use answer::Answer;
pub use error::error;
pub use options::Defaults;

use effort::Controls;
use messages::Conversation;
use model::Model;
use request::Request;
use response_format::Format;
use sampling::Sampling;

/// Translates the body of a chat completions request. The `model` in it should be the upstream's name: the form of
/// reasoning controls and of later system messages depends on the model's version.
///
/// # Errors
/// If the request is malformed, or asks for something that Messages cannot express.
pub fn from_chat(body: &[u8], defaults: &Defaults) -> Result<Translated, Unsupported> {
    let request = Request::read(body)?;
    let model = Model::named(&request.model_name()?);
    let mut dropped = Dropped::default();
    // Blocks around texts take more bytes than the members of chat messages, by about an eighth.
    let mut out = Vec::with_capacity(body.len() + body.len() / 8 + 256);
    out.extend_from_slice(b"{\"model\":");
    raw::value(&mut out, request.model);
    let max_tokens = options::max_tokens(&request, *defaults, model, &mut out, &mut dropped);
    let format = Format::read(&request)?;
    let conversation = Conversation::write(&request, &format, model, &mut out, &mut dropped)?;
    tools::write(&request, &mut out, &mut dropped)?;
    let sampling = Sampling::decide(&request, model, &mut dropped);
    let effort = Controls::decide(&request, model, max_tokens, &conversation, &sampling, &mut dropped)?;
    effort.write(&request, &format, &mut out)?;
    sampling.write(&mut out);
    options::write(&request, &mut out, &mut dropped)?;
    out.push(b'}');
    Ok(Translated { body: out, dropped: dropped.into_names() })
}

/// Fuzz target: reads arbitrary bytes as a request, as an answer, as an error and as a stream of one event a line. Every
/// output must be JSON, or events whose data is.
///
/// # Panics
/// If an output is not valid.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_anthropic(bytes: &[u8]) {
    if let Ok(translated) = from_chat(bytes, &Defaults { max_tokens: 4096 }) {
        assert_json(&translated.body);
    }
    if let Ok(body) = Answer::new(1, true).whole(bytes) {
        assert_json(&body);
    }
    assert_json(&error(500, bytes));
    let mut answer = Answer::new(1, true);
    let mut out = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let data = line.strip_prefix(b"data: ").unwrap_or(line);
        let before = out.len();
        if answer.event(data, &mut out).is_err() {
            assert_eq!(out.len(), before, "a malformed event must write nothing");
            break;
        }
    }
    let text = String::from_utf8_lossy(&out);
    for event in text.split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("not an event: {event}"));
        if data != "[DONE]" {
            assert_json(data.as_bytes());
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
fn assert_json(text: &[u8]) {
    use crate::json;

    assert!(json::is_json(text), "not JSON: {}", String::from_utf8_lossy(text));
}
