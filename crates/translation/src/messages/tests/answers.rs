use serde_json::{Value, json};

use super::{Answer, whole};
use crate::{AnswerTranslator as _, messages::ThinkingDisplay};

fn answer(message: &Value, reason: &str) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": null}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": null}})
}

#[test]
fn a_whole_answer_is_translated() {
    let found = whole(&answer(
        &json!({"role": "assistant", "content": "é\n", "reasoning_content": "why", "refusal": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.50, \"y\": \"\\u00e9\"}"}},
            {"id": "a", "type": "function", "function": {"name": "g", "arguments": ""}}]}),
        "tool_calls",
    ));
    assert_eq!(
        found["content"][0],
        json!({"type": "thinking", "thinking": "why", "signature": "chat.reasoning_content"})
    );
    assert_eq!(found["content"][1], json!({"type": "text", "text": "é\n", "citations": []}));
    assert_eq!(
        found["content"][2],
        json!({"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1.50, "y": "é"}, "caller": {"type": "direct"}})
    );
    assert_eq!(found["content"][3]["input"], json!({}));
    assert_ne!(found["content"][3]["id"], "a", "a repeated id is replaced");
    assert_eq!(found["stop_reason"], "tool_use");
    assert_eq!(found["stop_sequence"], Value::Null);
    assert_eq!(
        (&found["id"], &found["type"], &found["role"], &found["model"]),
        (&json!("msg_chatcmpl-1"), &json!("message"), &json!("assistant"), &json!("m"))
    );
    assert_eq!(
        found["usage"],
        json!({"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 4,
            "output_tokens_details": null, "server_tool_use": null, "cache_creation": null, "inference_geo": null,
            "service_tier": null})
    );
}

#[test]
fn thinking_without_its_text_is_a_signature() {
    let message = json!({"content": "a", "reasoning": "why"});
    for (display, want) in
        [(ThinkingDisplay::Shown, Some("why")), (ThinkingDisplay::Signed, Some("")), (ThinkingDisplay::Hidden, None)]
    {
        let body = answer(&message, "stop").to_string();
        let out = Answer::new(1).displaying(display).whole(body.as_bytes()).unwrap();
        let found: Value = serde_json::from_slice(&out).unwrap();
        let block = |text| json!({"type": "thinking", "thinking": text, "signature": "chat.reasoning"});
        let text = json!({"type": "text", "text": "a", "citations": []});
        let blocks: Value = want.map(block).into_iter().chain([text]).collect();
        assert_eq!(found["content"], blocks);
    }
}

#[test]
fn displays_of_requests() {
    for (thinking, want) in [
        (r#"{"type":"enabled","budget_tokens":1024}"#, ThinkingDisplay::Shown),
        (r#"{"type":"adaptive","display":"summarized"}"#, ThinkingDisplay::Shown),
        (r#"{"type":"adaptive","display":"omitted"}"#, ThinkingDisplay::Signed),
        (r#"{"type":"disabled","display":"omitted"}"#, ThinkingDisplay::Hidden),
        ("null", ThinkingDisplay::Hidden),
    ] {
        assert_eq!(ThinkingDisplay::of(Some(thinking.as_bytes())), want, "{thinking}");
    }
    assert_eq!(ThinkingDisplay::of(None), ThinkingDisplay::Hidden);
}

#[test]
fn arguments_are_copied_byte_for_byte() {
    let body = r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"n\": 1.0e0,\n\"b\":\"\\u00e9\"}"}}]},"finish_reason":"stop"}]}"#;
    let out = String::from_utf8(Answer::new(3).whole(body.as_bytes()).unwrap()).unwrap();
    assert!(out.contains("\"input\":{\"n\": 1.0e0,\n\"b\":\"\\u00e9\"}"), "{out}");
    assert!(out.contains(r#""input_tokens":3"#), "the estimate stands in for missing usage");
}

#[test]
fn broken_arguments_reach_the_caller() {
    for (arguments, want) in [
        (json!("{\"x\": "), json!({"_invalid_arguments": "{\"x\":"})),
        (json!("null"), json!({})),
        (json!("[1]"), json!({"_invalid_arguments": "[1]"})),
        (json!({"x": 1}), json!({"x": 1})),
        (Value::Null, json!({})),
    ] {
        let message =
            json!({"content": "", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": arguments}}]});
        assert_eq!(whole(&answer(&message, "length"))["content"][0]["input"], want);
    }
}

#[test]
fn empty_content_is_omitted() {
    let found = whole(&answer(&json!({"content": "\n\n", "reasoning": ""}), "stop"));
    assert_eq!(found["content"], json!([]));
    assert_eq!(found["stop_reason"], "end_turn");
    let found = whole(&answer(&json!({"content": null, "refusal": "I cannot."}), "stop"));
    assert_eq!((&found["content"][0]["text"], &found["stop_reason"]), (&json!("I cannot."), &json!("refusal")));
}

#[test]
fn an_answer_that_is_none_is_malformed() {
    for body in
        ["", "x", "[]", "{}", r#"{"choices":[]}"#, r#"{"choices":[{"index":0}]}"#, r#"{"error":{"message":"m"}}"#]
    {
        assert!(Answer::new(1).whole(body.as_bytes()).is_err(), "{body}");
    }
    assert_eq!(Answer::new(1).whole(br#"{"error":{"message":"m"}}"#).unwrap_err().to_string(), "m");
}

#[test]
fn token_counts_of_any_spelling_are_counted_beside_the_cache() {
    for (usage, want) in [
        (json!({"prompt_tokens": 100.0, "completion_tokens": "7", "cached_tokens": 80}), [20, 0, 80, 7]),
        (json!({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": []}), [100, 0, 0, 7]),
        (
            json!({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 30}}),
            [30, 30, 40, 7],
        ),
        (json!({"input_tokens": 20, "output_tokens": 7, "cache_read_input_tokens": 80}), [20, 0, 80, 7]),
        // One that is missing is estimated, and leaves the other.
        (json!({"prompt_tokens": -1, "completion_tokens": 7}), [3, 0, 0, 7]),
    ] {
        let mut body = answer(&json!({"content": "a"}), "stop");
        body["usage"] = usage;
        let found = Answer::new(3).whole(body.to_string().as_bytes()).unwrap();
        let found: Value = serde_json::from_slice(&found).unwrap();
        let names = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
        assert_eq!(names.map(|name| found["usage"][name].as_u64().unwrap()), want, "{body}");
    }
}
