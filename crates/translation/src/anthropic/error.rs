//! Error bodies and error events as OpenAI's error object.

use std::borrow::Cow;

use serde::Deserialize;

use super::raw;
use crate::json::{self, Str};
use serde_json::value::RawValue;

/// The most characters of a body that is not JSON, such as a page of a proxy.
const MOST_TEXT: usize = 300;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Inner<'a> {
    #[serde(borrow)]
    r#type: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<Str<'a>>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
}

/// Translates the body of an answer with an error status. Bodies of other shapes are kept as the message.
pub fn error(status: u16, body: &[u8]) -> Vec<u8> {
    let read: Option<Body<'_>> = serde_json::from_slice(body).ok();
    let raw = read.as_ref().and_then(|body| body.error);
    let inner = raw.map(inner).unwrap_or_default();
    let message = match inner.message {
        Some(Str(message)) if !message.is_empty() => message,
        _ => fallback(status, body),
    };
    let given = inner.r#type.as_ref().map_or("", |kind| &*kind.0);
    let kind = if given.is_empty() { of_status(status) } else { given };
    let mut out = Vec::with_capacity(message.len() + 128);
    let request = read.as_ref().and_then(|body| body.request_id);
    write(&mut out, &message, kind, inner.code, request);
    out
}

/// Appends the error object of an error event.
pub(super) fn event(raw: &RawValue, request: Option<&RawValue>, out: &mut Vec<u8>) {
    let inner = inner(raw);
    let message = inner.message.map_or(Cow::Borrowed("the upstream reported an error"), |message| message.0);
    let kind = inner.r#type.as_ref().map_or("api_error", |kind| &*kind.0);
    write(out, &message, kind, inner.code, request);
}

/// The message of an error, for an answer that cannot carry one.
pub(super) fn message(raw: &RawValue) -> String {
    inner(raw).message.map_or_else(|| raw.get().chars().take(MOST_TEXT).collect(), |message| message.0.into_owned())
}

fn inner(raw: &RawValue) -> Inner<'_> {
    if let Some(text) = json::text(raw) {
        return Inner { message: Some(Str(text)), ..Inner::default() };
    }
    json::read(raw).unwrap_or_default()
}

fn fallback(status: u16, body: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * MOST_TEXT)]);
    let text: String = text.trim().chars().take(MOST_TEXT).collect();
    if text.is_empty() { format!("the upstream answered with status {status}").into() } else { text.into() }
}

/// The error type of Messages for a status.
fn of_status(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// Appends `{"error": …}` for an error type of Messages.
fn write(out: &mut Vec<u8>, message: &str, kind: &str, given: Option<&RawValue>, request: Option<&RawValue>) {
    let too_long = message.contains("prompt is too long") || message.contains("exceed context limit");
    let (kind, code) = match kind {
        "invalid_request_error" if too_long => (kind, Some("context_length_exceeded")),
        "request_too_large" => ("invalid_request_error", Some("request_too_large")),
        "authentication_error" => (kind, Some("invalid_api_key")),
        "billing_error" => ("insufficient_quota", Some("insufficient_quota")),
        "not_found_error" if message.starts_with("model") => ("invalid_request_error", Some("model_not_found")),
        "rate_limit_error" => (kind, Some("rate_limit_exceeded")),
        "overloaded_error" => ("server_error", Some("overloaded")),
        "timeout_error" => ("server_error", Some("timeout")),
        "api_error" => ("server_error", None),
        other => (other, None),
    };
    out.extend_from_slice(b"{\"error\":{\"message\":");
    json::string(out, message);
    out.extend_from_slice(b",\"type\":");
    json::string(out, kind);
    out.extend_from_slice(b",\"param\":null,\"code\":");
    let given = given.map(RawValue::get).filter(|code| !code.starts_with(['{', '[']) && *code != "null");
    match (given, code) {
        (Some(given), _) => out.extend_from_slice(given.as_bytes()),
        (None, Some(code)) => json::string(out, code),
        (None, None) => out.extend_from_slice(b"null"),
    }
    raw::member(out, "request_id", request.filter(|request| json::inner(request).is_some()));
    out.extend_from_slice(b"}}");
}

#[cfg(test)]
mod tests {
    use super::error;

    #[test]
    fn error_types_are_mapped() {
        let body = |kind: &str, message: &str| {
            format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#)
        };
        for (status, kind, message, want) in [
            (529, "overloaded_error", "Overloaded", r#""type":"server_error","param":null,"code":"overloaded""#),
            (429, "rate_limit_error", "slow", r#""type":"rate_limit_error","param":null,"code":"rate_limit_exceeded""#),
            (
                401,
                "authentication_error",
                "key",
                r#""type":"authentication_error","param":null,"code":"invalid_api_key""#,
            ),
            (
                404,
                "not_found_error",
                "model: x",
                r#""type":"invalid_request_error","param":null,"code":"model_not_found""#,
            ),
            (404, "not_found_error", "no", r#""type":"not_found_error","param":null,"code":null"#),
            (500, "api_error", "Internal", r#""type":"server_error","param":null,"code":null"#),
            (
                400,
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
                r#""type":"invalid_request_error","param":null,"code":"context_length_exceeded""#,
            ),
        ] {
            let got = String::from_utf8(error(status, body(kind, message).as_bytes())).unwrap();
            assert_eq!(got, format!(r#"{{"error":{{"message":"{message}",{want},"request_id":"req_1"}}}}"#));
        }
    }

    #[test]
    fn other_bodies_are_kept_as_the_message() {
        for (status, body, want) in [
            (
                529,
                "",
                r#"{"error":{"message":"the upstream answered with status 529","type":"server_error","param":null,"code":"overloaded"}}"#,
            ),
            (
                502,
                "<h1>Bad \"gateway\"</h1>",
                r#"{"error":{"message":"<h1>Bad \"gateway\"</h1>","type":"server_error","param":null,"code":null}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"no","code":"x"}}"#,
                r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"x"}}"#,
            ),
        ] {
            assert_eq!(String::from_utf8(error(status, body.as_bytes())).unwrap(), want);
        }
    }
}
