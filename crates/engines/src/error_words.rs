//! Texts, codes and status of an error body of any shape.

use serde_json::Value;

/// Largest error body that is read, in bytes. Servers say what is wrong in fewer.
const LONGEST: usize = 64 << 10;
/// Deepest nesting of an error that is read.
const DEEPEST: usize = 6;
/// Most texts and codes that are read.
const MOST: usize = 32;

/// Members of an error with words for people. A member that repeats the request (`input` of a validation error) is not
/// among them.
const TEXTS: [&str; 17] = [
    "message",
    "msg",
    "detail",
    "details",
    "error",
    "errors",
    "title",
    "reason",
    "description",
    "error_description",
    "error_message",
    "error_msg",
    "errormessage",
    "fault",
    // OpenRouter quotes its provider's answer in them.
    "metadata",
    "raw",
    "response",
];
/// Members of an error with words for programs.
const CODES: [&str; 8] = ["code", "type", "status", "error_code", "errorcode", "error_type", "name", "__type"];

/// Words of one error.
#[derive(Debug, Default)]
pub(crate) struct ErrorWords {
    /// Texts for people.
    pub(crate) texts: Vec<String>,
    /// Codes, in lower-case letters and digits only.
    pub(crate) codes: Vec<String>,
    /// HTTP status that the body gives.
    pub(crate) status: Option<u16>,
    /// True for a page for people, as web servers and proxies send it.
    pub(crate) is_page: bool,
}

impl ErrorWords {
    /// Reads an error body, or the value of `error`.
    pub(crate) fn of(body: &[u8]) -> Self {
        let body = body.trim_ascii();
        let mut words = Self { is_page: is_page(body), ..Self::default() };
        if body.is_empty() || words.is_page {
            return words;
        }
        let body = &body[..body.len().min(LONGEST)];
        match serde_json::from_slice(body) {
            Ok(Value::String(text)) => words.text(&text, DEEPEST),
            Ok(value) => words.gather(&value, DEEPEST),
            Err(_) => words.texts.push(String::from_utf8_lossy(body).into_owned()),
        }
        words
    }

    /// Takes one text for people.
    pub(crate) fn of_message(message: &str) -> Self {
        let mut words = Self::default();
        words.text(message, DEEPEST);
        words
    }

    fn gather(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(all) if depth > 0 => all.iter().take(MOST).for_each(|it| self.gather(it, depth - 1)),
            Value::Object(members) if depth > 0 => {
                for (name, value) in members {
                    self.member(&name.to_ascii_lowercase(), value, depth - 1);
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, name: &str, value: &Value, depth: usize) {
        let (is_text, is_code) = (TEXTS.contains(&name), CODES.contains(&name));
        match value {
            Value::String(text) if is_code => {
                self.status = self.status.or_else(|| text.parse().ok().filter(|status| is_error(*status)));
                if self.codes.len() < MOST {
                    self.codes.push(letters(text));
                }
            }
            Value::Number(number) if is_code || name == "status_code" || name == "statuscode" => {
                let status = number.as_u64().and_then(|status| u16::try_from(status).ok());
                self.status = self.status.or(status.filter(|status| is_error(*status)));
                self.codes.push(number.to_string());
            }
            Value::String(text) if is_text => self.text(text, depth),
            Value::Array(all) if is_text => {
                for value in all.iter().take(MOST) {
                    match value {
                        Value::String(text) => self.text(text, depth),
                        value => self.gather(value, depth),
                    }
                }
            }
            Value::Object(_) if is_text => self.gather(value, depth),
            _ => {}
        }
    }

    /// Takes a text, or the error in it where it is JSON itself.
    fn text(&mut self, text: &str, depth: usize) {
        if self.texts.len() >= MOST {
            return;
        }
        let start = text.trim_start();
        if depth > 0
            && start.starts_with(['{', '['])
            && let Ok(value) = serde_json::from_str::<Value>(start)
        {
            return self.gather(&value, depth - 1);
        }
        self.texts.push(text.to_owned());
    }
}

/// True for a page for people.
fn is_page(body: &[u8]) -> bool {
    let start = body[..body.len().min(512)].to_ascii_lowercase();
    let has = |tag: &[u8]| memchr::memmem::find(&start, tag).is_some();
    body.starts_with(b"<") && (has(b"<html") || has(b"<!doctype html"))
}

fn is_error(status: u16) -> bool {
    (400..600).contains(&status)
}

/// Letters and digits of a code, in lower case: `RateLimitError`, `rate_limit_error` and `rate-limit-error` are one.
pub(crate) fn letters(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_all_shapes_are_read() {
        for body in [
            r#"{"error":{"message":"no","code":429,"type":"Rate_Limit"}}"#,
            r#"{"object":"error","message":"no","type":"RateLimit","code":429}"#,
            r#"[{"error":{"code":429,"message":"no","status":"RATE_LIMIT"}}]"#,
            r#"{"detail":{"error":{"msg":"no","code":"429","type":"rate-limit"}}}"#,
            r#"{"message":"{\"error\":{\"message\":\"no\",\"type\":\"rate_limit\",\"code\":429}}"}"#,
            r#"{"error":{"metadata":{"raw":"{\"message\":\"no\",\"code\":429,\"type\":\"rate_limit\"}"}}}"#,
        ] {
            let words = ErrorWords::of(body.as_bytes());
            assert_eq!((&*words.texts, words.status), (&["no".to_owned()][..], Some(429)), "{body}");
            assert!(words.codes.contains(&"ratelimit".to_owned()), "{body}");
        }
    }

    #[test]
    fn the_request_in_an_error_is_not_read() {
        let body =
            r#"{"detail":[{"loc":["body"],"msg":"bad","input":{"message":"my credit balance"},"type":"missing"}]}"#;
        assert_eq!(ErrorWords::of(body.as_bytes()).texts, ["bad"]);
    }

    #[test]
    fn other_bodies_are_text_or_pages() {
        assert_eq!(ErrorWords::of(b" plain words\n").texts, ["plain words"]);
        assert_eq!(ErrorWords::of(b"\"a string\"").texts, ["a string"]);
        assert!(ErrorWords::of(b"<!DOCTYPE html><html>busy</html>").is_page);
        for empty in [&b""[..], b"{}", b"null", b"[]"] {
            let words = ErrorWords::of(empty);
            assert!(words.texts.is_empty() && words.codes.is_empty() && !words.is_page);
        }
    }
}
