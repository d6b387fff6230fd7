//! Errors that engines report in place of an answer with a success status, or within a stream.
//!
//! Engines and proxies use many shapes: OpenAI's and Anthropic's objects, vLLM's flat one (`object: error`), `detail` of
//! `FastAPI`, lists of Gemini, plain text. One reader finds the message and the status in all of them.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::says_something;

/// The most characters kept of a message.
const LONGEST: usize = 2000;
/// The most objects within each other in which a message is looked for.
const DEEPEST: u8 = 4;

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
    /// The finish reason `abort` of an answer that its engine cut off.
    Aborted,
}

/// The members in which engines and proxies put errors, at the top or within each other.
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
    errors: Option<&'a RawValue>,
    #[serde(borrow)]
    error_message: Option<&'a RawValue>,
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
            .is_ok_and(|fields| fields.message.is_some_and(|message| message.get().starts_with('"')));
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
        let fields: Fields<'_> = serde_json::from_str(text).ok()?;
        let holds = |value: Option<&RawValue>| value.is_some_and(says_something);
        if holds(fields.choices) || holds(fields.content) || holds(fields.output) || holds(fields.data) {
            return None;
        }
        if let Some(error) = fields.error.and_then(Self::of_member) {
            let (_, status) = read(text, DEEPEST);
            return Some(Self { status: error.status.or(status), form: ErrorForm::Unusual, ..error });
        }
        // Without the member `error`, an object is an error only if nothing else explains what it says.
        let says_so = |value: Option<&RawValue>| value.is_some_and(|value| value.get().contains("rror"));
        let is_error = says_so(fields.object)
            || says_so(fields.r#type)
            || holds(fields.detail)
            || holds(fields.errors)
            || holds(fields.error_message)
            || (holds(fields.message) || holds(fields.msg)) && fields.r#type.is_none() && fields.object.is_none();
        let (message, status) = read(text, DEEPEST);
        Some(Self { message: message?, status, form: ErrorForm::Unusual }).filter(|_| is_error)
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

    /// The error of an answer that ended with the finish reason `error` or `abort`. `given` is an error beside the reason.
    pub(super) fn of_finish(reason: &str, given: Option<&RawValue>) -> Option<Self> {
        let form = match reason {
            "error" => ErrorForm::Unusual,
            "abort" => ErrorForm::Aborted,
            _ => return None,
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
    let nested = [fields.error, fields.message, fields.detail, fields.msg, fields.errors, fields.error_message];
    let mut status = None;
    let message = nested.into_iter().flatten().find_map(|value| {
        let (message, inner) = read(value.get(), depth - 1);
        status = status.or(inner);
        message.filter(|message| !message.is_empty())
    });
    let status = status.or(own);
    if message.is_some() || depth < DEEPEST {
        return (message, status);
    }
    let mut shown = String::new();
    // Writing to a string cannot fail.
    let _ = write!(shown, "{}", text.chars().take(200).collect::<String>());
    (Some(shown).filter(|text| text.len() > 2), status)
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
            r#"{"type":"ping"}"#,
            "[]",
            "1",
        ] {
            assert_eq!(EngineError::of_document(text), None, "{text}");
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
