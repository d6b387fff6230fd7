//! Well-formed bodies and events as engines write them, to build plans from.

use serde_json::{Value, json};

/// A chat answer that is not streamed.
pub(super) fn chat(text: &str) -> Value {
    json!({
        "id": "chatcmpl-mock", "object": "chat.completion", "created": 1_700_000_000, "model": "mock",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": usage(7, text.split_whitespace().count()),
    })
}

/// An error as OpenAI words it.
pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 | 403 => "authentication_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
}

/// The `usage` object.
pub(super) fn usage(prompt: usize, completion: usize) -> Value {
    json!({
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": { "cached_tokens": 0 },
    })
}

/// One chunk of a streamed chat answer: a delta, and the reason to finish where it is the last.
pub fn chat_chunk(delta: &Value, finish: Option<&str>) -> String {
    json!({
        "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "mock",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    })
    .to_string()
}

/// The events of a streamed chat answer: the role, one for each delta, the finish; without usage and `[DONE]`.
pub fn chat_events<I: IntoIterator<Item: AsRef<str>>>(deltas: I) -> Vec<String> {
    let role = chat_chunk(&json!({ "role": "assistant", "content": null }), None);
    let content = deltas.into_iter().map(|delta| chat_chunk(&json!({ "content": delta.as_ref() }), None));
    std::iter::once(role).chain(content).chain([chat_chunk(&json!({}), Some("stop"))]).collect()
}

/// The events of a streamed tool call, its arguments in the given pieces.
pub fn tool_events(name: &str, arguments: &[&str]) -> Vec<String> {
    let call = |function: Value, extra: bool| {
        let mut call = json!({ "index": 0, "function": function });
        if extra {
            call["id"] = json!("call_mock");
            call["type"] = json!("function");
        }
        chat_chunk(&json!({ "tool_calls": [call] }), None)
    };
    let role = chat_chunk(&json!({ "role": "assistant", "content": null }), None);
    let first = call(json!({ "name": name, "arguments": "" }), true);
    let pieces = arguments.iter().map(|piece| call(json!({ "arguments": piece }), false));
    [role, first].into_iter().chain(pieces).chain([chat_chunk(&json!({}), Some("tool_calls"))]).collect()
}

/// The event with the usage, as sent where `stream_options.include_usage` asks for it.
pub fn usage_event(prompt: usize, completion: usize) -> String {
    json!({
        "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "mock",
        "choices": [], "usage": usage(prompt, completion),
    })
    .to_string()
}

/// The events of a streamed legacy completion.
pub fn completion_events<I: IntoIterator<Item: AsRef<str>>>(texts: I) -> Vec<String> {
    let event = |text: &str, finish: Option<&str>| {
        json!({
            "id": "cmpl-mock", "object": "text_completion", "created": 1_700_000_000, "model": "mock",
            "choices": [{ "index": 0, "text": text, "logprobs": null, "finish_reason": finish }],
        })
        .to_string()
    };
    let texts = texts.into_iter().map(|text| event(text.as_ref(), None));
    texts.chain([event("", Some("stop"))]).collect()
}

/// The body of `GET /v1/models`.
pub fn models_list<S: AsRef<str>>(names: &[S]) -> Value {
    let models = names
        .iter()
        .map(|name| json!({ "id": name.as_ref(), "object": "model", "created": 1_700_000_000, "owned_by": "mock" }));
    json!({ "object": "list", "data": models.collect::<Vec<_>>() })
}

/// The gauges of a vLLM server.
pub(super) fn vllm_metrics(running: u32, waiting: u32, kv_usage: f64) -> String {
    let gauge = |name: &str, value: String| {
        format!("# TYPE vllm:{name} gauge\nvllm:{name}{{engine=\"0\",model_name=\"mock\"}} {value}\n")
    };
    [
        gauge("num_requests_running", format!("{running}.0")),
        gauge("num_requests_waiting", format!("{waiting}.0")),
        gauge("kv_cache_usage_perc", kv_usage.to_string()),
    ]
    .concat()
}
