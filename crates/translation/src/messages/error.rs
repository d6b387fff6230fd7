//! Renders an upstream's error in the form of the Messages API.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::overflow;
use crate::{error_type, json::string};

/// The longest message of an error that is not JSON, such as a proxy's HTML page.
const LONGEST_PLAIN: usize = 500;

/// The members that engines and providers use, of an error body or of the object within it.
#[derive(Default, Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
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
    let found = Found::read(&text, 0);
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
    let found = Found::read(value, 0);
    let kind = found.status.map(error_type::of_status).or(found.kind).unwrap_or("api_error");
    let message = found.message.unwrap_or_else(|| value.chars().take(LONGEST_PLAIN).collect());
    render(kind, &message, found.overflow)
}

/// The message of an error value.
pub(super) fn message_of_value(value: &str) -> String {
    Found::read(value, 0).message.unwrap_or_else(|| value.chars().take(LONGEST_PLAIN).collect())
}

impl Found {
    /// Reads a value: a string, an object, an object within a list, or an object within `error`.
    fn read(text: &str, depth: u8) -> Self {
        let text = text.trim();
        if depth > 3 {
            return Self::default();
        }
        if text.starts_with('"') {
            return Self { message: serde_json::from_str(text).ok(), ..Self::default() };
        }
        if text.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            return items.first().map(|item| Self::read(item.get(), depth + 1)).unwrap_or_default();
        }
        let Ok(fields) = serde_json::from_str::<Fields<'_>>(text) else { return Self::default() };
        let status = fields.code.and_then(|code| code.get().trim_matches('"').parse().ok());
        let own = Self {
            message: None,
            native: fields.r#type.is_some_and(|kind| kind.get() == "\"error\""),
            kind: fields.r#type.and_then(|kind| known_kind(kind.get())),
            status: status.filter(|status| (400..600).contains(status)),
            overflow: fields.n_prompt_tokens.zip(fields.n_ctx),
        };
        let nested = [fields.error, fields.message, fields.detail, fields.msg].into_iter().flatten();
        let inner = nested.map(|value| Self::read(value.get(), depth + 1)).find(|found| found.message.is_some());
        let inner = inner.unwrap_or_default();
        Self {
            message: inner.message.filter(|message| !message.is_empty()),
            kind: inner.kind.or(own.kind),
            status: inner.status.or(own.status),
            native: own.native,
            overflow: inner.overflow.or(own.overflow),
        }
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
