//! Fuzz target, and the check of the event order that the tests share.

use super::{Answer, error, to_chat, without_own_thinking};
use crate::AnswerTranslator as _;

/// The largest output per byte of input, beyond a constant: the gateway's memory is bounded by the caller's body.
const MOST_GROWTH: usize = 40;

/// Fuzz target: reads arbitrary bytes as a request, as a whole answer, as an error, and as the events of a stream, one
/// a line. What is accepted must be valid in the other API.
///
/// # Panics
/// If a translation is not JSON, or a stream breaks the published order of events.
pub fn fuzz_messages(bytes: &[u8]) {
    let is_json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).is_ok();
    if let Ok(translated) = to_chat(bytes, &crate::NoStates) {
        // Escapes of lone surrogates are valid JSON text that `Value` rejects, so only an input that it accepts is
        // checked.
        assert!(is_json(&translated.body) || !is_json(bytes), "the request is not JSON");
        assert!(translated.body.len() <= bytes.len() * MOST_GROWTH + 16_384, "the request grew too much");
    }
    if let Some(body) = without_own_thinking(bytes) {
        assert!(is_json(&body) || !is_json(bytes), "a conversation is not JSON");
    }
    if let Ok(answer) = Answer::new(1).whole(bytes) {
        assert!(is_json(&answer) || !is_json(bytes), "the answer is not JSON");
    }
    assert!(is_json(&error(500, bytes)), "the error is not JSON");
    let mut answer = Answer::new(1);
    let mut out = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if answer.event(line, &mut out).is_err() {
            let _ = answer.event(br#"{"error":{"message":"cut"}}"#, &mut out);
        }
    }
    check_order(&out);
}

/// Asserts that `stream` is a beginning of a valid Messages stream. True if it is complete.
pub(super) fn check_order(stream: &[u8]) -> bool {
    let stream = String::from_utf8_lossy(stream);
    let (mut begun, mut ended, mut failed) = (false, false, false);
    let (mut open, mut next): (Option<u64>, u64) = (None, 0);
    let mut last = String::new();
    for event in stream.split_terminator("\n\n") {
        let parts = event.strip_prefix("event: ").and_then(|event| event.split_once("\ndata: "));
        assert!(parts.is_some_and(|(_, data)| !data.contains('\n')), "not an event: {event}");
        let (name, data) = parts.unwrap_or_default();
        // Lone surrogates fail here, so the checks use what is left.
        let data: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
        if data.is_null() {
            assert!(event.contains("\\u"), "not JSON: {event}");
        }
        assert!(!ended && !failed, "{name} after the end");
        let index = data.get("index").and_then(serde_json::Value::as_u64);
        match name {
            "error" => failed = true,
            "message_start" => assert!(!std::mem::replace(&mut begun, true), "it begins twice"),
            "content_block_start" => {
                assert!(begun && open.is_none(), "a block begins within another");
                assert!(index.is_none_or(|index| index == next), "a wrong index");
                open = Some(next);
                next += 1;
            }
            "content_block_delta" => {
                assert!(open.is_some() && (data.is_null() || index == open), "a delta of another block");
            }
            "content_block_stop" => assert_eq!(open.take(), index, "another block stops"),
            "message_delta" => assert!(begun && open.is_none(), "the end within a block"),
            "message_stop" => {
                assert_eq!(last, "message_delta");
                ended = true;
            }
            "ping" => continue,
            _ => panic!("unknown event {name}"),
        }
        name.clone_into(&mut last);
    }
    ended
}
