//! Reads one event of a streamed answer, or a whole answer: tokens, usage, the end, errors. Reads lazily and never
//! changes bytes.

use serde::Deserialize;

use super::{anthropic, event_facts::EventFacts, json, openai, responses};
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
    seen.unwrap_or_else(|_| {
        let broken = !json::is_json(data);
        EventFacts { alive: !broken, broken, ..EventFacts::default() }
    })
}

/// A body that should be JSON is not.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON")]
pub struct NotJson;

/// Checks that a whole answer is JSON, and reads its token counts if it has any, limited to what its length allows;
/// usually in one pass.
pub fn read_whole(endpoint: Endpoint, body: &[u8]) -> Result<Option<Usage>, NotJson> {
    #[derive(Deserialize)]
    struct Answer<U> {
        usage: Option<U>,
    }
    fn usage<'a, U: Deserialize<'a> + Into<Usage>>(body: &'a [u8]) -> serde_json::Result<Option<Usage>> {
        Ok(serde_json::from_slice::<Answer<U>>(body)?.usage.map(Into::into))
    }
    let read = match endpoint {
        Endpoint::Responses => usage::<responses::RawUsage>(body),
        Endpoint::Messages => usage::<anthropic::RawUsage>(body),
        _ => usage::<openai::RawUsage>(body),
    };
    // A token takes at least one byte, except for reasoning that the engine hides.
    let limited = |usage: Usage| usage.within_bytes(body.len() as u64);
    read.map(|usage| usage.map(limited)).or_else(|_| if json::is_json(body) { Ok(None) } else { Err(NotJson) })
}

/// Fuzz target: reads arbitrary bytes as an event of every endpoint.
///
/// # Panics
/// If valid JSON is reported as broken, or invalid JSON as valid.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_answer(input: &[u8]) {
    for endpoint in Endpoint::ALL {
        let seen = read_event(endpoint, input);
        assert!(!seen.broken || !json::is_json(input));
        assert_eq!(read_whole(endpoint, input).is_ok(), json::is_json(input));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamError;

    fn stream_error(message: &str, status: Option<u16>) -> StreamError {
        StreamError { message: message.to_owned(), status }
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
            Some(stream_error("out of memory", Some(500)))
        );
        assert_eq!(chat(r#"{"error":"oops"}"#).error, Some(stream_error("\"oops\"", None)));
        assert!(chat("{\"choices\":").broken);
        let finish = chat(r#"{"choices":[{"index":0,"delta":{}},{"index":2,"delta":{},"finish_reason":"stop"}]}"#);
        assert_eq!((finish.choices, finish.finished_choices, finish.finished), (0b101, 0b100, true));
        let opaque = EventFacts { alive: true, ..EventFacts::default() };
        assert_eq!(chat(r#"["a shape nobody foresaw"]"#), opaque);
        assert_eq!(chat(r#"{"choices":"odd"}"#), opaque);
        let odd = chat(r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1.5}}"#);
        assert!(odd.token && odd.usage.is_none());
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
            Some(stream_error("overloaded", None))
        );
    }

    #[test]
    fn usage_is_read_from_whole_answers() {
        let body = br#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}"#;
        let usage_of = |endpoint, body| read_whole(endpoint, body).unwrap().unwrap();
        assert_eq!(usage_of(Endpoint::Chat, &body[..]).reasoning_tokens, Some(1));
        let body = br#"{"usage":{"input_tokens":3,"output_tokens":2,"cache_read_input_tokens":10}}"#;
        assert_eq!(usage_of(Endpoint::Messages, body).prompt_tokens, 13);
        let body = br#"{"usage":{"input_tokens":18446744073709551615,"cache_read_input_tokens":1}}"#;
        assert_eq!(usage_of(Endpoint::Messages, body).prompt_tokens, u64::MAX);
        let body = br#"{"usage":{"prompt_tokens":3,"total_tokens":3}}"#;
        assert_eq!(usage_of(Endpoint::Embeddings, body).prompt_tokens, 3);
        assert_eq!(read_whole(Endpoint::Chat, b"[1]"), Ok(None));
        assert_eq!(read_whole(Endpoint::Chat, b"<html>"), Err(NotJson));
    }
}
