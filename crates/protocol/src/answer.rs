//! Reads one event of a streamed answer, or a whole answer: tokens, usage, the end, errors. Reads lazily and never
//! changes bytes. An answer with a success status may be an error all the same, or none: [`WholeAnswer`] says so.

use memchr::memmem;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    anthropic,
    engine_error::{EngineError, ErrorForm},
    event_facts::EventFacts,
    json, openai, responses, usage,
};
use signalbox_types::{Endpoint, Usage};

/// Reads the data of one event of an answer from `endpoint`.
pub(crate) fn read_event(endpoint: Endpoint, data: &[u8]) -> EventFacts {
    if data.trim_ascii() == b"[DONE]" {
        return EventFacts { alive: true, done: true, ..EventFacts::default() };
    }
    let seen = match endpoint {
        Endpoint::Responses => responses::read_event(data),
        Endpoint::Messages => anthropic::read_event(data),
        Endpoint::Chat | Endpoint::Completions => openai::read_event(data),
        _ => Ok(EventFacts { alive: true, token: true, ..EventFacts::default() }),
    };
    // An event of an unknown shape is passed on unchanged; one that is not JSON is reported as broken.
    let mut seen = seen.unwrap_or_else(|_| {
        if let Some(text) = json::repaired(data) {
            return EventFacts { text_at: None, ..read_event(endpoint, &text) };
        }
        let is_json = json::is_json(data);
        let error = if is_json { None } else { EngineError::of_text(data) };
        let broken = !is_json && error.is_none();
        EventFacts { alive: !broken, broken, error, ..EventFacts::default() }
    });
    if says_nothing(&seen) {
        seen.error = std::str::from_utf8(data).ok().and_then(EngineError::of_document);
    }
    seen
}

/// True for an event that is neither content nor an end nor a count: it may be an error in a shape of its own.
fn says_nothing(seen: &EventFacts) -> bool {
    !(seen.token || seen.done || seen.finished || seen.broken || seen.only_usage || seen.error.is_some())
        && seen.choices == 0
        && seen.usage.is_none()
}

/// A body that should be JSON is not.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON")]
pub struct NotJson;

/// The facts read from a whole answer with a success status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeAnswer {
    /// Its token counts, limited to what its length allows.
    pub usage: Option<Usage>,
    /// The reason why it is no answer.
    pub failure: Option<WholeFailure>,
}

/// The reason why a whole answer is none, although its status says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WholeFailure {
    /// It is an error, or ended with one.
    Error(EngineError),
    /// It has no part that answers: no choice, no message.
    Empty,
}

/// The members of a whole answer that tell what it is.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
}

/// Checks that a whole answer is JSON, and reads what it is and its token counts; usually in one pass.
///
/// # Errors
/// [`NotJson`] if it is no JSON document.
pub fn read_whole(endpoint: Endpoint, body: &[u8]) -> Result<WholeAnswer, NotJson> {
    let has_text =
        matches!(endpoint, Endpoint::Chat | Endpoint::Completions | Endpoint::Responses | Endpoint::Messages);
    let usage_of = if has_text { usage::of_text } else { usage::without_text };
    let read = serde_json::from_slice(body).map(|answer: Answer<'_>| WholeAnswer {
        usage: answer.usage.and_then(usage_of),
        failure: answer.failure(endpoint),
    });
    let mut whole = match read {
        Ok(whole) => whole,
        Err(_) => match json::repaired(body) {
            Some(text) => return read_whole(endpoint, &text),
            None if json::is_json(body) => WholeAnswer::default(),
            None => return Err(NotJson),
        },
    };
    if !matches!(whole.failure, Some(WholeFailure::Error(_)))
        && (whole.failure.is_some() || whole.usage.is_none())
        && let Some(error) = std::str::from_utf8(body).ok().and_then(EngineError::of_document)
    {
        whole.failure = Some(WholeFailure::Error(error));
    }
    Ok(whole)
}

/// True if the data of an event is a whole chat answer rather than a chunk of one.
pub fn is_whole_chat(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        message: Option<Message<'a>>,
        delta: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        choices: Vec<Choice<'a>>,
    }
    // Chunks rarely have the word, so that they are not read twice.
    memmem::find(data, b"\"message\"").is_some()
        && serde_json::from_slice::<Answer<'_>>(data).is_ok_and(|answer| {
            !answer.choices.is_empty()
                && answer.choices.iter().all(|choice| choice.message.is_some() && choice.delta.is_none())
        })
}

impl Answer<'_> {
    fn failure(&self, endpoint: Endpoint) -> Option<WholeFailure> {
        let list = |raw: Option<&RawValue>| raw.is_some_and(json::says_something);
        let is_empty = match endpoint {
            Endpoint::Chat | Endpoint::Completions => return self.no_choice(endpoint),
            // An answer may have no block, but has the list of them.
            Endpoint::Messages => self.content.is_none_or(|content| content.get() == "null"),
            Endpoint::Responses if json::word(self.status) == "failed" => true,
            // One in the background has no output yet.
            Endpoint::Responses => !list(self.output) && !list(self.status) && !list(self.id),
            _ => return None,
        };
        let error = self.error.filter(|_| is_empty).and_then(EngineError::of_member);
        error.map(WholeFailure::Error).or_else(|| is_empty.then_some(WholeFailure::Empty))
    }

    /// The failure of an answer none of whose choices is one.
    fn no_choice(&self, endpoint: Endpoint) -> Option<WholeFailure> {
        let choices = self.choices.map_or("[]", RawValue::get);
        let Ok(choices) = serde_json::from_str::<Vec<Option<Choice<'_>>>>(choices) else {
            return (choices == "null").then_some(WholeFailure::Empty);
        };
        let mut error = self.error.and_then(EngineError::of_member);
        for choice in choices.iter().flatten() {
            match choice.failure(endpoint)? {
                WholeFailure::Error(found) => error = error.or(Some(found)),
                WholeFailure::Empty => {}
            }
        }
        Some(error.map_or(WholeFailure::Empty, WholeFailure::Error))
    }
}

impl Choice<'_> {
    /// The reason why it is no answer, if it is none.
    fn failure(&self, endpoint: Endpoint) -> Option<WholeFailure> {
        let says = |raw: Option<&RawValue>| raw.is_some_and(json::says_something);
        let message = self.message.as_ref();
        let has_text =
            says(self.text) || message.is_some_and(|message| says(message.content) || says(message.tool_calls));
        let ended = EngineError::of_finish(json::word(self.finish_reason), self.error);
        match ended {
            Some(error) if error.form != ErrorForm::Aborted || !has_text => Some(WholeFailure::Error(error)),
            _ if message.is_some() || self.text.is_some() && endpoint == Endpoint::Completions => None,
            _ if says(self.text) => None,
            _ => {
                let error = self.error.and_then(EngineError::of_member);
                Some(error.map_or(WholeFailure::Empty, WholeFailure::Error))
            }
        }
    }
}

/// Fuzz target: reads arbitrary bytes as an event of every endpoint.
///
/// # Panics
/// If valid JSON is reported as broken, or invalid JSON as valid.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_answer(input: &[u8]) {
    for endpoint in Endpoint::ALL {
        let seen = read_event(endpoint, input);
        let text = json::repaired(input).unwrap_or_else(|| input.to_vec());
        assert!(!seen.broken || !json::is_json(&text));
        assert!(seen.text_at.is_none_or(|at| at.end <= input.len()));
        assert_eq!(read_whole(endpoint, input).is_ok(), json::is_json(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(message: &str, status: Option<u16>) -> EngineError {
        EngineError { message: message.to_owned(), status, form: ErrorForm::Usual }
    }

    fn chat(data: &str) -> EventFacts {
        read_event(Endpoint::Chat, data.as_bytes())
    }

    #[test]
    fn the_role_chunk_is_not_a_token() {
        assert!(
            !chat(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#).token
        );
        assert!(
            !chat(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[]}}]}"#).token
        );
    }

    #[test]
    fn content_reasoning_and_tools_are_tokens() {
        for delta in [
            r#"{"content":"a"}"#,
            r#"{"reasoning_content":"a"}"#,
            r#"{"reasoning":"a"}"#,
            r#"{"refusal":"a"}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#,
            r#"{"function_call":{"name":"f"}}"#,
        ] {
            assert!(chat(&format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#)).token, "{delta}");
        }
        assert!(read_event(Endpoint::Completions, br#"{"choices":[{"text":"a"}]}"#).token);
        assert_eq!(chat(r#"{"choices":[{"delta":{"content":"a\n"}}]}"#).text_bytes, 2);
    }

    #[test]
    fn the_usage_chunk_is_distinguished_from_usage_beside_content() {
        let usage = r#""usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}"#;
        let alone = chat(&format!(r#"{{"choices":[],{usage}}}"#));
        assert!(alone.only_usage);
        let want = Usage {
            prompt_tokens: 3,
            cached_tokens: Some(1),
            completion_tokens: 2,
            reasoning_tokens: None,
            ..Usage::default()
        };
        assert_eq!(alone.usage, Some(want));
        let beside = chat(&format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop"}}],{usage}}}"#));
        assert!(!beside.only_usage && beside.finished && beside.usage == Some(want));
        assert!(!chat(r#"{"choices":[],"prompt_filter_results":[{}]}"#).only_usage);
        let within = chat(&format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop",{usage}}}]}}"#));
        assert!(!within.only_usage && within.usage == Some(want));
        assert!(
            !chat(&format!(r#"{{"error":{{"message":"oops"}},{usage}}}"#)).only_usage,
            "an error is never kept back"
        );
    }

    #[test]
    fn ends_errors_and_garbage_are_distinguished() {
        assert!(chat(" [DONE]").done);
        assert_eq!(
            chat(r#"{"error":{"message":"out of memory","code":500}}"#).error,
            Some(usual("out of memory", Some(500)))
        );
        let bare = EngineError { form: ErrorForm::Unusual, ..usual("oops", None) };
        assert_eq!(chat(r#"{"error":"oops"}"#).error, Some(bare));
        assert!(chat("{\"choices\":").broken);
        let finish = chat(r#"{"choices":[{"index":0,"delta":{}},{"index":2,"delta":{},"finish_reason":"stop"}]}"#);
        assert_eq!((finish.choices, finish.finished_choices, finish.finished), (0b101, 0b100, true));
        let opaque = EventFacts { alive: true, ..EventFacts::default() };
        assert_eq!(chat(r#"["a shape nobody foresaw"]"#), opaque);
        assert_eq!(chat(r#"{"choices":"odd"}"#), opaque);
        let odd = chat(r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":[1]}}"#);
        assert!(odd.token && odd.usage.is_none());
    }

    #[test]
    fn half_a_character_hides_no_token() {
        let seen = read_event(Endpoint::Chat, b"{\"choices\":[{\"delta\":{\"content\":\"a\xe4\xbd\"}}]}");
        assert!(seen.token && !seen.broken && seen.text_at.is_none(), "{seen:?}");
        assert!(read_event(Endpoint::Chat, b"{\"choices\":\xe4").broken);
    }

    #[test]
    fn responses_and_messages_are_read_in_their_own_shapes() {
        let responses = |data: &str| read_event(Endpoint::Responses, data.as_bytes());
        assert!(!responses(r#"{"type":"response.created","response":{"usage":null}}"#).token);
        assert!(responses(r#"{"type":"response.output_text.delta","delta":"a"}"#).token);
        let end = responses(
            r#"{"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":7,"input_tokens_details":{"cached_tokens":2}}}}"#,
        );
        assert!(end.done && end.usage.unwrap().cached_tokens == Some(2));

        let messages = |data: &str| read_event(Endpoint::Messages, data.as_bytes());
        let start = messages(r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#);
        assert!(!start.token && start.usage.unwrap().prompt_tokens == 5);
        assert!(messages(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#).token);
        assert!(messages(r#"{"type":"message_stop"}"#).done);
        assert_eq!(
            messages(r#"{"type":"error","error":{"message":"overloaded"}}"#).error,
            Some(usual("overloaded", None))
        );
    }

    #[test]
    fn usage_is_read_from_whole_answers() {
        let body = br#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}"#;
        let usage_of = |endpoint, body| read_whole(endpoint, body).unwrap().usage.unwrap();
        assert_eq!(usage_of(Endpoint::Chat, &body[..]).reasoning_tokens, Some(1));
        let body = br#"{"usage":{"input_tokens":3,"output_tokens":2,"cache_read_input_tokens":10}}"#;
        assert_eq!(usage_of(Endpoint::Messages, body).prompt_tokens, 13);
        let body = br#"{"usage":{"input_tokens":18446744073709551615,"cache_read_input_tokens":1}}"#;
        assert_eq!(usage_of(Endpoint::Messages, body).prompt_tokens, u64::MAX);
        let body = br#"{"usage":{"prompt_tokens":3,"total_tokens":3}}"#;
        assert_eq!(usage_of(Endpoint::Embeddings, body).prompt_tokens, 3);
        assert_eq!(read_whole(Endpoint::Embeddings, b"[1]"), Ok(WholeAnswer::default()));
        let body = b"{\"choices\":[{\"text\":\"\xe4\xbd\"}],\"usage\":{\"prompt_tokens\":3}}";
        assert_eq!(usage_of(Endpoint::Chat, body).prompt_tokens, 3);
        assert_eq!(read_whole(Endpoint::Chat, b"<html>"), Err(NotJson));
    }

    #[test]
    fn errors_with_a_success_status_are_no_answers() {
        let failure = |endpoint, body: &str| read_whole(endpoint, body.as_bytes()).unwrap().failure;
        let choice = |choice: &str| format!(r#"{{"id":"c","choices":[{choice}],"usage":{{"prompt_tokens":1}}}}"#);
        for (endpoint, body) in [
            (Endpoint::Chat, r#"{"error":{"message":"m","code":502}}"#),
            (Endpoint::Chat, r#"{"error":"m"}"#),
            (Endpoint::Chat, r#"{"choices":[],"error":{"message":"m"}}"#),
            (Endpoint::Chat, r#"{"object":"error","message":"m"}"#),
            (Endpoint::Chat, r#"{"detail":"m"}"#),
            (Endpoint::Chat, r#"[{"error":{"message":"m"}}]"#),
            (Endpoint::Chat, &choice(r#"{"message":{"content":"a"},"finish_reason":"error","error":{"message":"m"}}"#)),
            (Endpoint::Completions, r#"{"error":"m"}"#),
            (Endpoint::Messages, r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#),
            (Endpoint::Responses, r#"{"status":"failed","error":{"message":"m"},"output":[]}"#),
            (Endpoint::Embeddings, r#"{"error":{"message":"m"}}"#),
        ] {
            let Some(WholeFailure::Error(error)) = failure(endpoint, body) else { panic!("{body}") };
            assert_eq!(error.message, "m", "{body}");
        }
        for (endpoint, body) in [
            (Endpoint::Chat, r#"{"id":"x","object":"chat.completion","choices":[]}"#),
            (Endpoint::Chat, r#"{"choices":null}"#),
            (Endpoint::Chat, &choice("{}")),
            (Endpoint::Chat, &choice("null")),
            (Endpoint::Chat, &choice(r#"{"message":null,"finish_reason":"stop"}"#)),
            (Endpoint::Completions, &choice("{}")),
            (Endpoint::Messages, r#"{"type":"message"}"#),
            (Endpoint::Responses, r#"{"object":"response"}"#),
        ] {
            assert_eq!(failure(endpoint, body), Some(WholeFailure::Empty), "{body}");
        }
        let aborted = choice(r#"{"message":{"content":""},"finish_reason":"abort"}"#);
        assert!(matches!(failure(Endpoint::Chat, &aborted), Some(WholeFailure::Error(_))));
        for (endpoint, body) in [
            (Endpoint::Chat, &*choice(r#"{"message":{"content":""},"finish_reason":"stop"}"#)),
            (Endpoint::Chat, &choice(r#"{"message":{"content":"a"},"finish_reason":"abort"}"#)),
            (Endpoint::Chat, &choice(r#"{"message":{"content":"a"}},null"#)),
            (Endpoint::Completions, &choice(r#"{"text":""}"#)),
            (Endpoint::Messages, r#"{"type":"message","content":[]}"#),
            (Endpoint::Responses, r#"{"status":"incomplete","output":[],"error":null}"#),
            (Endpoint::Responses, r#"{"status":"queued"}"#),
            (Endpoint::Embeddings, r#"{"object":"list","data":[]}"#),
        ] {
            assert_eq!(failure(endpoint, body), None, "{body}");
        }
    }

    #[test]
    fn errors_in_streams_are_found_in_every_shape() {
        for (endpoint, data) in [
            (Endpoint::Chat, r#"{"object":"error","message":"m","code":500}"#),
            (Endpoint::Chat, r#"{"detail":"m"}"#),
            (Endpoint::Chat, r#"[{"error":{"code":503,"message":"m"}}]"#),
            (Endpoint::Chat, r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"message":"m"}}]}"#),
            (Endpoint::Messages, r#"{"error":{"message":"m"}}"#),
            (Endpoint::Messages, r#"{"detail":"m"}"#),
            (Endpoint::Responses, r#"{"type":"error","message":"m"}"#),
            (Endpoint::Responses, r#"{"type":"error","error":{"message":"m"}}"#),
            (Endpoint::Responses, r#"{"error":{"message":"m"}}"#),
        ] {
            let error = read_event(endpoint, data.as_bytes()).error.unwrap_or_else(|| panic!("{data}"));
            assert_eq!(error.message, "m", "{data}");
        }
        for (endpoint, data) in [
            (Endpoint::Chat, r#"{"choices":[{"delta":{"role":"assistant"}}],"error":null}"#),
            (Endpoint::Chat, r#"{"id":"c","choices":[],"prompt_filter_results":[]}"#),
            (Endpoint::Messages, r#"{"type":"ping"}"#),
            (Endpoint::Messages, r#"{"type":"content_block_stop","index":0}"#),
            (Endpoint::Responses, r#"{"type":"response.created","response":{"error":null}}"#),
        ] {
            assert_eq!(read_event(endpoint, data.as_bytes()).error, None, "{data}");
        }
        let ends = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
        assert!(read_event(Endpoint::Messages, ends.as_bytes()).finished);
    }
}
