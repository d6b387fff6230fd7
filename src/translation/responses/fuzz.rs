//! Fuzz target of this translator.

use super::{Answer, Options, error, to_chat_with};
use crate::translation::AnswerTranslator as _;

/// Reads arbitrary bytes as a request, as an answer and as the lines of a stream. Results must be valid JSON and events.
///
/// # Panics
/// If a result is malformed.
pub fn fuzz_responses(bytes: &[u8]) {
    let json = |text: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
    let options = Options { history: None, stored: true };
    if let Ok((translated, echo)) = to_chat_with(bytes, &options) {
        assert!(json(&translated.body), "a request became malformed: {}", String::from_utf8_lossy(&translated.body));
        let mut answer = Answer::new(echo, "resp_fuzz", 0);
        let whole = answer.whole(br#"{"choices":[{"message":{"content":"a"}}]}"#).unwrap_or_default();
        assert!(json(&whole), "an answer became malformed: {}", String::from_utf8_lossy(&whole));
    }
    let _ = to_chat_with(br#"{"input":"a"}"#, &Options { history: Some(bytes), stored: false });
    assert!(json(&error(500, bytes)), "an error became malformed");
    let request =
        br#"{"input":"a","tools":[{"type":"custom","name":"patch"},{"type":"tool_search","execution":"client"}],
        "reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"]}"#;
    let Ok((_, echo)) = to_chat_with(request, &Options::default()) else { return };
    if let Ok(whole) = Answer::new(echo.clone(), "resp_fuzz", 0).whole(bytes) {
        assert!(json(&whole), "an answer became malformed: {}", String::from_utf8_lossy(&whole));
    }
    let mut answer = Answer::new(echo, "resp_fuzz", 0);
    let mut out = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if answer.event(line, &mut out).is_err() {
            break;
        }
    }
    for event in String::from_utf8_lossy(&out).split_terminator("\n\n") {
        let data = event.split_once("\ndata: ").map_or("", |(_, data)| data);
        assert!(event.starts_with("event: ") && json(data.as_bytes()), "an event became malformed: {event}");
    }
}
