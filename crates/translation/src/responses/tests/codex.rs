//! Codex in front of a chat backend.

use serde_json::{Value, json};

use super::{chat, check_order, echo, names, samples, stream, whole};
use crate::responses::names::Kind;

#[test]
fn the_request_becomes_chat() {
    let (body, dropped) = chat(&samples::codex());
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "You are Codex.\n\nBe \"precise\".\n\n<permissions>"},
            {"role": "user", "content": [{"type": "text", "text": "# AGENTS.md"}, {"type": "text", "text": "<environment_context>"}]},
            {"role": "user", "content": "Fix the tést \u{1F600}"},
            {"role": "assistant", "content": "I look.", "reasoning_content": "I must \"look\"", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "exec_command", "arguments": "{\"cmd\":\"ls\"}"}},
                {"id": "call_2", "type": "function", "function": {"name": "apply_patch",
                 "arguments": "{\"input\":\"*** Begin Patch\\n+\\\"a\\\\n\\\"\\n*** End Patch\"}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "src\n"},
            {"role": "tool", "tool_call_id": "call_2", "content": "Success"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_3", "type": "function", "function": {"name": "collaboration__spawn", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_3",
             "content": "screen\n[The attachments of this output follow in the next user message.]"},
            {"role": "user", "content": [
                {"type": "text", "text": "Attachments of the output of the tool call call_3:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}}]}
        ])
    );
    let functions: Vec<&Value> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]).collect();
    let found: Vec<&str> = functions.iter().map(|function| function["name"].as_str().unwrap()).collect();
    assert_eq!(found, ["exec_command", "apply_patch", "collaboration__spawn", "tool_search"]);
    assert_eq!(
        functions[1]["description"],
        "Edits files.\n\nThe input must match this lark grammar:\nstart: \"*** Begin Patch\" LF\n"
    );
    assert_eq!(functions[1]["parameters"]["required"], json!(["input"]));
    assert_eq!(functions[0]["strict"], false);
    let mut rest = body.clone();
    for name in ["messages", "tools"] {
        rest.as_object_mut().unwrap().remove(name);
    }
    assert_eq!(
        rest,
        json!({"model": "gpt-5-codex", "tool_choice": "auto", "parallel_tool_calls": true, "verbosity": "low",
            "reasoning_effort": "medium", "prompt_cache_key": "019a", "service_tier": "priority", "stream": true,
            "stream_options": {"include_usage": true}})
    );
    assert_eq!(dropped, ["tools.namespace.description", "tools.web_search", "input.phase", "client_metadata"]);
}

#[test]
fn calls_come_back_as_codex_declared_them() {
    let call = |index: u64, name: &str, arguments: &str| {
        samples::delta(&json!({"tool_calls": [
            {"index": index, "id": format!("c{index}"), "type": "function", "function": {"name": name, "arguments": arguments}}]}))
    };
    let more = |index: u64, arguments: &str| {
        samples::delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    };
    let events = stream(
        &samples::codex(),
        &[
            samples::delta(&json!({"role": "assistant", "content": ""})),
            samples::delta(&json!({"reasoning_content": "Let me "})),
            samples::delta(&json!({"reasoning_content": "\"see\""})),
            samples::delta(&json!({"content": "Editing."})),
            call(0, "apply_patch", ""),
            more(0, "{\"in"),
            more(0, "put\": \"*** Begin\\"),
            more(0, "nPatch\\\"\"}"),
            call(1, "collaboration__spawn", ""),
            call(2, "tool_search", "{\"query\":\n\"x\"}"),
            samples::finish("tool_calls"),
            samples::usage(),
            samples::done(),
        ],
    );
    check_order(&events);
    assert_eq!(
        names(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "custom_tool_call_input.delta",
            "custom_tool_call_input.delta",
            "custom_tool_call_input.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "output_item.added",
            "output_item.done",
            "completed",
        ]
    );
    let response = &events.last().unwrap().1["response"];
    assert_eq!(
        response["output"],
        json!([
            {"type": "reasoning", "id": "rs_700", "status": "completed", "summary": [{"type": "summary_text", "text": "Let me \"see\""}],
             "encrypted_content": "chat:reasoning_content:Let me \"see\""},
            {"type": "message", "id": "msg_701", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "text": "Editing.", "annotations": [], "logprobs": []}]},
            {"type": "custom_tool_call", "id": "ctc_702", "call_id": "c0", "status": "completed", "name": "apply_patch",
             "input": "*** Begin\nPatch\""},
            {"type": "function_call", "id": "fc_703", "call_id": "c1", "status": "completed", "name": "spawn",
             "namespace": "collaboration", "arguments": "{}"},
            {"type": "tool_search_call", "id": "tsc_704", "call_id": "c2", "status": "completed", "execution": "client",
             "arguments": {"query": "x"}}
        ])
    );
}

#[test]
fn tools_that_a_search_found_become_callable() {
    let mut request = samples::codex();
    request["input"] = json!([
        {"role": "user", "content": "find"},
        {"type": "tool_search_call", "call_id": "c1", "execution": "client", "status": "completed", "arguments": {"query": "a\"b"}},
        {"type": "tool_search_output", "call_id": "c1", "execution": "client", "status": "completed", "tools": [
            {"type": "namespace", "name": "mcp__gh__", "description": "", "tools": [
                {"type": "function", "name": "search", "defer_loading": true, "parameters": {"type": "object"}}]}]},
        {"type": "additional_tools", "role": "developer", "tools": [
            {"type": "custom", "name": "exec", "description": "Code.", "format": {"type": "text"}},
            {"type": "custom", "name": "exec", "description": "Code.", "format": {"type": "text"}}]}
    ]);
    let (body, _) = chat(&request);
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"query\":\"a\\\"b\"}");
    assert_eq!(body["messages"][3]["content"], "These tools can be called now: mcp__gh__search");
    let found: Vec<&str> =
        body["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(found[4..], ["mcp__gh__search", "exec"]);
    let echo = echo(&request);
    assert_eq!(echo.names["exec"].kind, Kind::Custom);
    assert_eq!(echo.names["mcp__gh__search"].namespace.as_deref(), Some("mcp__gh__"));
}

#[test]
fn the_object_repeats_the_request() {
    let response = whole(
        &samples::codex(),
        &json!({"model": "up", "choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}),
    );
    let request = samples::codex();
    for name in
        ["instructions", "tool_choice", "parallel_tool_calls", "reasoning", "prompt_cache_key", "service_tier", "store"]
    {
        assert_eq!(response[name], request[name], "{name}");
    }
    assert_eq!(response["text"], json!({"format": {"type": "text"}, "verbosity": "low"}));
    assert_eq!(response["tools"], request["tools"]);
    assert_eq!((&response["model"], &response["usage"]), (&json!("gpt-5-codex"), &Value::Null));
}

#[test]
fn messages_of_agents_and_searches_of_other_providers_are_read() {
    let mut request = samples::codex();
    request["input"] = json!([
        {"type": "agent_message", "author": "root", "recipient": "worker", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
    ]);
    let (body, dropped) = chat(&request);
    let texts = json!([{"type": "text", "text": "Message of the agent root:"}, {"type": "text", "text": "go"}]);
    assert_eq!(body["messages"][1], json!({"role": "user", "content": texts}));
    assert!(dropped.contains(&"input.web_search_call".to_owned()));
}
