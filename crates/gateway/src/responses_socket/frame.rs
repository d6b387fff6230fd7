//! Frames that the gateway writes: events of a stream with their lane, errors, and the events of a turn that generates
//! nothing.

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use signalbox_protocol::error;
use signalbox_types::{Endpoint, Fault};

/// Headers of an answer that clients read beside an error.
const SHOWN: [&str; 6] = [
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-signalbox-reason",
];

/// An event as a frame: its data, with the lane as first member if the client named one.
pub(super) fn event(data: &[u8], lane: Option<&str>) -> String {
    let data = String::from_utf8_lossy(data.trim_ascii());
    match (lane, data.strip_prefix('{')) {
        (Some(lane), Some(rest)) => {
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            format!("{{\"stream_id\":{}{comma}{rest}", Value::from(lane))
        }
        _ => data.into_owned(),
    }
}

/// The event of an error within a stream as a frame, which has the error as a member of its own.
pub(super) fn error_event(data: &[u8], lane: Option<&str>) -> String {
    let Ok(Value::Object(mut event)) = serde_json::from_slice(data) else { return self::event(data, lane) };
    if !event.contains_key("error") {
        let of = |name: &str| event.get(name).cloned().unwrap_or_default();
        let error = json!({
            "type": "server_error", "code": of("code"), "message": of("message"), "param": of("param"),
        });
        event.insert("error".to_owned(), error);
    }
    event.entry("status").or_insert_with(|| StatusCode::INTERNAL_SERVER_ERROR.as_u16().into());
    self::event(Value::Object(event).to_string().as_bytes(), lane)
}

/// An answer that is no stream as a frame: an error.
pub(super) fn error_answer(status: StatusCode, headers: &HeaderMap, body: &[u8], lane: Option<&str>) -> String {
    let error = serde_json::from_slice::<Value>(body).ok().and_then(|mut body| body.get_mut("error").map(Value::take));
    let error = error.unwrap_or_else(|| {
        let message = "the answer is not a stream of events";
        json!({ "type": "server_error", "code": "upstream_garbage", "message": message, "param": null })
    });
    let shown = SHOWN.iter().filter_map(|name| Some((*name, headers.get(*name)?.to_str().ok()?)));
    let headers: serde_json::Map<_, _> = shown.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let frame = json!({ "type": "error", "status": status.as_u16(), "error": error, "headers": headers });
    event(frame.to_string().as_bytes(), lane)
}

/// A fault as a frame.
pub(super) fn fault(fault: &Fault, lane: Option<&str>) -> String {
    error_answer(fault.status, &HeaderMap::new(), &error::body(Some(Endpoint::Responses), fault), lane)
}

/// The events of a turn that generates nothing.
pub(super) fn announced(id: &str, model: Option<&str>, created_at: i64, lane: Option<&str>) -> [String; 2] {
    let response = |status: &str| {
        json!({
            "id": id, "object": "response", "created_at": created_at, "status": status, "model": model, "output": [],
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "tools": [],
            "tool_choice": "auto", "parallel_tool_calls": true, "temperature": null, "top_p": null, "store": false,
            "usage": {
                "input_tokens": 0, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": 0, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 0,
            },
        })
    };
    let of = |kind: &str, number: u32, status: &str| {
        let frame = json!({ "type": kind, "sequence_number": number, "response": response(status) });
        event(frame.to_string().as_bytes(), lane)
    };
    [of("response.created", 0, "in_progress"), of("response.completed", 1, "completed")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_name_their_lane() {
        assert_eq!(event(br#"{"type":"x"}"#, None), r#"{"type":"x"}"#);
        assert_eq!(event(br#" {"type":"x"}"#, Some("a\"")), r#"{"stream_id":"a\"","type":"x"}"#);
        assert_eq!(event(b"{}", Some("a")), r#"{"stream_id":"a"}"#);
    }

    #[test]
    fn errors_have_one_form() {
        let frame: Value = serde_json::from_str(&error_event(
            br#"{"type":"error","code":"c","message":"m","param":null,"sequence_number":3}"#,
            None,
        ))
        .unwrap();
        assert_eq!((&frame["error"]["message"], &frame["status"]), (&json!("m"), &json!(500)));
        let fault = Fault::field("type", "no");
        let frame: Value = serde_json::from_str(&self::fault(&fault, Some("a"))).unwrap();
        assert_eq!((&frame["status"], &frame["error"]["message"]), (&json!(400), &json!("no")));
        assert_eq!((&frame["type"], &frame["stream_id"]), (&json!("error"), &json!("a")));
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "3".parse().unwrap());
        let frame = error_answer(StatusCode::BAD_GATEWAY, &headers, b"<html>", None);
        let frame: Value = serde_json::from_str(&frame).unwrap();
        assert_eq!((&frame["headers"]["retry-after"], &frame["status"]), (&json!("3"), &json!(502)));
    }
}
