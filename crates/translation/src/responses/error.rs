//! Errors of the upstream in the form that clients of the Responses API expect.

use serde_json::{Value, value::RawValue};

use crate::json::{put, string};
use signalbox_protocol::EngineError;

/// The longest message that is made of an unknown error.
const LONGEST_MESSAGE: usize = 500;

/// An error as the upstream reported it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) message: String,
    kind: Option<String>,
    param: Option<String>,
    code: Option<String>,
    status: Option<u16>,
}

impl Reported {
    /// Reads the error object, or a text in its place.
    pub(super) fn read(error: &RawValue, status: Option<u16>) -> Self {
        Self::of(error.get(), status)
    }

    /// Reads the JSON of an error object, or of a text in its place.
    pub(super) fn of_text(error: &str) -> Self {
        Self::of(error, None)
    }

    fn plain(message: &str, status: Option<u16>) -> Self {
        let message = message.chars().take(LONGEST_MESSAGE).collect();
        Self { message, kind: None, param: None, code: None, status }
    }

    /// Reads an error in any shape.
    fn of(text: &str, status: Option<u16>) -> Self {
        let Some(EngineError { message, status: own, .. }) = EngineError::of_body(text) else {
            return Self::plain(text, status);
        };
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let member = |name: &str| explained(&value)?.get(name)?.as_str().map(str::to_owned);
        Self { message, kind: member("type"), param: member("param"), code: member("code"), status: own.or(status) }
    }

    /// Appends the error of a failed Response object.
    pub(super) fn write_response(&self, out: &mut Vec<u8>) {
        put(out, &[r#"{"code":"#]);
        string(out, self.code.as_deref().unwrap_or_else(|| self.default_code()));
        put(out, &[r#","message":"#]);
        string(out, &self.message);
        out.push(b'}');
    }

    /// A code that clients of the API know.
    fn default_code(&self) -> &'static str {
        match (self.status, self.kind.as_deref()) {
            (Some(429), _) | (_, Some("rate_limit_error")) => "rate_limit_exceeded",
            (Some(400 | 413 | 422), _) | (_, Some("invalid_request_error")) => "invalid_prompt",
            (Some(503 | 529), _) | (_, Some("overloaded_error")) => "server_is_overloaded",
            _ => "server_error",
        }
    }

    fn write(&self, status: u16, out: &mut Vec<u8>) {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        put(out, &[r#"{"error":{"message":"#]);
        string(out, &self.message);
        put(out, &[r#","type":"#]);
        string(out, self.kind.as_deref().unwrap_or(kind));
        for (name, value) in [("param", &self.param), ("code", &self.code)] {
            put(out, &[",\"", name, "\":"]);
            match value {
                Some(value) => string(out, value),
                None => put(out, &["null"]),
            }
        }
        put(out, &["}}"]);
    }
}

/// The object of an error: the value itself, or the one within it. Where a text explains it, there is none.
fn explained(value: &Value) -> Option<&Value> {
    match value {
        Value::Array(list) => explained(list.first()?),
        Value::Object(object) => match object.get("error").or_else(|| object.get("detail")) {
            Some(Value::String(_)) if !object.contains_key("message") => None,
            Some(inner @ Value::Object(_)) => explained(inner),
            _ => Some(value),
        },
        _ => None,
    }
}

/// True if clients can read the body as it is.
fn is_usual(value: &Value) -> bool {
    let Some(error) = value.get("error") else { return false };
    let text = |name: &str| error.get(name).is_none_or(|value| value.is_string() || value.is_null());
    error.get("message").is_some_and(Value::is_string) && ["type", "param", "code"].into_iter().all(text)
}

/// The body of an error answer in the form of OpenAI's APIs. An upstream's error in that form is kept byte for byte.
pub fn error(status: u16, body: &[u8]) -> Vec<u8> {
    let value = serde_json::from_slice::<Value>(body).ok();
    if value.as_ref().is_some_and(is_usual) {
        return body.to_vec();
    }
    let text = String::from_utf8_lossy(body);
    let reported = match text.trim() {
        "" => Reported::plain(&format!("the upstream answered with status {status}"), Some(status)),
        text => Reported::of(text, Some(status)),
    };
    let mut out = Vec::with_capacity(reported.message.len() + 128);
    reported.write(status, &mut out);
    out
}
