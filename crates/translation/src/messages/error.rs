//! Renders an upstream's error in the form of the Messages API.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::overflow;
use crate::{error_type, json::string};
use signalbox_protocol::EngineError;

/// The longest message of an error that is not JSON, such as a proxy's HTML page.
const LONGEST_PLAIN: usize = 500;

/// The members of an error body, or of the object within it, that say more than its message.
#[derive(Default, Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    n_prompt_tokens: Option<u64>,
    n_ctx: Option<u64>,
}

/// The content of an error body.
#[derive(Default)]
struct Found {
    message: Option<String>,
    kind: Option<&'static str>,
    status: Option<u16>,
    /// True if the body has the form of the Messages API already.
    native: bool,
    /// The prompt's tokens and the context's size, if the engine gives both.
    overflow: Option<(u64, u64)>,
}

/// The body of an error answer of `/v1/messages` for the error answer of a chat backend, of any shape.
#[must_use]
pub fn error(status: u16, body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(body);
    let found = Found::read(&text);
    let message = found.message.clone().unwrap_or_else(|| match text.trim() {
        "" => format!("the backend answered with status {status} and no message"),
        plain => plain.chars().take(LONGEST_PLAIN).collect(),
    });
    // OpenAI calls every fault of the caller an `invalid_request_error`, so its type says less than the status.
    let kind = found.kind.filter(|_| found.native).unwrap_or_else(|| error_type::of_status(status));
    render(kind, &message, found.overflow)
}

/// The error body for the value of `error` in a chunk of a stream.
pub(super) fn error_of_value(value: &str) -> Vec<u8> {
    let found = Found::read(value);
    let kind = found.status.map(error_type::of_status).or(found.kind).unwrap_or("api_error");
    let message = found.message.unwrap_or_else(|| value.chars().take(LONGEST_PLAIN).collect());
    render(kind, &message, found.overflow)
}

/// The message of an error value.
pub(super) fn message_of_value(value: &str) -> String {
    Found::read(value).message.unwrap_or_else(|| value.chars().take(LONGEST_PLAIN).collect())
}

impl Found {
    /// Reads an error in any shape.
    fn read(text: &str) -> Self {
        let read = EngineError::of_body(text);
        let top = Fields::of(text);
        let inner = top.error.map(|error| Fields::of(error.get())).unwrap_or_default();
        Self {
            native: top.r#type.is_some_and(|kind| kind.get() == "\"error\""),
            kind: inner.kind().or_else(|| top.kind()),
            overflow: inner.overflow().or_else(|| top.overflow()),
            status: read.as_ref().and_then(|error| error.status),
            message: read.map(|error| error.message).filter(|message| !message.is_empty()),
        }
    }
}

impl<'a> Fields<'a> {
    /// Those of an object, or of the first of a list.
    fn of(text: &'a str) -> Self {
        let text = text.trim();
        if text.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            return items.first().and_then(|item| serde_json::from_str(item.get()).ok()).unwrap_or_default();
        }
        serde_json::from_str(text).unwrap_or_default()
    }

    fn kind(&self) -> Option<&'static str> {
        self.r#type.and_then(|kind| known_kind(kind.get()))
    }

    fn overflow(&self) -> Option<(u64, u64)> {
        self.n_prompt_tokens.zip(self.n_ctx)
    }
}

fn render(kind: &str, message: &str, overflow: Option<(u64, u64)>) -> Vec<u8> {
    let message = overflow::reworded(message, overflow);
    let mut out = Vec::with_capacity(message.len() + 64);
    out.extend_from_slice(br#"{"type":"error","error":{"type":"#);
    string(&mut out, kind);
    out.extend_from_slice(br#","message":"#);
    string(&mut out, &message);
    out.extend_from_slice(b"}}");
    out
}

/// A type that the Messages API defines, from a raw string.
fn known_kind(raw: &str) -> Option<&'static str> {
    let known = [
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "timeout_error",
        "api_error",
        "overloaded_error",
    ];
    known.into_iter().find(|kind| *kind == raw.trim_matches('"'))
}
