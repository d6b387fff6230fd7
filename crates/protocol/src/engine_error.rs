//! Errors that engines report in place of an answer with a success status, or within a stream.
//!
//! Engines and proxies use many shapes: OpenAI's and Anthropic's objects, vLLM's flat one (`object: error`), `detail` of
//! `FastAPI`, lists of Gemini, plain text. One reader finds the message and the status in all of them.

use std::fmt::Write as _;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{finish::Finish, json::says_something};

/// The most characters kept of a message.
const LONGEST: usize = 2000;
/// The most objects within each other in which a message is looked for.
const DEEPEST: u8 = 5;

/// An error that an engine reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError {
    /// The error message, in the engine's words.
    pub message: String,
    /// The HTTP status that the error gives as its code, if any.
    pub status: Option<u16>,
    /// Form in which callers' libraries get it.
    pub form: ErrorForm,
}

/// The form in which a stream reports an error.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ErrorForm {
    /// The error object of the stream's API, which its libraries know.
    Usual,
    /// Another form, which libraries skip or fail on.
    Unusual,
    /// A finish reason such as `abort` of an answer that its engine cut off.
    Aborted,
}

/// The members in which engines and proxies put errors, at the top or within each other.
#[derive(Default, Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    err: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    #[serde(borrow)]
    errors: Option<&'a RawValue>,
    #[serde(borrow)]
    error_message: Option<&'a RawValue>,
    #[serde(borrow)]
    error_msg: Option<&'a RawValue>,
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
    /// `MiniMax` reports errors in it, and 0 for none.
    #[serde(borrow)]
    base_resp: Option<&'a RawValue>,
    /// `OpenRouter` quotes its provider's answer in it.
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    raw: Option<&'a RawValue>,
    #[serde(borrow)]
    status_msg: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    status_code: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl EngineError {
    /// The error in the value of a member `error`; `None` for an empty one, which some engines send beside content.
    pub(super) fn of_member(raw: &RawValue) -> Option<Self> {
        if !says_something(raw) || raw.get() == "false" {
            return None;
        }
        let is_usual = serde_json::from_str::<Fields<'_>>(raw.get())
            .is_ok_and(|fields| fields.message.is_some_and(is_string) && fields.metadata.is_none());
        let (message, status) = read(raw.get(), DEEPEST);
        let message = message.unwrap_or_else(|| "the engine reported an error without a message".to_owned());
        let form = if is_usual { ErrorForm::Usual } else { ErrorForm::Unusual };
        Some(Self { message, status, form })
    }

    /// The error that a whole document is, if it is one: an object with an error and without content, or a list of such.
    pub(super) fn of_document(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            return items.first().and_then(|item| Self::of_document(item.get()));
        }
        if text.starts_with("\"{") {
            let inner: String = serde_json::from_str(text).ok()?;
            return Self::of_document(&inner);
        }
        let fields: Fields<'_> = serde_json::from_str(text).ok()?;
        let holds = |value: Option<&RawValue>| value.is_some_and(says_something);
        if holds(fields.choices) || holds(fields.content) || holds(fields.output) || holds(fields.data) {
            return None;
        }
        let is_failure = |response: &RawValue| {
            serde_json::from_str::<BaseResponse>(response.get()).is_ok_and(|response| response.status_code != 0)
        };
        let known = [fields.error, fields.err, fields.base_resp.filter(|response| is_failure(response))];
        if let Some(error) = known.into_iter().flatten().find_map(Self::of_member) {
            let (message, status) = read(text, DEEPEST);
            let message = message.unwrap_or(error.message);
            return Some(Self { message, status: error.status.or(status), form: ErrorForm::Unusual });
        }
        // Without the member `error`, an object is an error only if nothing else explains what it says.
        let says_so = |value: Option<&RawValue>| value.is_some_and(|value| value.get().contains("rror"));
        let is_error = says_so(fields.object)
            || says_so(fields.r#type)
            || holds(fields.detail)
            || holds(fields.errors)
            || holds(fields.error_message)
            || holds(fields.error_msg)
            || (holds(fields.message) || holds(fields.msg)) && fields.r#type.is_none() && fields.object.is_none();
        let (message, status) = read(text, DEEPEST);
        Some(Self { message: message?, status, form: ErrorForm::Unusual }).filter(|_| is_error)
    }

    /// The error that a body or a value is known to be, in any shape. `None` if it is no JSON, or has no message.
    #[must_use]
    pub fn of_body(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_json = text.starts_with(['{', '[', '"']);
        // Without a message, its text would be shown.
        let (message, status) = if is_json { read(text, DEEPEST - 1) } else { (None, None) };
        message.map(|message| Self { message, status, form: ErrorForm::Unusual })
    }

    /// The error in text that is no JSON, if it says that it is one: the last words of a server that failed.
    pub(super) fn of_text(data: &[u8]) -> Option<Self> {
        let text = data.trim_ascii();
        let start = text[..text.len().min(200)].to_ascii_lowercase();
        let says_so =
            ["error", "exception", "traceback"].iter().any(|word| memmem::find(&start, word.as_bytes()).is_some());
        (says_so && text.first().is_some_and(u8::is_ascii_alphabetic)).then(|| Self::of_named_event(text))
    }

    /// The error of an event that its name says is one: an object in any shape, or text.
    pub(super) fn of_named_event(data: &[u8]) -> Self {
        let text = String::from_utf8_lossy(data);
        let (message, status) = match serde_json::from_str::<&RawValue>(&text) {
            Ok(_) => read(&text, DEEPEST),
            Err(_) => (Some(text.trim().chars().take(LONGEST).collect()), None),
        };
        let message = message.filter(|message: &String| !message.is_empty());
        let message = message.unwrap_or_else(|| "the engine reported an error without a message".to_owned());
        Self { message, status, form: ErrorForm::Unusual }
    }

    /// The error of an answer that ended with a finish reason that says so. `given` is an error beside the reason.
    pub(super) fn of_finish(reason: &str, given: Option<&RawValue>) -> Option<Self> {
        let form = match Finish::read(reason) {
            Finish::Failed => ErrorForm::Unusual,
            Finish::Aborted => ErrorForm::Aborted,
            Finish::Whole | Finish::Length | Finish::Filter => return None,
        };
        let unexplained = || Self {
            message: format!("the engine ended the answer with the finish reason `{reason}`"),
            status: None,
            form,
        };
        Some(given.and_then(Self::of_member).map_or_else(unexplained, |error| Self { form, ..error }))
    }
}

/// The message and the status in a value: a string, an object, an object within a list or within another.
fn read(text: &str, depth: u8) -> (Option<String>, Option<u16>) {
    let text = text.trim();
    if depth == 0 {
        return (None, None);
    }
    if text.starts_with('"') {
        let message: Option<String> = serde_json::from_str(text).ok();
        return (message.map(|message| message.chars().take(LONGEST).collect()), None);
    }
    if text.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
        return items.first().map_or((None, None), |item| read(item.get(), depth - 1));
    }
    let Ok(fields) = serde_json::from_str::<Fields<'_>>(text) else {
        return (text.starts_with(char::is_alphanumeric).then(|| text.chars().take(LONGEST).collect()), None);
    };
    let number = |value: Option<&RawValue>| {
        let number: u16 = value?.get().trim_matches('"').parse().ok()?;
        (400..600).contains(&number).then_some(number)
    };
    let own = number(fields.code).or_else(|| number(fields.status_code)).or_else(|| number(fields.status));
    // Beside a message, a string `error` names the status: `Internal Server Error`.
    let error = fields.error.filter(|error| !is_string(error) || !fields.message.is_some_and(is_string));
    let nested = [
        error,
        fields.message,
        fields.detail,
        fields.msg,
        fields.errors,
        fields.error_message,
        fields.error_msg,
        fields.reason,
        fields.err,
        fields.base_resp,
        fields.status_msg,
    ];
    let mut status = None;
    let message = nested.into_iter().flatten().find_map(|value| {
        let (message, inner) = read(value.get(), depth - 1);
        status = status.or(inner);
        message.filter(|message| !message.is_empty())
    });
    let status = status.or(own);
    let message = match (message, fields.metadata.and_then(quoted)) {
        (Some(message), Some(quoted)) if !message.contains(&quoted) => {
            Some(format!("{message}: {quoted}").chars().take(LONGEST).collect())
        }
        (message, _) => message,
    };
    if message.is_some() || depth < DEEPEST {
        return (message, status);
    }
    let mut shown = String::new();
    // Writing to a string cannot fail.
    let _ = write!(shown, "{}", text.chars().take(200).collect::<String>());
    (Some(shown).filter(|text| text.len() > 2), status)
}

/// The message of the provider that a relay quotes.
fn quoted(metadata: &RawValue) -> Option<String> {
    let fields: Fields<'_> = serde_json::from_str(metadata.get()).ok()?;
    let raw = fields.raw?;
    let text: Option<String> = serde_json::from_str(raw.get()).ok();
    let (message, _) = read(text.as_deref().unwrap_or(raw.get()), DEEPEST - 1);
    message.filter(|message| !message.is_empty())
}

fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// The status that `MiniMax` gives within an answer.
#[derive(Deserialize)]
struct BaseResponse {
    status_code: i64,
}

/// Fuzz target: looks for errors in arbitrary bytes.
///
/// # Panics
/// If a message is longer than allowed, or a status is none.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_engine_error(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let member = serde_json::from_str::<&RawValue>(&text).ok().and_then(EngineError::of_member);
    for error in
        [EngineError::of_document(&text), Some(EngineError::of_named_event(input)), member].into_iter().flatten()
    {
        assert!(error.message.chars().count() <= LONGEST && !error.message.is_empty());
        assert!(error.status.is_none_or(|status| (400..600).contains(&status)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_shape_is_read() {
        for (text, status) in [
            (r#"{"error":{"message":"out of memory","type":"server_error","code":500}}"#, Some(500)),
            (r#"{"error":{"message":"out of memory","code":"503"}}"#, Some(503)),
            (r#"{"error":"out of memory"}"#, None),
            (r#"{"object":"error","message":"out of memory","type":"InternalServerError","code":500}"#, Some(500)),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"out of memory"}}"#, None),
            (r#"{"detail":"out of memory"}"#, None),
            (r#"{"detail":[{"loc":["body"],"msg":"out of memory"}]}"#, None),
            (r#"[{"error":{"code":503,"message":"out of memory","status":"UNAVAILABLE"}}]"#, Some(503)),
            (r#"{"errors":[{"message":"out of memory"}],"success":false}"#, None),
            (r#"{"error":{"error":{"message":"out of memory"}},"status":502}"#, Some(502)),
            (r#"{"message":"out of memory"}"#, None),
            (r#"{"error_message":"out of memory","status_code":429}"#, Some(429)),
            (r#"{"choices":[],"error":{"message":"out of memory"}}"#, None),
            (r#"{"statusCode":500,"error":"Internal Server Error","message":"out of memory"}"#, None),
            (r#"{"choices":null,"base_resp":{"status_code":1000,"status_msg":"out of memory"}}"#, None),
            (r#""{\"err\":\"out of memory\"}""#, None),
        ] {
            let read = EngineError::of_document(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*read.message, read.status), ("out of memory", status), "{text}");
        }
    }

    #[test]
    fn answers_are_no_errors() {
        for text in [
            r#"{"choices":[{"message":{"content":"a"}}],"error":null}"#,
            r#"{"choices":[{"message":{"content":"a"}}],"error":{}}"#,
            r#"{"id":"c","object":"chat.completion.chunk","choices":[]}"#,
            r#"{"type":"message","content":[],"message":"x"}"#,
            r#"{"object":"list","data":[]}"#,
            r#"{"choices":[],"base_resp":{"status_code":0,"status_msg":""}}"#,
            r#"{"type":"ping"}"#,
            "[]",
            "1",
        ] {
            assert_eq!(EngineError::of_document(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_relay_quotes_of_its_provider_is_read() {
        let raw = r#"{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"error\":{\"message\":\"out of memory\"}}"}}"#;
        let error = EngineError::of_document(&format!(r#"{{"error":{raw}}}"#)).unwrap();
        assert_eq!((&*error.message, error.status), ("Provider returned error: out of memory", Some(502)));
        let member: &RawValue = serde_json::from_str(raw).unwrap();
        assert_eq!(EngineError::of_member(member).unwrap().form, ErrorForm::Unusual, "callers read the message only");
    }

    #[test]
    fn last_words_are_errors() {
        for (text, is_error) in [
            ("Internal Server Error: gone", true),
            ("Error", true),
            ("hello", false),
            ("<html>error", false),
            ("", false),
        ] {
            assert_eq!(EngineError::of_text(text.as_bytes()).is_some(), is_error, "{text}");
        }
    }

    #[test]
    fn finish_reasons_and_named_events_are_errors() {
        assert_eq!(EngineError::of_finish("stop", None), None);
        assert_eq!(EngineError::of_finish("abort", None).unwrap().form, ErrorForm::Aborted);
        assert!(EngineError::of_finish("error", None).unwrap().message.contains("`error`"));
        for (data, message) in
            [("out of memory", "out of memory"), (r#"{"msg":"gone"}"#, "gone"), (r#""gone""#, "gone")]
        {
            assert_eq!(EngineError::of_named_event(data.as_bytes()).message, message);
        }
        assert!(!EngineError::of_named_event(b"").message.is_empty());
    }
}
