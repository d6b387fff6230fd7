//! Tests of the translator on requests of Claude Code and on answers of real engines.

mod answers;
mod errors;
mod properties;
mod provider_tools;
mod requests;
mod streams;

use serde_json::Value;

use super::{Answer, fuzz::check_order, to_chat};
use crate::AnswerTranslator as _;

/// The chat request for a request, and its dropped hints.
fn chat(request: &Value) -> (Value, Vec<String>) {
    let translated = to_chat(request.to_string().as_bytes(), &crate::NoStates).unwrap();
    (serde_json::from_slice(&translated.body).unwrap(), translated.dropped)
}

/// The path and message of a rejection.
fn rejected(request: &Value) -> (String, String) {
    let error = to_chat(request.to_string().as_bytes(), &crate::NoStates).unwrap_err();
    (error.param, error.message)
}

/// A stream of Messages events, folded the way that clients do.
#[derive(Debug, Default)]
struct Folded {
    blocks: Vec<Value>,
    names: Vec<String>,
    end: Value,
    start: Value,
    error: Value,
    complete: bool,
}

/// Translates a stream and folds it. Checks the order of events.
fn stream<T: AsRef<str>>(events: &[T]) -> Folded {
    let mut answer = Answer::new(11);
    let mut out = Vec::new();
    for event in events {
        answer.event(event.as_ref().as_bytes(), &mut out).unwrap();
    }
    fold(&out)
}

fn fold(out: &[u8]) -> Folded {
    let mut folded = Folded { complete: check_order(out), ..Folded::default() };
    for event in std::str::from_utf8(out).unwrap().split_terminator("\n\n") {
        let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name);
        folded.names.push(name.to_owned());
        match name {
            "message_start" => folded.start = data["message"].clone(),
            "content_block_start" => folded.blocks.push(data["content_block"].clone()),
            "content_block_delta" => extend(folded.blocks.last_mut().unwrap(), &data["delta"]),
            "message_delta" => folded.end = data,
            "error" => folded.error = data["error"].clone(),
            _ => {}
        }
    }
    for block in &mut folded.blocks {
        if let Some(json) = block.as_object_mut().unwrap().remove("json") {
            block["input"] = serde_json::from_str(json.as_str().unwrap()).unwrap_or(json);
        }
    }
    folded
}

fn extend(block: &mut Value, delta: &Value) {
    let (member, text) = match delta["type"].as_str().unwrap() {
        "text_delta" => ("text", &delta["text"]),
        "thinking_delta" => ("thinking", &delta["thinking"]),
        "signature_delta" => ("signature", &delta["signature"]),
        "input_json_delta" => ("json", &delta["partial_json"]),
        other => panic!("unknown delta {other}"),
    };
    let before = block.get(member).and_then(Value::as_str).unwrap_or_default();
    block[member] = format!("{before}{}", text.as_str().unwrap()).into();
}

/// The translation of a whole answer.
fn whole(answer: &Value) -> Value {
    let out = Answer::new(11).whole(answer.to_string().as_bytes()).unwrap();
    serde_json::from_slice(&out).unwrap()
}
