//! Conversations as clients send them.

use serde_json::{Value, json};

use super::{Defaults, Unsupported, from_chat, samples};

pub(super) fn translated(chat: &Value) -> (Value, Vec<String>) {
    let translated = from_chat(chat.to_string().as_bytes(), &Defaults { max_tokens: 4096 }).unwrap();
    (serde_json::from_slice(&translated.body).unwrap(), translated.dropped)
}

/// A request with `members`, and a user message unless they have messages.
pub(super) fn with(members: &Value) -> Value {
    let mut chat = json!({"model": "claude-opus-4-8", "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in members.as_object().unwrap() {
        chat[name] = value.clone();
    }
    chat
}

pub(super) fn rejected(members: &Value) -> Unsupported {
    from_chat(with(members).to_string().as_bytes(), &Defaults { max_tokens: 4096 }).unwrap_err()
}

/// The translation of `messages` by a model that is not Claude.
fn messages(messages: &Value) -> Value {
    translated(&json!({"model": "m", "messages": messages})).0["messages"].clone()
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn a_request_with_tools_is_translated() {
    let got = from_chat(samples::REQUEST.as_bytes(), &Defaults { max_tokens: 4096 }).unwrap();
    assert_eq!(got.dropped, ["messages[].content[].image_url.detail"]);
    assert_eq!(String::from_utf8(got.body).unwrap(), samples::TRANSLATED.replace('\n', ""));
}

#[test]
fn raw_json_is_kept_byte_for_byte() {
    let chat = r#"{"model":"m","messages":[{"role":"user","content":"\u00e9\/ 1"},{"role":"assistant","content":null,
        "tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1.50e1, \"y\":\"\\u00e9\"}"}}]},
        {"role":"tool","tool_call_id":"a","content":"\u0041"}],
        "tools":[{"type":"function","function":{"name":"f","parameters":{ "type":"object", "n": 1.0e2 }}}],"temperature":0.70}"#;
    let body = from_chat(chat.as_bytes(), &Defaults { max_tokens: 1 }).unwrap().body;
    let body = String::from_utf8(body).unwrap();
    for want in [
        r#""text":"\u00e9\/ 1""#,
        r#""input":{"x": 1.50e1, "y":"\u00e9"}"#,
        r#""content":"\u0041""#,
        r#""input_schema":{ "type":"object", "n": 1.0e2 }"#,
        r#""temperature":0.70"#,
    ] {
        assert!(body.contains(want), "{want} in {body}");
    }
}

#[test]
fn leading_system_messages_become_the_system_prompt() {
    let (got, _) = translated(&json!({"model": "claude-opus-4-5", "messages": [
        {"role": "system", "content": "a", "cache_control": {"type": "ephemeral"}},
        {"role": "developer", "content": [text("b"), text(" ")]},
        {"role": "user", "content": "hi"},
    ]}));
    let cached = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
    assert_eq!(got["system"], json!([cached, text("b")]));
    assert_eq!(got["messages"], json!([{"role": "user", "content": [text("hi")]}]));
}

#[test]
fn later_system_messages_keep_their_position() {
    let chat = json!([
        {"role": "user", "content": "a"},
        {"role": "system", "content": "one"},
        {"role": "developer", "content": "two"},
        {"role": "assistant", "content": "b"},
        {"role": "system", "content": "three"},
        {"role": "user", "content": "c"},
    ]);
    let tagged = |name: &str| text(&format!("<system>\n{name}\n</system>"));
    assert_eq!(
        translated(&json!({"model": "claude-opus-4-8", "messages": chat})).0["messages"],
        json!([
            {"role": "user", "content": [text("a")]},
            {"role": "system", "content": [text("one"), text("two")]},
            {"role": "assistant", "content": [text("b")]},
            {"role": "user", "content": [tagged("three"), text("c")]},
        ])
    );
    assert_eq!(
        messages(&chat),
        json!([
            {"role": "user", "content": [text("a"), tagged("one"), tagged("two")]},
            {"role": "assistant", "content": [text("b")]},
            {"role": "user", "content": [tagged("three"), text("c")]},
        ])
    );
}

#[test]
fn results_come_first_in_the_turn_after_calls() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": ""}});
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let got = messages(&json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [call("functions.f:0"), call("b")]},
        {"role": "system", "content": "s"},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": ""},
        {"role": "user", "content": "early"},
        {"role": "tool", "tool_call_id": "b", "content": [
            text("x"), {"type": "image_url", "image_url": {"url": "https://h/i.png"}},
        ], "is_error": true},
        {"role": "user", "content": "late"},
    ]));
    assert_eq!(
        got,
        json!([
            {"role": "user", "content": [text("a")]},
            {"role": "assistant", "content": [used("functions_f_0"), used("b")]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "functions_f_0"},
                {"type": "tool_result", "tool_use_id": "b", "content": [
                    text("x"), {"type": "image", "source": {"type": "url", "url": "https://h/i.png"}},
                ], "is_error": true},
                text("<system>\ns\n</system>"),
                text("early"),
                text("late"),
            ]},
        ])
    );
}

#[test]
fn arguments_that_are_no_object_are_kept_in_a_member() {
    for (arguments, want) in [
        (json!(""), json!({})),
        (json!("null"), json!({})),
        (json!(" {\"a\":1} "), json!({"a": 1})),
        (json!({"a": 1}), json!({"a": 1})),
        (json!("[1]"), json!({"arguments": [1]})),
        (json!("{\"a\": \"cut"), json!({"arguments": "{\"a\": \"cut"})),
    ] {
        let call = json!({"id": "a", "function": {"name": "f", "arguments": arguments}});
        let got = messages(&json!([{"role": "assistant", "tool_calls": [call]}]));
        assert_eq!(got[0]["content"][0]["input"], want);
    }
}

#[test]
fn empty_contents_are_left_out() {
    let got = messages(&json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [text(" \n"), text("b")]},
        {"role": "assistant", "content": "prefix \n"},
    ]));
    assert_eq!(
        got,
        json!([
            {"role": "user", "content": [text("a"), text("b")]},
            {"role": "assistant", "content": [text("prefix")]},
        ])
    );
    for (messages, param) in [
        (json!([]), "messages"),
        (json!([{"role": "system", "content": "s"}]), "messages"),
        (
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": ""}]),
            "messages[2].content",
        ),
    ] {
        assert_eq!(rejected(&json!({"messages": messages})).param, param);
    }
}

#[test]
fn a_model_that_continues_no_turn_is_asked_for_the_rest() {
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b \n"}]);
    let last = |model: &str| {
        let mut got = translated(&json!({"model": model, "messages": messages})).0;
        let turns = got["messages"].as_array_mut().unwrap();
        (turns.len(), turns.pop().unwrap())
    };
    let prefill = json!({"role": "assistant", "content": [text("b")]});
    for model in ["claude-sonnet-4-5", "glm-5"] {
        assert_eq!(last(model), (2, prefill.clone()), "{model}");
    }
    for model in ["claude-opus-4-6", "claude-sonnet-5"] {
        assert_eq!(last(model), (3, json!({"role": "user", "content": [text(super::messages::CONTINUE)]})), "{model}");
    }
}

#[test]
fn what_other_models_drew_is_left_out() {
    let drawn = json!([text("here"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]);
    let (got, dropped) = translated(&with(&json!({"messages": [
        {"role": "user", "content": "draw"}, {"role": "assistant", "content": drawn}, {"role": "user", "content": "more"}]})));
    assert_eq!(got["messages"][1]["content"], json!([text("here")]));
    assert_eq!(dropped, ["messages[].content[].image_url"]);
}

#[test]
fn thinking_is_sent_back_from_both_forms() {
    let whole = json!([
        {"type": "thinking", "thinking": "one", "signature": "s1", "index": 0},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "thinking", "thinking": "", "signature": "s2"},
    ]);
    let pieces = json!([
        {"index": 0, "type": "thinking", "thinking": "o"},
        {"type": "thinking", "thinking": "ne", "signature": ""},
        {"type": "thinking", "thinking": "", "signature": "s1"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "thinking", "signature": "s2"},
    ]);
    for blocks in [whole, pieces] {
        let got = messages(
            &json!([{"role": "assistant", "content": "t", "reasoning_content": "one", "thinking_blocks": blocks}]),
        );
        assert_eq!(
            got[0]["content"],
            json!([
                {"type": "thinking", "thinking": "one", "signature": "s1"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "thinking", "thinking": "", "signature": "s2"},
                text("t"),
            ])
        );
    }
    let (got, dropped) =
        translated(&with(&json!({"messages": [{"role": "assistant", "content": "t", "reasoning_content": "r",
        "thinking_blocks": [{"type": "thinking", "thinking": "unsigned"}]}]})));
    assert_eq!(got["messages"][0]["content"], json!([text("t")]));
    assert_eq!(dropped, ["messages[].reasoning_content"]);
    let unsigned = json!([{"role": "assistant", "content": "t", "reasoning_content": "r"}]);
    let thinking = json!({"type": "thinking", "thinking": "r", "signature": ""});
    assert_eq!(messages(&unsigned)[0]["content"], json!([thinking, text("t")]));
}

#[test]
fn images_and_files_become_blocks() {
    let part =
        |url: &str| json!({"type": "image_url", "image_url": {"url": url}, "cache_control": {"type": "ephemeral"}});
    let file = |file: Value| json!({"type": "file", "file": file});
    let base64 = |kind: &str| json!({"type": "base64", "media_type": kind, "data": "QUJD"});
    for (part, want) in [
        (
            part("data:image/jpg;base64,QUJD"),
            json!({"type": "image", "source": base64("image/jpeg"), "cache_control": {"type": "ephemeral"}}),
        ),
        (
            part("HTTPS://h/i"),
            json!({"type": "image", "source": {"type": "url", "url": "HTTPS://h/i"}, "cache_control": {"type": "ephemeral"}}),
        ),
        (
            json!({"type": "image_url", "image_url": "https://h/i"}),
            json!({"type": "image", "source": {"type": "url", "url": "https://h/i"}}),
        ),
        (
            file(json!({"file_data": "data:application/pdf;base64,QUJD", "filename": "a.pdf"})),
            json!({"type": "document", "source": base64("application/pdf"), "title": "a.pdf"}),
        ),
        (
            file(json!({"file_data": "QUJD", "filename": "A.PDF"})),
            json!({"type": "document", "source": base64("application/pdf"), "title": "A.PDF"}),
        ),
        (
            file(json!({"file_id": "https://h/a.pdf"})),
            json!({"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}}),
        ),
    ] {
        assert_eq!(messages(&json!([{"role": "user", "content": [part]}]))[0]["content"], json!([want]));
    }
    for (part, param) in [
        (part("gs://b/i.png"), "messages[0].content[0].image_url"),
        (part("data:image/png,QUJD"), "messages[0].content[0].image_url"),
        (json!({"type": "image_url"}), "messages[0].content[0].image_url"),
        (file(json!({"file_id": "file-1"})), "messages[0].content[0].file"),
        (file(json!({"file_data": "data:application/zip;base64,QUJD"})), "messages[0].content[0].file.file_data"),
        (json!({"type": "input_audio", "input_audio": {}}), "messages[0].content[0].type"),
        (json!({"type": "video_url"}), "messages[0].content[0].type"),
    ] {
        assert_eq!(rejected(&json!({"messages": [{"role": "user", "content": [part]}]})).param, param);
    }
}

#[test]
fn null_counts_as_absent() {
    let nulls = json!({"tools": null, "tool_choice": null, "temperature": null, "top_p": null, "top_k": null, "stop": null,
        "max_tokens": null, "max_completion_tokens": null, "response_format": null, "reasoning_effort": null, "reasoning": null,
        "thinking": null, "user": null, "metadata": null, "seed": null, "n": null, "logprobs": null, "stream": null,
        "stream_options": null, "parallel_tool_calls": null, "functions": null, "logit_bias": null, "store": null});
    assert_eq!(translated(&with(&nulls)), translated(&with(&json!({}))));
    let nested = json!({"messages": [
        {"role": "user", "name": null, "content": [{"type": "text", "text": "a", "cache_control": null}]},
        {"role": "assistant", "content": null, "refusal": null, "audio": null, "function_call": null, "reasoning_content": null,
            "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "t", "name": null, "content": "r"},
        {"role": "assistant", "content": "b", "tool_calls": null, "refusal": null},
        {"role": "user", "content": "c"},
    ]});
    let (body, dropped) = translated(&with(&nested));
    assert_eq!(dropped, [] as [&str; 0]);
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(5), "{body}");
}
