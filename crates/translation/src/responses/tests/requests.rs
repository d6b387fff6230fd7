//! Requests, their defaults and their rejections.

use serde_json::{Value, json};

use super::{chat, refused, samples, whole};
use crate::{
    AnswerTranslator as _,
    responses::{Answer, HeldState, to_chat, to_chat_held},
};

fn with(changes: &Value) -> Value {
    let mut request = samples::small();
    for (name, value) in changes.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

#[test]
fn settings_move_to_their_chat_places() {
    let (body, dropped) = chat(&with(&json!({
        "max_output_tokens": 100, "temperature": 0.7, "top_p": null, "top_logprobs": 3, "user": "u", "metadata": {"a": "b"},
        "truncation": "auto", "max_tool_calls": 3, "top_k": 5, "chat_template_kwargs": {"enable_thinking": false},
        "include": ["message.output_text.logprobs", "web_search_call.action.sources"], "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"type": "object"}}},
        "tools": [], "parallel_tool_calls": true, "stream": false
    })));
    assert_eq!(
        body,
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "object"}}},
            "reasoning_effort": "low", "top_logprobs": 3, "logprobs": true, "max_tokens": 100, "temperature": 0.7, "user": "u",
            "top_k": 5, "chat_template_kwargs": {"enable_thinking": false}, "stream": false})
    );
    assert_eq!(dropped, ["include.web_search_call.action.sources", "truncation", "max_tool_calls"]);
}

#[test]
fn raw_json_is_copied_byte_for_byte() {
    let body =
        br#"{ "model":"m", "input":"\u0041\/\ud83d\ude00", "temperature": 1.0e-1, "seed": 12345678901234567890123,
        "tools":[{"type":"function","name":"f","parameters":{ "x" : 1.50 }}] }"#;
    let translated = String::from_utf8(to_chat(body, &crate::NoStates).unwrap().0.body).unwrap();
    for part in [
        r#""content":"\u0041\/\ud83d\ude00""#,
        r#""temperature":1.0e-1"#,
        "12345678901234567890123",
        r#"{ "x" : 1.50 }"#,
    ] {
        assert!(translated.contains(part), "{part} in {translated}");
    }
}

#[test]
fn state_of_the_provider_is_rejected() {
    for (name, value) in [
        ("background", json!(true)),
        ("conversation", json!("conv_1")),
        ("prompt", json!({"id": "pmpt_1"})),
        ("previous_response_id", json!("resp_1")),
        ("store", json!(true)),
        ("messages", json!([])),
        ("n", json!(2)),
    ] {
        let error = refused(&with(&json!({ name: value })));
        assert_eq!(error.param, name);
    }
    // A store of the gateway takes the place of the provider's, but a provider's state stays out of reach.
    let held = HeldState { stores: true, previous: Some("resp_2".into()), conversation: Some("conv_2".into()) };
    let request = |more: Value| to_chat_held(with(&more).to_string().as_bytes(), Some(&held), &crate::NoStates);
    for name in ["conversation", "previous_response_id"] {
        assert_eq!(request(json!({ name: "x" })).unwrap_err().param, name);
    }
    let (_, echo) = request(json!({"store": true})).unwrap();
    let mut answer = Answer::new(echo, "1", || 0);
    let response = answer.whole(br#"{"choices":[{"message":{"content":"ok"}}]}"#).unwrap();
    let response: Value = serde_json::from_slice(&response).unwrap();
    assert_eq!(
        (&response["store"], &response["previous_response_id"], &response["conversation"]),
        (&json!(true), &json!("resp_2"), &json!({"id": "conv_2"}))
    );
    let (body, _) = chat(&with(&json!({"background": false, "conversation": null, "store": false})));
    assert_eq!(body.as_object().unwrap().len(), 2);
    assert_eq!(refused(&json!({"model": "m"})).param, "input");
}

#[test]
fn tools_of_the_provider_are_rejected_with_advice() {
    for (tool, advice) in [
        (json!({"type": "web_search"}), "web_search = \"disabled\""),
        (json!({"type": "web_search_preview"}), "web_search = \"disabled\""),
        (json!({"type": "mcp", "server_label": "x"}), "declare its tools as functions"),
        (json!({"type": "file_search", "vector_store_ids": []}), "send the passages"),
        (json!({"type": "computer_use_preview"}), "function tool"),
        (json!({"type": "image_generation"}), "/v1/images/generations"),
        (json!({"type": "code_interpreter"}), "runs the commands"),
    ] {
        let error = refused(&with(&json!({"tools": [tool]})));
        assert_eq!(error.param, "tools[0].type");
        assert!(error.message.contains(advice), "{}", error.message);
    }
    let nested = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
    assert_eq!(refused(&with(&nested)).param, "tools[0].function");
}

#[test]
fn every_tool_choice_has_a_chat_form() {
    let tools =
        json!([{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}, {"type": "function", "name": "h"}]);
    let choose = |choice: Value| chat(&with(&json!({"tools": tools, "tool_choice": choice}))).0;
    for choice in ["auto", "none", "required"] {
        assert_eq!(choose(json!(choice))["tool_choice"], choice);
    }
    let named = json!({"type": "function", "function": {"name": "g"}});
    assert_eq!(choose(json!({"type": "custom", "name": "g"}))["tool_choice"], named);
    let body = choose(json!({"type": "allowed_tools", "mode": "required", "tools": [
        {"type": "function", "name": "h"}, {"type": "custom", "name": "g"}]}));
    assert_eq!(body["tool_choice"], "required");
    let kept: Vec<&str> =
        body["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(kept, ["g", "h"]);
    assert_eq!(
        refused(&with(&json!({"tools": tools, "tool_choice": {"type": "web_search"}}))).param,
        "tool_choice.type"
    );
    assert_eq!(refused(&with(&json!({"tool_choice": "required"}))).param, "tool_choice");
    assert!(chat(&with(&json!({"tool_choice": "auto"}))).0.get("tool_choice").is_none());
}

#[test]
fn content_has_its_chat_form() {
    let (body, _) = chat(&with(&json!({"input": [{"role": "user", "content": [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]}]})));
    assert_eq!(
        body["messages"][0]["content"],
        json!([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
            {"type": "file", "file": {"file_id": "file_1"}},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}])
    );
    for (item, param) in [
        (json!({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}), "input[0].content[0].file_id"),
        (json!({"role": "user", "content": [{"type": "input_file", "file_url": "f"}]}), "input[0].content[0].file_url"),
        (json!({"role": "user", "content": [{"type": "image_url"}]}), "input[0].content[0].type"),
        (json!({"role": "system", "content": [{"type": "input_image", "image_url": "u"}]}), "input[0].content[0]"),
        (json!({"role": "tool", "content": "x"}), "input[0].role"),
        (json!({"type": "item_reference", "id": "msg_1"}), "input[0].type"),
        (json!({"id": "msg_1"}), "input[0].type"),
        (json!({"type": "compaction_trigger"}), "input[0].type"),
        (json!({"type": "mesage", "role": "user", "content": "x"}), "input[0].type"),
        (json!({"type": "local_shell_call", "action": {}}), "input[0].call_id"),
        (json!({"type": "function_call", "name": "f", "arguments": "{}"}), "input[0].call_id"),
    ] {
        assert_eq!(refused(&with(&json!({"input": [item]}))).param, param);
    }
}

#[test]
fn messages_never_stand_between_calls_and_their_outputs() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": [{"type": "input_image", "image_url": "u"}]});
    let (body, _) = chat(&with(&json!({"input": [
        {"role": "user", "content": "go"}, call("a"), call("b"), {"role": "assistant", "content": "both"}, output("a"),
        {"role": "developer", "content": "note"}, output("b"), {"role": "assistant", "content": "one"}, {"role": "assistant", "content": "two"}]})));
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user", "system", "user", "assistant", "assistant"]);
    assert_eq!(body["messages"][1]["content"], "both");
    assert_eq!(body["messages"][1]["tool_calls"].as_array().unwrap().len(), 2);
}

#[test]
fn reasoning_of_other_providers_is_left_out() {
    let (body, dropped) = chat(&with(&json!({"input": [
        {"role": "user", "content": "a"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAA"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "plain"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, {"role": "user", "content": "b"}]})));
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "no", "reasoning_content": "plain"}));
    assert_eq!(dropped, ["input.reasoning.encrypted_content", "input.reasoning.summary"]);
}

#[test]
fn the_object_has_every_member_that_clients_require() {
    let tools = json!([{"type": "function", "name": "f"}]);
    let response = whole(&with(&json!({"tools": tools})), &json!({"choices": [{"message": {"content": "ok"}}]}));
    for name in [
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "incomplete_details",
        "model",
        "previous_response_id",
        "instructions",
        "output",
        "error",
        "tools",
        "tool_choice",
        "truncation",
        "parallel_tool_calls",
        "text",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "top_logprobs",
        "temperature",
        "reasoning",
        "user",
        "usage",
        "max_output_tokens",
        "max_tool_calls",
        "store",
        "background",
        "service_tier",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
    ] {
        assert!(response.get(name).is_some(), "{name}");
    }
    assert_eq!(
        response["tools"],
        json!([{"type": "function", "name": "f", "description": null, "parameters": null, "strict": null}])
    );
    assert_eq!(
        (&response["status"], &response["model"], &response["store"]),
        (&json!("completed"), &json!("m"), &json!(false))
    );
    let long = with(&json!({"instructions": "x".repeat(200_000)}));
    assert_eq!(whole(&long, &json!({"choices": [{"message": {"content": "ok"}}]}))["instructions"], Value::Null);
}

#[test]
fn null_counts_as_absent() {
    let nulls = json!({"model": "m", "input": "a", "instructions": null, "tools": null, "tool_choice": null, "temperature": null,
        "top_p": null, "stream": null, "stream_options": null, "store": null, "background": null, "conversation": null,
        "previous_response_id": null, "prompt": null, "metadata": null, "text": null, "reasoning": null, "include": null,
        "max_output_tokens": null, "max_tool_calls": null, "truncation": null, "parallel_tool_calls": null, "user": null,
        "top_logprobs": null, "service_tier": null, "n": null, "messages": null, "response_format": null});
    let plain = to_chat(br#"{"model":"m","input":"a"}"#, &crate::NoStates).unwrap().0;
    let found = to_chat(nulls.to_string().as_bytes(), &crate::NoStates).unwrap().0;
    assert_eq!((found.body, found.dropped), (plain.body, plain.dropped));

    let nested = json!({"model": "m",
        "input": [
            {"type": "message", "id": null, "status": null, "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "function_call", "id": null, "status": null, "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "id": null, "status": null, "call_id": "c", "output": "r"},
            {"type": "reasoning", "id": null, "summary": [], "content": null, "encrypted_content": null, "status": null},
        ],
        "tools": [{"type": "function", "name": "f", "description": null, "parameters": null, "strict": null}],
        "text": {"format": null, "verbosity": null}, "reasoning": {"effort": null, "summary": null}});
    let found = to_chat(nested.to_string().as_bytes(), &crate::NoStates).unwrap().0;
    let body: Value = serde_json::from_slice(&found.body).unwrap();
    assert_eq!(found.dropped, [] as [&str; 0]);
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(3), "{body}");
    for name in ["reasoning_effort", "response_format", "verbosity"] {
        assert!(body.get(name).is_none(), "{name}");
    }
}
