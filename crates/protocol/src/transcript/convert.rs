//! Answers that came in the other form than the request asked for: a document where a stream was asked for, or a stream
//! where a document was.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::{builder::TranscriptBuilder, native, replay::chat_events};
use crate::{Event, Splitter};
use signalbox_types::Endpoint;

/// A whole answer as the events of a stream; `None` if it is no answer of the endpoint. Chat and completions end with the
/// usage if `include_usage`.
pub fn events_of_whole(endpoint: Endpoint, body: &[u8], include_usage: bool) -> Option<Bytes> {
    let Ok(Value::Object(whole)) = serde_json::from_slice(body) else { return None };
    let events: Vec<Event> = match endpoint {
        Endpoint::Messages => native::message_events(whole)?,
        Endpoint::Responses => native::response_events(&whole)?,
        Endpoint::Chat | Endpoint::Completions => {
            chat_events(endpoint, whole, &[], include_usage).into_iter().map(|(_, event)| event).collect()
        }
        _ => return None,
    };
    let raw: Vec<&[u8]> = events.iter().map(|event| &*event.raw).collect();
    (!raw.is_empty()).then(|| raw.concat().into())
}

/// A whole stream as one document; `None` if it is not a complete answer of the endpoint.
pub fn whole_of_events(endpoint: Endpoint, stream: &Bytes) -> Option<Bytes> {
    let mut splitter = Splitter::new(stream.len());
    splitter.feed(stream.clone());
    let mut events = Vec::new();
    while let Some(event) = splitter.next_event().ok()? {
        events.push(event);
    }
    events.extend(splitter.rest());
    let whole = match endpoint {
        Endpoint::Messages => native::message_of(&events)?,
        Endpoint::Responses => native::response_of(&events)?,
        Endpoint::Chat | Endpoint::Completions => {
            let mut builder = TranscriptBuilder::new(endpoint, false);
            for event in &events {
                builder.push(event, Duration::ZERO);
            }
            builder.whole().ok()?
        }
        _ => return None,
    };
    serde_json::to_vec(&whole).ok().map(Bytes::from)
}

/// Fuzz target: converts arbitrary bytes from either form to the other.
///
/// # Panics
/// If a stream made of a document is not the stream of an answer.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_convert(input: &[u8]) {
    for endpoint in [Endpoint::Chat, Endpoint::Completions, Endpoint::Messages, Endpoint::Responses] {
        if let Some(stream) = events_of_whole(endpoint, input, true) {
            assert!(stream.ends_with(b"\n\n"));
            whole_of_events(endpoint, &stream);
        }
        whole_of_events(endpoint, &Bytes::copy_from_slice(input));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The answer after both conversions.
    fn there_and_back(endpoint: Endpoint, whole: &Value) -> Value {
        let stream = events_of_whole(endpoint, whole.to_string().as_bytes(), true).unwrap();
        serde_json::from_slice(&whole_of_events(endpoint, &stream).unwrap()).unwrap()
    }

    #[test]
    fn answers_survive_both_conversions() {
        let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } });
        let chat = json!({ "id": "x", "object": "chat.completion", "model": "m", "choices": [
            { "index": 0, "message": { "role": "assistant", "content": "Hello", "reasoning_content": "hm" }, "finish_reason": "stop" },
            { "index": 1, "message": { "role": "assistant", "content": null, "tool_calls": [call] }, "finish_reason": "tool_calls" },
        ], "usage": { "prompt_tokens": 3, "completion_tokens": 2 } });
        assert_eq!(there_and_back(Endpoint::Chat, &chat), chat);
        let completion = json!({ "id": "x", "object": "text_completion", "choices": [{ "index": 0, "text": "Hello", "finish_reason": "length" }] });
        assert_eq!(there_and_back(Endpoint::Completions, &completion), completion);
        let message = json!({ "id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": null,
            "content": [
                { "type": "thinking", "thinking": "hm", "signature": "S" },
                { "type": "redacted_thinking", "data": "D" },
                { "type": "text", "text": "Hello" },
                { "type": "tool_use", "id": "t", "name": "f", "input": { "a": 1 } },
                { "type": "tool_use", "id": "u", "name": "g", "input": {} },
            ], "usage": { "input_tokens": 3, "output_tokens": 2 } });
        assert_eq!(there_and_back(Endpoint::Messages, &message), message);
        let response = json!({ "id": "resp", "object": "response", "status": "completed", "model": "m", "output": [
            { "type": "reasoning", "id": "rs", "summary": [{ "type": "summary_text", "text": "hm" }] },
            { "type": "message", "id": "msg", "status": "completed", "role": "assistant", "content": [{ "type": "output_text", "text": "Hello", "annotations": [] }] },
            { "type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed" },
        ], "usage": { "input_tokens": 3, "output_tokens": 2, "total_tokens": 5 } });
        assert_eq!(there_and_back(Endpoint::Responses, &response), response);
    }

    #[test]
    fn a_cut_stream_is_no_answer() {
        let cut = Bytes::from_static(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n");
        assert_eq!(whole_of_events(Endpoint::Chat, &cut), None);
        let cut = Bytes::from_static(b"data: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n");
        assert_eq!(whole_of_events(Endpoint::Messages, &cut), None);
        assert_eq!(whole_of_events(Endpoint::Responses, &cut), None);
        assert_eq!(events_of_whole(Endpoint::Chat, b"{}", true), None);
        assert_eq!(events_of_whole(Endpoint::Embeddings, b"{\"data\":[]}", true), None);
    }
}
