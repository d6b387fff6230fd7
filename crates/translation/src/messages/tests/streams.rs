use serde_json::{Value, json};

use super::{Answer, check_order, fold, stream};
use crate::{AnswerTranslator as _, messages::ThinkingDisplay};

fn chunk(delta: &Value) -> String {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn usage(prompt: u64, completion: u64) -> String {
    json!({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}}).to_string()
}

/// The blocks of a stream of deltas that ends with `reason`.
fn blocks(deltas: &[Value], reason: &str) -> (Vec<Value>, Value) {
    let mut events: Vec<String> = deltas.iter().map(chunk).collect();
    events.extend([finish(reason), "[DONE]".to_owned()]);
    let folded = stream(&events);
    assert!(folded.complete);
    (folded.blocks, folded.end["delta"]["stop_reason"].clone())
}

#[test]
fn a_text_stream_of_openai_is_exact() {
    let mut answer = Answer::new(7);
    let mut out = Vec::new();
    for event in [
        r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{"content":"H\u00e9 \"x\"\n"},"finish_reason":null}],"usage":null}"#,
        r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
        r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":2}}}"#,
        "[DONE]",
    ] {
        answer.event(event.as_bytes(), &mut out).unwrap();
    }
    let want = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_chatcmpl-9\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"gpt-x\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"stop_details\":null,\"container\":null,\"usage\":{\"input_tokens\":7,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":0,\"server_tool_use\":null,\"output_tokens_details\":null,\"cache_creation\":null,\"inference_geo\":null,\"service_tier\":null}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\",\"citations\":[]}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"H\\u00e9 \\\"x\\\"\\n\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"stop_details\":null,\"container\":null},\"usage\":{\"input_tokens\":4,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":16,\"output_tokens\":5,\"server_tool_use\":null,\"output_tokens_details\":{\"thinking_tokens\":2}}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    assert_eq!(String::from_utf8(out).unwrap(), want);
}

#[test]
fn a_thinking_block_without_text_ends_before_what_follows() {
    let mut answer = Answer::new(1).displaying(ThinkingDisplay::Signed);
    let mut out = Vec::new();
    let deltas = [
        json!({"role": "assistant", "reasoning_content": "\n"}),
        json!({"reasoning_content": "I "}),
        json!({"reasoning_content": "think."}),
        json!({"content": "a"}),
        json!({"reasoning_content": "again"}),
        json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}]}),
    ];
    for event in deltas.iter().map(chunk).chain([finish("tool_calls"), "[DONE]".to_owned()]) {
        answer.event(event.as_bytes(), &mut out).unwrap();
    }
    let folded = fold(&out);
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains("thinking_delta") && !text.contains("think."), "{text}");
    let signed = json!({"type": "thinking", "thinking": "", "signature": "chat.reasoning_content"});
    assert_eq!(folded.blocks[0], signed);
    assert_eq!(folded.blocks[1], json!({"type": "text", "text": "a", "citations": []}));
    assert_eq!((&folded.blocks[2], &folded.blocks[3]["name"]), (&signed, &json!("f")));
}

#[test]
fn thinking_text_and_calls_of_vllm_are_blocks_in_order() {
    let mut events: Vec<String> = [
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning": "I ", "reasoning_content": "I "}),
        json!({"reasoning_content": "think."}),
        json!({"content": "\n\n"}),
        json!({"content": "Calling."}),
        json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]}),
        json!({"content": "\n"}),
        json!({"tool_calls": [{"index": 1, "id": "call_b", "type": "function", "function": {"name": "g", "arguments": ""}}]}),
    ]
    .iter()
    .map(chunk)
    .collect();
    events.extend([finish("tool_calls"), usage(30, 12), "[DONE]".to_owned()]);
    let folded = stream(&events);
    assert!(folded.complete);
    assert_eq!(
        folded.blocks,
        [
            json!({"type": "thinking", "thinking": "I think.", "signature": "chat.reasoning_content"}),
            json!({"type": "text", "text": "\n\nCalling.", "citations": []}),
            json!({"type": "tool_use", "id": "call_a", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}}),
            json!({"type": "tool_use", "id": "call_b", "name": "g", "input": {}, "caller": {"type": "direct"}}),
        ]
    );
    assert_eq!(folded.end["delta"]["stop_reason"], "tool_use");
    assert_eq!(folded.end["usage"]["output_tokens"], 12);
    assert_eq!(folded.names.iter().filter(|name| *name == "content_block_stop").count(), 4);
}

#[test]
fn calls_of_every_engine_are_recognised() {
    let call = |call: Value| json!({"tool_calls": [call]});
    let f = |arguments: &str| json!({"name": "f", "arguments": arguments});
    let two = |a: Value, b: Value| vec![call(a), call(b)];
    let expect = |found: (Vec<Value>, Value), want: &[(&str, Value)]| {
        assert_eq!(found.1, "tool_use");
        let shown: Vec<_> =
            found.0.iter().map(|block| (block["name"].as_str().unwrap(), block["input"].clone())).collect();
        assert_eq!(shown, want);
        let ids: std::collections::BTreeSet<_> = found.0.iter().map(|block| block["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), want.len(), "ids are unique");
        assert!(ids.iter().all(|id| !id.is_empty()));
    };
    // Two whole calls in one chunk.
    let both = json!({"tool_calls": [{"index": 0, "id": "a", "function": f("{}")}, {"index": 1, "id": "b", "function": f("{\"x\":2}")}]});
    expect(blocks(&[both], "stop"), &[("f", json!({})), ("f", json!({"x": 2}))]);
    // Every call has index 0.
    let found = blocks(
        &two(json!({"index": 0, "id": "a", "function": f("{}")}), json!({"index": 0, "id": "b", "function": f("{}")})),
        "tool_calls",
    );
    expect(found, &[("f", json!({})), ("f", json!({}))]);
    // Index 0 and empty ids.
    let found = blocks(
        &two(json!({"index": 0, "id": "", "function": f("{}")}), json!({"index": 0, "id": "", "function": f("{}")})),
        "tool_calls",
    );
    expect(found, &[("f", json!({})), ("f", json!({}))]);
    // Neither indices nor ids.
    let found = blocks(&two(json!({"function": f("{\"x\":1}")}), json!({"function": f("{}")})), "stop");
    expect(found, &[("f", json!({"x": 1})), ("f", json!({}))]);
    // Indices without ids.
    let found = blocks(&two(json!({"index": 0, "function": f("")}), json!({"index": 1, "function": f("{}")})), "stop");
    expect(found, &[("f", json!({})), ("f", json!({}))]);
    // Ids with one index, and a call without arguments.
    let found = blocks(
        &two(json!({"index": 0, "id": "a", "function": f("")}), json!({"index": 0, "id": "b", "function": f("{}")})),
        "stop",
    );
    expect(found, &[("f", json!({})), ("f", json!({}))]);
    // Neither indices nor ids, and white space after the arguments.
    let found = blocks(&two(json!({"function": f("{}\n")}), json!({"function": f("{}")})), "stop");
    expect(found, &[("f", json!({})), ("f", json!({}))]);
    // An id only in the second call.
    let found = blocks(&two(json!({"function": f("")}), json!({"id": "b", "function": f("{}")})), "stop");
    expect(found, &[("f", json!({})), ("f", json!({}))]);
    // Another name under the same index.
    let found = blocks(
        &two(json!({"index": 0, "function": f("")}), json!({"index": 0, "function": {"name": "g", "arguments": "{}"}})),
        "stop",
    );
    expect(found, &[("f", json!({})), ("g", json!({}))]);
    // One id for two calls.
    let found = blocks(
        &two(json!({"index": 0, "id": "a", "function": f("{}")}), json!({"index": 1, "id": "a", "function": f("{}")})),
        "stop",
    );
    expect(found, &[("f", json!({})), ("f", json!({}))]);
    // Id and name in every delta.
    let found = blocks(
        &two(
            json!({"index": 0, "id": "a", "function": f("{\"x\":")}),
            json!({"index": 0, "id": "a", "function": f("3}")}),
        ),
        "stop",
    );
    expect(found, &[("f", json!({"x": 3}))]);
    // The id, then the name, then arguments as an object.
    let found = blocks(
        &[
            call(json!({"index": 0, "id": "a", "function": {"arguments": ""}})),
            call(json!({"index": 0, "function": {"name": "f"}})),
            call(json!({"index": 0, "function": {"arguments": {"x": "\n"}}})),
        ],
        "function_call",
    );
    expect(found, &[("f", json!({"x": "\n"}))]);
    // Arguments before the name.
    let found = blocks(
        &two(
            json!({"index": 0, "id": "a", "function": {"arguments": "{\"x\""}}),
            json!({"index": 0, "function": f(":4}")}),
        ),
        "stop",
    );
    expect(found, &[("f", json!({"x": 4}))]);
    // The retired form.
    let found = blocks(
        &[
            json!({"function_call": {"name": "f", "arguments": "{\"x\""}}),
            json!({"function_call": {"arguments": ":5}"}}),
        ],
        "function_call",
    );
    expect(found, &[("f", json!({"x": 5}))]);
}

#[test]
fn stop_reasons_are_translated() {
    for (reason, want) in [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "end_turn"),
        ("eos", "end_turn"),
    ] {
        assert_eq!(blocks(&[json!({"content": "a"})], reason).1, want);
    }
    assert_eq!(blocks(&[json!({"refusal": "no"})], "stop").1, "refusal");
    for (field, value, want) in [
        ("stop_reason", json!("</s>\n"), json!("</s>\n")),
        ("matched_stop", json!("X"), json!("X")),
        ("stop_reason", json!(151_645), Value::Null),
    ] {
        let last = json!({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop", field: value}]})
            .to_string();
        let folded = stream(&[last.as_str(), "[DONE]"]);
        assert_eq!(folded.end["delta"]["stop_sequence"], want);
        assert_eq!(folded.end["delta"]["stop_reason"], if want.is_null() { "end_turn" } else { "stop_sequence" });
    }
}

#[test]
fn blocks_of_white_space_are_omitted() {
    assert_eq!(
        blocks(&[json!({"reasoning_content": "\n\n"}), json!({"content": "\n"})], "stop").0,
        Vec::<Value>::new()
    );
    assert_eq!(blocks(&[json!({"content": " \t\r\n"})], "stop").0, Vec::<Value>::new());
    let long = " ".repeat(300);
    assert_eq!(blocks(&[json!({"content": long})], "stop").0, [json!({"type": "text", "text": long, "citations": []})]);
}

#[test]
fn reasoning_after_text_begins_a_block() {
    let found = blocks(&[json!({"content": "a"}), json!({"reasoning": "b"}), json!({"content": "c"})], "stop").0;
    let kinds: Vec<_> = found.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "thinking", "text"]);
    assert_eq!(found[1]["signature"], "chat.reasoning");
}

#[test]
fn content_lists_of_mistral_are_read() {
    let found = blocks(
        &[
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}]}),
            json!({"content": [{"type": "text", "text": "a"}]}),
        ],
        "stop",
    );
    assert_eq!(
        found.0,
        [
            json!({"type": "thinking", "thinking": "t", "signature": "chat.reasoning_content"}),
            json!({"type": "text", "text": "a", "citations": []})
        ]
    );
}

#[test]
fn usage_in_every_chunk_and_missing_usage() {
    let first = json!({"id": "a", "choices": [{"index": 0, "delta": {"content": "x"}}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}).to_string();
    let folded = stream(&[first, finish("stop"), "[DONE]".to_owned()]);
    assert_eq!(folded.start["usage"]["input_tokens"], 9);
    assert_eq!(folded.end["usage"]["input_tokens"], 9);
    let folded = stream(&[
        chunk(&json!({"content": "x"})),
        chunk(&json!({"content": "y"})),
        finish("stop"),
        "[DONE]".to_owned(),
    ]);
    assert_eq!(folded.start["usage"]["input_tokens"], 11);
    assert_eq!((&folded.end["usage"]["input_tokens"], &folded.end["usage"]["output_tokens"]), (&json!(11), &json!(2)));
}

#[test]
fn an_error_ends_the_stream() {
    let error = json!({"error": {"message": "out of memory", "type": "server_error", "code": 503}}).to_string();
    let folded = stream(&[chunk(&json!({"content": "x"})), error, finish("stop"), "[DONE]".to_owned()]);
    assert_eq!(folded.error, json!({"type": "overloaded_error", "message": "out of memory"}));
    assert_eq!(folded.names, ["message_start", "content_block_start", "content_block_delta", "error"]);
    let folded = stream(&[r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#]);
    assert_eq!(folded.error, json!({"type": "invalid_request_error", "message": "bad"}));
}

#[test]
fn a_stream_without_its_end_has_no_end_event() {
    let mut answer = Answer::new(1);
    let mut out = Vec::new();
    answer.event(chunk(&json!({"content": "x"})).as_bytes(), &mut out).unwrap();
    answer.end(&mut out);
    assert!(!check_order(&out), "it was cut");
    answer.event(b"[DONE]", &mut out).unwrap();
    assert_eq!(
        (fold(&out).complete, &fold(&out).end["delta"]["stop_reason"]),
        (true, &json!("end_turn")),
        "it is whole"
    );
    let mut answer = Answer::new(1);
    let mut out = Vec::new();
    answer.event(finish("stop").as_bytes(), &mut out).unwrap();
    assert!(!check_order(&out), "the finish reason alone is not the end");
    answer.event(b"[DONE]", &mut out).unwrap();
    assert!(fold(&out).complete && fold(&out).blocks.is_empty());
    assert!(Answer::new(1).event(b"not json", &mut out).is_err());
    let mut out = Vec::new();
    Answer::new(1).event(finish("abort").as_bytes(), &mut out).unwrap();
    assert!(fold(&out).error["message"].as_str().unwrap().contains("`abort`"));
}

#[test]
fn interleaved_calls_follow_one_another() {
    let call = |index: u64, id: Option<&str>, arguments: &str| {
        let name = id.map(|id| format!("f{id}"));
        json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]})
    };
    let text = |text: &str| json!({ "content": text });
    let (a, b) = (call(0, Some("a"), "{\"x\":"), call(1, Some("b"), "{\"x\":"));
    let (more_a, more_b) = (call(0, None, "1}"), call(1, None, "2}"));
    let shown = |deltas: &[Value]| {
        let (blocks, _) = blocks(deltas, "tool_calls");
        blocks
            .iter()
            .map(|block| block["input"]["x"].to_string() + block["text"].as_str().unwrap_or(""))
            .collect::<Vec<_>>()
    };
    for order in [[&a, &more_a, &b, &more_b], [&a, &b, &more_a, &more_b], [&a, &b, &more_b, &more_a]] {
        assert_eq!(shown(&order.map(Clone::clone)), ["1", "2"]);
    }
    assert_eq!(shown(&[a.clone(), text("so"), more_a.clone(), b.clone(), more_b]), ["1", "nullso", "2"]);
    let announced =
        [call(0, Some("a"), ""), call(1, Some("b"), ""), call(1, None, "{\"x\":2}"), call(0, None, "{\"x\":1}")];
    assert_eq!(shown(&announced), ["1", "2"]);
    // A call without arguments holds the next one up until the end.
    assert_eq!(shown(&[call(0, Some("a"), ""), b, call(1, None, "2}")]), ["null", "2"]);
    // What a limit cut off is shown as far as it came.
    let mut answer = Answer::new(1);
    let mut out = Vec::new();
    for delta in [a, text("so")] {
        answer.event(chunk(&delta).as_bytes(), &mut out).unwrap();
    }
    answer.event(finish("length").as_bytes(), &mut out).unwrap();
    answer.event(b"[DONE]", &mut out).unwrap();
    assert!(check_order(&out));
}

#[test]
fn arguments_in_every_form_are_objects() {
    for (pieces, want) in [
        (&["null"][..], json!({})),
        (&[" ", "\n"], json!({})),
        (&["{}", "{\"a\":1}"], json!({"a": 1})),
        (&["\"{\\\"a\\\"", ":1}\""], json!({"a": 1})),
        (&["[1]"], json!({"_invalid_arguments": "[1]"})),
    ] {
        let first = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]});
        let piece = |piece: &&str| json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]});
        let deltas: Vec<Value> = std::iter::once(first).chain(pieces.iter().map(piece)).collect();
        assert_eq!(blocks(&deltas, "tool_calls").0[0]["input"], want, "{pieces:?}");
    }
}

#[test]
fn the_first_chunk_of_azure_and_repeated_messages_are_ignored() {
    let folded = stream(&[
        r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}"#,
        r#"{"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"message":{"content":"a"},"finish_reason":null}]}"#,
        r#"{"id":"x","model":"m","choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"b"},"message":{"content":"ab"},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]);
    assert_eq!((&folded.start["id"], &folded.start["model"]), (&json!("msg_x"), &json!("m")));
    assert_eq!(folded.blocks, [json!({"type": "text", "text": "ab", "citations": []})]);
}

#[test]
fn a_call_that_says_nothing_is_none() {
    let found = blocks(&[json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": ""}}]})], "stop");
    assert_eq!(found, (Vec::new(), json!("end_turn")));
}

#[test]
fn text_after_the_finish_reason_is_kept() {
    let folded = stream(&[
        chunk(&json!({"content": "a"})),
        finish("stop"),
        chunk(&json!({"content": "b"})),
        "[DONE]".to_owned(),
    ]);
    assert!(folded.complete);
    assert_eq!(folded.blocks.len(), 2);
}

#[test]
fn repeated_events_change_nothing() {
    let role = chunk(&json!({"role": "assistant", "content": ""}));
    let stopped = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}]});
    let folded = stream(&[
        role.clone(),
        role.clone(),
        chunk(&json!({"role": "assistant", "content": "a"})),
        chunk(&json!({})),
        chunk(&json!({"content": null, "reasoning_content": null, "tool_calls": null})),
        chunk(&json!({"content": "b", "tool_calls": []})),
        role,
        stopped.to_string(),
        finish("stop"),
        chunk(&json!({"content": ""})),
        usage(3, 2),
        usage(3, 2),
        "[DONE]".to_owned(),
        "[DONE]".to_owned(),
        usage(9, 9),
    ]);
    assert!(folded.complete);
    assert_eq!(folded.blocks, [json!({"type": "text", "text": "ab", "citations": []})]);
    assert_eq!(folded.names.iter().filter(|name| *name == "message_start").count(), 1);
    assert_eq!(folded.names.iter().filter(|name| *name == "message_delta").count(), 1);
    assert_eq!(
        (&folded.end["delta"]["stop_sequence"], &folded.end["usage"]["output_tokens"]),
        (&json!("END"), &json!(2))
    );
}
