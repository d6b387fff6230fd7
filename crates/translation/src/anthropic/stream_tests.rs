//! Answers, whole and streamed.

use serde_json::{Value, json};

use super::{Answer, AnswerTranslator, samples};

/// The events of a stream of one event a line.
pub(super) fn streamed(lines: &str) -> Vec<String> {
    let mut answer = Answer::new(7, true);
    let mut out = Vec::new();
    for line in lines.lines() {
        answer.event(line.as_bytes(), &mut out).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    assert!(text.is_empty() || text.ends_with("\n\n"));
    text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
}

/// Joins the deltas of a stream as the clients of chat completions do: entries of lists by their index.
pub(super) fn collected(events: &[String]) -> Value {
    let mut message = json!({});
    let mut finish = Value::Null;
    let mut usage = Value::Null;
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(last, "[DONE]");
    for event in chunks {
        let mut chunk: Value = serde_json::from_str(event).unwrap();
        assert_eq!(chunk["object"], "chat.completion.chunk");
        if chunk["usage"].is_object() {
            assert_eq!(chunk["choices"], json!([]));
            usage = chunk["usage"].take();
            continue;
        }
        assert_eq!(finish, Value::Null, "a chunk after the finish reason: {event}");
        join(&mut message, &chunk["choices"][0]["delta"]);
        finish = chunk["choices"][0]["finish_reason"].take();
    }
    json!({"message": message, "finish_reason": finish, "usage": usage})
}

fn join(into: &mut Value, delta: &Value) {
    for (name, value) in delta.as_object().unwrap() {
        match (&mut into[name], value) {
            (known @ Value::Null, Value::Array(entries)) => {
                let mut list = json!([]);
                join_entries(&mut list, entries);
                *known = list;
            }
            (known @ Value::Array(_), Value::Array(entries)) => join_entries(known, entries),
            (Value::String(known), Value::String(text)) if name != "type" => known.push_str(text),
            (known @ Value::Object(_), Value::Object(_)) => join(known, value),
            (known, value) => *known = value.clone(),
        }
    }
}

fn join_entries(list: &mut Value, entries: &[Value]) {
    let list = list.as_array_mut().unwrap();
    for entry in entries {
        let index = usize::try_from(entry["index"].as_u64().unwrap()).unwrap();
        assert!(index <= list.len(), "an index was skipped");
        if index == list.len() {
            list.push(json!({}));
        }
        join(&mut list[index], entry);
    }
}

pub(super) fn whole(body: &str) -> Value {
    serde_json::from_slice(&Answer::new(7, true).whole(body.as_bytes()).unwrap()).unwrap()
}

/// A message and its finish reason without the members that only streams have.
pub(super) fn comparable(mut collected: Value) -> Value {
    for list in ["thinking_blocks", "tool_calls"] {
        for entry in collected["message"][list].as_array_mut().into_iter().flatten() {
            entry.as_object_mut().unwrap().remove("index");
        }
    }
    let message = collected["message"].as_object_mut().unwrap();
    message.retain(|_, value| !value.is_null());
    if message.get("content") == Some(&json!("")) {
        message.remove("content");
    }
    collected
}

#[test]
fn a_stream_becomes_chunks() {
    let events = streamed(samples::STREAM);
    let head = r#"{"id":"msg_1","object":"chat.completion.chunk","created":7,"model":"claude-opus-4-8","choices":["#;
    let deltas: Vec<&str> = events
        .iter()
        .filter_map(|event| {
            event.strip_prefix(head)?.strip_prefix(r#"{"index":0,"delta":{"#)?.split_once("},\"logprobs\"")
        })
        .map(|(delta, _)| delta)
        .collect();
    assert_eq!(
        deltas,
        [
            r#""role":"assistant","content":"""#,
            r#""reasoning_content":"Hm,\n","thinking_blocks":[{"index":0,"type":"thinking","thinking":"Hm,\n"}]"#,
            r#""reasoning_content":"Paris.","thinking_blocks":[{"index":0,"type":"thinking","thinking":"Paris."}]"#,
            r#""thinking_blocks":[{"index":0,"type":"thinking","thinking":"","signature":"EqoB"}]"#,
            r#""thinking_blocks":[{"index":1,"type":"redacted_thinking","data":"Zm9v"}]"#,
            r#""content":"Let \u00e9 me""#,
            r#""content":" look.""#,
            r#""tool_calls":[{"index":0,"id":"toolu_1","type":"function","function":{"name":"get_weather","arguments":""}}]"#,
            r#""tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]"#,
            r#""tool_calls":[{"index":0,"function":{"arguments":" \"Paris\"}"}}]"#,
            r#""tool_calls":[{"index":1,"id":"toolu_2","type":"function","function":{"name":"now","arguments":""}}]"#,
            r#""tool_calls":[{"index":1,"function":{"arguments":"{}"}}]"#,
            "",
        ]
    );
    let usage = r#"],"usage":{"prompt_tokens":115,"completion_tokens":89,"total_tokens":204,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens_details":{"reasoning_tokens":40},"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3}}}"#;
    assert_eq!(events[events.len() - 2], format!("{head}{usage}"));
}

#[test]
fn a_whole_answer_equals_its_stream() {
    let got = whole(samples::WHOLE);
    assert_eq!((&got["object"], &got["created"]), (&json!("chat.completion"), &json!(7)));
    let choice = json!({"message": got["choices"][0]["message"], "finish_reason": "tool_calls", "usage": got["usage"]});
    assert_eq!(comparable(choice), comparable(collected(&streamed(samples::STREAM))));
    assert_eq!(got["choices"][0]["message"]["reasoning_content"], "Hm,\nParis.");
    assert_eq!(got["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"city\": \"Paris\"}");
}

#[test]
fn stop_reasons_are_mapped() {
    for (reason, text, want) in [
        ("end_turn", "a", "stop"),
        ("stop_sequence", "a", "stop"),
        ("tool_use", "a", "stop"),
        ("max_tokens", "a", "length"),
        ("model_context_window_exceeded", "a", "length"),
        ("pause_turn", "a", "length"),
        ("refusal", "", "content_filter"),
    ] {
        let body = json!({"id": "m", "model": "c", "content": [{"type": "text", "text": text}], "stop_reason": reason});
        let got = whole(&body.to_string());
        assert_eq!(got["choices"][0]["finish_reason"], want);
        assert_eq!(got["choices"][0]["message"]["content"], text);
        let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
        let lines = format!("{{\"type\":\"message_start\"}}\n{delta}\n{{\"type\":\"message_stop\"}}");
        assert_eq!(collected(&streamed(&lines))["finish_reason"], want);
    }
    let call = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    let got = whole(&json!({"content": [call], "stop_reason": "end_turn"}).to_string());
    assert_eq!(got["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(got["choices"][0]["message"]["content"], Value::Null);
}

#[test]
fn refusals_and_stop_sequences_are_kept() {
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "no"});
    let got = whole(&json!({"content": [], "stop_reason": "refusal", "stop_details": details}).to_string());
    assert_eq!(got["choices"][0]["message"]["refusal"], "no");
    let got = whole(&json!({"content": [], "stop_reason": "stop_sequence", "stop_sequence": "END"}).to_string());
    assert_eq!(got["choices"][0]["stop_reason"], "END");
    let lines = r#"{"type":"message_start","message":{"id":"m","model":"c"}}
{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"explanation":"no"}}}"#;
    let events = streamed(lines);
    assert!(events[1].contains(r#""delta":{"refusal":"no"},"logprobs":null,"finish_reason":"content_filter""#));
}

#[test]
fn an_input_at_the_start_of_a_block_is_whole() {
    let lines = r#"{"type":"message_start","message":{"id":"m","model":"c"}}
{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"a":1}}}
{"type":"message_delta","delta":{"stop_reason":"tool_use"}}
{"type":"message_stop"}
[DONE]"#;
    let got = collected(&streamed(lines));
    assert_eq!(got["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
}

#[test]
fn an_error_ends_the_stream() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#;
    let plain = r#"{"error":{"message":"the connection was lost","type":"server_error","code":"cut"}}"#;
    for (error, want) in [
        (
            overloaded,
            r#"{"error":{"message":"Overloaded","type":"server_error","param":null,"code":"overloaded","request_id":"req_1"}}"#,
        ),
        (plain, r#"{"error":{"message":"the connection was lost","type":"server_error","param":null,"code":"cut"}}"#),
    ] {
        let start = samples::STREAM.lines().next().unwrap();
        let events = streamed(&format!("{start}\n{error}\n{}", samples::STREAM));
        assert_eq!(events.len(), 2);
        assert_eq!(events[1], want);
    }
}

#[test]
fn a_malformed_stream_is_rejected() {
    let start = r#"{"type":"message_start","message":{"id":"m","model":"c"}}"#;
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{}}}"#;
    for (lines, want) in [
        ("{", "EOF while parsing an object at line 1 column 1".to_owned()),
        ("{}", "an event without `type`".to_owned()),
        (r#"{"type":"message_stop"}"#, "message_stop before message_start".to_owned()),
        (&*format!("{start}\n{start}"), "a second message_start".to_owned()),
        (&*format!("{start}\n{block}"), "a tool_use block has no id or no name".to_owned()),
        (&*format!("{start}\n{{\"type\":\"message_stop\"}}"), "the answer ended without a stop reason".to_owned()),
        (
            &*format!("{start}\n{{\"type\":\"content_block_delta\",\"index\":3,\"delta\":{{}}}}"),
            "a delta for block 3, which is not open".to_owned(),
        ),
    ] {
        let mut answer = Answer::new(7, false);
        let mut out = Vec::new();
        let error = lines.lines().find_map(|line| answer.event(line.as_bytes(), &mut out).err());
        assert_eq!(error.map(|error| error.0), Some(want));
    }
    let mut answer = Answer::new(7, false);
    for (body, want) in [
        (r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#, "m"),
        (r#"{"id":"m"}"#, "the answer has no `content`"),
    ] {
        assert_eq!(answer.whole(body.as_bytes()).unwrap_err().0, want);
    }
}
