//! Default plans: a well-formed answer to each request, for tests about something else.

use serde_json::{Value, json};

use super::{Plan, Seen, answers};

/// Returns a well-formed answer to any request of the OpenAI API; models named `err-STATUS` get that error, `no-such-model` a 404.
pub fn polite(seen: &Seen) -> Plan {
    answer(seen).header("x-request-id", &format!("mock-{}", seen.number))
}

fn answer(seen: &Seen) -> Plan {
    let (path, body) = (seen.path.split('?').next().unwrap_or_default(), seen.json());
    let model = if seen.method == "GET" { path.rsplit('/').next().unwrap_or_default() } else { seen.model() };
    if model == "no-such-model" {
        return Plan::error(404, "the model `no-such-model` does not exist");
    }
    if let Some(status) = model.strip_prefix("err-").and_then(|status| status.parse().ok()) {
        return Plan::error(status, "an error made to order");
    }
    match (seen.method.as_str(), path) {
        ("GET", _) if path.contains("/models/") => Plan::json(200, &answers::models_list(&[model])["data"][0]),
        ("POST", _) if path.ends_with("/chat/completions") => chat(&body),
        ("POST", _) if path.ends_with("/completions") => completion(&body),
        ("POST", _) if path.ends_with("/embeddings") => embeddings(&body),
        _ => Plan::error(404, "the mock knows no such path"),
    }
}

fn chat(body: &Value) -> Plan {
    let tool = body["tools"][0]["function"]["name"].as_str();
    let text = if body["response_format"]["type"] == "json_schema" { r#"{"ok":true}"# } else { "Hello there" };
    match (body["stream"] == true, tool) {
        (false, None) => Plan::chat(text),
        (false, Some(name)) => {
            let mut answer = answers::chat("");
            answer["choices"][0]["finish_reason"] = json!("tool_calls");
            answer["choices"][0]["message"]["content"] = Value::Null;
            answer["choices"][0]["message"]["tool_calls"] = json!([{
                "id": "call_mock", "type": "function", "function": { "name": name, "arguments": r#"{"city":"Ulm"}"# },
            }]);
            Plan::json(200, &answer)
        }
        (true, None) => streamed(answers::chat_events(text.split_inclusive(' ')), body),
        (true, Some(name)) => streamed(answers::tool_events(name, &[r#"{"city""#, r#":"Ulm"}"#]), body),
    }
}

fn completion(body: &Value) -> Plan {
    if body["stream"] == true {
        return streamed(answers::completion_events(["Once", " more"]), body);
    }
    let event = &answers::completion_events(["Once more"])[0];
    let mut answer: Value = serde_json::from_str(event).unwrap();
    answer["choices"][0]["finish_reason"] = json!("stop");
    answer["usage"] = answers::usage(3, 2);
    Plan::json(200, &answer)
}

fn streamed(events: Vec<String>, body: &Value) -> Plan {
    let plan = Plan::stream().events(events);
    if body["stream_options"]["include_usage"] == true {
        plan.event(&answers::usage_event(7, 2)).done()
    } else {
        plan.done()
    }
}

fn embeddings(body: &Value) -> Plan {
    let count = body["input"].as_array().map_or(1, Vec::len);
    // The same two numbers, 1.0 and 0.5, in the requested form (base64 of little-endian floats).
    let vector = if body["encoding_format"] == "base64" { json!("AACAPwAAAD8=") } else { json!([1.0, 0.5]) };
    let items = (0..count).map(|index| json!({ "object": "embedding", "index": index, "embedding": vector }));
    Plan::json(
        200,
        &json!({
            "object": "list", "model": body["model"], "data": items.collect::<Vec<_>>(),
            "usage": { "prompt_tokens": count, "total_tokens": count },
        }),
    )
}
