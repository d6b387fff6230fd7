//! Fuzz target of this translator.

use super::{Answer, error, to_chat};
use crate::{AnswerTranslator as _, json::is_json};

/// Reads arbitrary bytes as a request, as an answer and as the lines of a stream. Results must be valid JSON and events.
///
/// # Panics
/// If a result is malformed.
pub fn fuzz_responses(bytes: &[u8]) {
    if let Ok((translated, echo)) = to_chat(bytes, &crate::NoStates) {
        assert!(is_json(&translated.body), "a request became malformed: {}", String::from_utf8_lossy(&translated.body));
        let mut answer = Answer::new(echo, "resp_fuzz", || 0);
        let whole = answer.whole(br#"{"choices":[{"message":{"content":"a"}}]}"#).unwrap_or_default();
        assert!(is_json(&whole), "an answer became malformed: {}", String::from_utf8_lossy(&whole));
    }
    assert!(is_json(&error(500, bytes)), "an error became malformed");
    let request =
        br#"{"input":"a","tools":[{"type":"custom","name":"patch"},{"type":"tool_search","execution":"client"},
        {"type":"local_shell"},{"type":"shell"},{"type":"apply_patch"}],
        "reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"]}"#;
    let Ok((_, echo)) = to_chat(request, &crate::NoStates) else { return };
    if let Ok(whole) = Answer::new(echo.clone(), "resp_fuzz", || 0).whole(bytes) {
        assert!(is_json(&whole), "an answer became malformed: {}", String::from_utf8_lossy(&whole));
    }
    let mut answer = Answer::new(echo, "resp_fuzz", || 0);
    let mut out = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if answer.event(line, &mut out).is_err() {
            break;
        }
    }
    for event in String::from_utf8_lossy(&out).split_terminator("\n\n") {
        let data = event.split_once("\ndata: ").map_or("", |(_, data)| data);
        assert!(event.starts_with("event: ") && is_json(data.as_bytes()), "an event became malformed: {event}");
    }
}
