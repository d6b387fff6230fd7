//! A request as Codex sends it, and a small one.

use serde_json::{Value, json};

/// The second request of a turn: a shell command ran, a patch was applied, and an image was read.
pub(super) fn codex() -> Value {
    json!({
        "model": "gpt-5-codex",
        "instructions": "You are Codex.\n\nBe \"precise\".",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "# AGENTS.md"}, {"type": "input_text", "text": "<environment_context>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the tést \u{1F600}"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look"}],
             "encrypted_content": "chat:reasoning_content:I must \"look\""},
            {"type": "message", "role": "assistant", "phase": "commentary",
             "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "call_id": "call_1"},
            {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "apply_patch",
             "input": "*** Begin Patch\n+\"a\\n\"\n*** End Patch"},
            {"type": "function_call_output", "call_id": "call_1", "output": "src\n"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Success"},
            {"type": "function_call", "name": "spawn", "namespace": "collaboration", "arguments": "", "call_id": "call_3"},
            {"type": "function_call_output", "call_id": "call_3", "output": [
                {"type": "input_text", "text": "screen"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "original"}]}
        ],
        "tools": [
            {"type": "function", "name": "exec_command", "description": "Runs a command.", "strict": false,
             "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}},
            {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format":
             {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\" LF\n"}},
            {"type": "namespace", "name": "collaboration", "description": "Agents.", "tools": [
                {"type": "function", "name": "spawn", "description": "Starts one.", "strict": false,
                 "parameters": {"type": "object", "properties": {}}}]},
            {"type": "tool_search", "execution": "client", "description": "Finds tools.",
             "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
            {"type": "web_search", "external_web_access": true}
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": false,
        "stream": true,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "019a",
        "text": {"verbosity": "low"},
        "service_tier": "priority",
        "client_metadata": {"x-codex-installation-id": "u"}
    })
}

pub(super) fn small() -> Value {
    json!({"model": "m", "input": "hi"})
}

/// A chunk with one choice.
pub(super) fn delta(delta: &Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "model": "up", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(super) fn finish(reason: &str) -> Value {
    json!({"id": "c", "model": "up", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

pub(super) fn usage() -> Value {
    json!({"id": "c", "model": "up", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}})
}

pub(super) fn done() -> Value {
    json!("[DONE]")
}
