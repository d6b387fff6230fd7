//! Answers of Messages and Responses, whole and as events.

use serde_json::{Map, Value, json};

use crate::Event;

type Object = Map<String, Value>;

/// The events of a message; `None` if it has no content.
pub(super) fn message_events(mut message: Object) -> Option<Vec<Event>> {
    let Some(Value::Array(blocks)) = message.insert("content".to_owned(), json!([])) else { return None };
    let mut ending = Object::new();
    for name in ["stop_reason", "stop_sequence", "stop_details"] {
        if let Some(value) = message.get_mut(name) {
            ending.insert(name.to_owned(), value.take());
        }
    }
    if ending.get("stop_reason").is_none_or(Value::is_null) {
        ending.insert("stop_reason".to_owned(), "end_turn".into());
    }
    let usage = message.get("usage").cloned();
    let mut events = vec![named(&json!({ "type": "message_start", "message": message }))];
    for (index, block) in blocks.into_iter().enumerate() {
        let Value::Object(block) = block else { return None };
        block_events(index, block, &mut events);
    }
    let mut end = json!({ "type": "message_delta", "delta": ending });
    if let Some(usage) = usage {
        end["usage"] = usage;
    }
    events.push(named(&end));
    events.push(named(&json!({ "type": "message_stop" })));
    Some(events)
}

fn block_events(index: usize, mut block: Object, events: &mut Vec<Event>) {
    let mut deltas = Vec::new();
    let mut take = |block: &mut Object, name: &str, kind: &str, member: &str, empty: Value| {
        if let Some(value) = block.get_mut(name) {
            let value = std::mem::replace(value, empty);
            let text = if name == "input" { value.to_string().into() } else { value };
            deltas.push(json!({ "type": kind, member: text }));
        }
    };
    match block.get("type").and_then(Value::as_str) {
        Some("text") => take(&mut block, "text", "text_delta", "text", "".into()),
        Some("thinking") => {
            take(&mut block, "thinking", "thinking_delta", "thinking", "".into());
            take(&mut block, "signature", "signature_delta", "signature", "".into());
        }
        Some("tool_use" | "server_tool_use") => {
            take(&mut block, "input", "input_json_delta", "partial_json", json!({}));
        }
        _ => {}
    }
    events.push(named(&json!({ "type": "content_block_start", "index": index, "content_block": block })));
    for delta in deltas {
        events.push(named(&json!({ "type": "content_block_delta", "index": index, "delta": delta })));
    }
    events.push(named(&json!({ "type": "content_block_stop", "index": index })));
}

/// The message of a stream; `None` if it has no end.
pub(super) fn message_of(events: &[Event]) -> Option<Object> {
    let mut message: Option<Object> = None;
    let mut blocks: Vec<(Option<u64>, Object, String)> = Vec::new();
    let mut has_ended = false;
    for mut event in events.iter().filter_map(data) {
        let index = event.get("index").and_then(Value::as_u64);
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => message = take(&mut event, "message"),
            "content_block_start" => blocks.push((index, take(&mut event, "content_block")?, String::new())),
            "content_block_delta" => {
                let delta = take(&mut event, "delta")?;
                let (_, block, input) = blocks.iter_mut().rfind(|(known, ..)| *known == index)?;
                extend(block, input, delta);
            }
            "message_delta" => {
                let message = message.as_mut()?;
                let delta = take(&mut event, "delta")?;
                has_ended |= delta.get("stop_reason").is_some_and(|reason| !reason.is_null());
                message.extend(delta);
                if let (Some(usage), Some(Value::Object(known))) = (take(&mut event, "usage"), message.get_mut("usage"))
                {
                    known.extend(usage);
                }
            }
            "message_stop" => has_ended = true,
            "error" => return None,
            _ => {}
        }
    }
    let content = blocks.into_iter().map(|(_, mut block, input)| {
        if let Some(input) = serde_json::from_str::<Value>(&input).ok().filter(|_| !input.is_empty()) {
            block.insert("input".to_owned(), input);
        }
        Value::Object(block)
    });
    let mut message = message.filter(|_| has_ended)?;
    message.insert("content".to_owned(), content.collect());
    Some(message)
}

/// Adds a delta to its block. The input of a call is collected as text.
fn extend(block: &mut Object, input: &mut String, delta: Object) {
    for (name, value) in delta.into_iter().filter(|(name, _)| name != "type") {
        match (&*name, value) {
            ("partial_json", Value::String(piece)) => input.push_str(&piece),
            (_, Value::String(piece)) => match block.get_mut(&name) {
                Some(Value::String(text)) => text.push_str(&piece),
                _ => drop(block.insert(name, piece.into())),
            },
            ("citation", citation) => match block.get_mut("citations") {
                Some(Value::Array(citations)) => citations.push(citation),
                _ => drop(block.insert("citations".to_owned(), json!([citation]))),
            },
            (_, value) => drop(block.insert(name, value)),
        }
    }
}

/// The events of a response; `None` if it has no output.
pub(super) fn response_events(response: &Object) -> Option<Vec<Event>> {
    let output = response.get("output")?.as_array()?;
    let mut events = Events(Vec::new());
    let mut begun = response.clone();
    begun.insert("status".to_owned(), "in_progress".into());
    begun.insert("output".to_owned(), json!([]));
    begun.insert("usage".to_owned(), Value::Null);
    events.add(json!({ "type": "response.created", "response": begun }));
    events.add(json!({ "type": "response.in_progress", "response": begun }));
    for (index, item) in output.iter().enumerate() {
        events.item(index, item);
    }
    let kind = match response.get("status").and_then(Value::as_str) {
        Some("incomplete") => "response.incomplete",
        Some("failed") => "response.failed",
        _ => "response.completed",
    };
    events.add(json!({ "type": kind, "response": response }));
    Some(events.0)
}

/// The events of a response so far, which are numbered.
struct Events(Vec<Event>);

impl Events {
    fn add(&mut self, mut event: Value) {
        event["sequence_number"] = self.0.len().into();
        self.0.push(named(&event));
    }

    fn item(&mut self, index: usize, item: &Value) {
        let mut begun = item.clone();
        for list in ["content", "summary"] {
            if begun.get(list).is_some_and(Value::is_array) {
                begun[list] = json!([]);
            }
        }
        for text in ["arguments", "input"] {
            if begun.get(text).is_some_and(Value::is_string) {
                begun[text] = "".into();
            }
        }
        if begun.get("status").is_some() {
            begun["status"] = "in_progress".into();
        }
        self.add(json!({ "type": "response.output_item.added", "output_index": index, "item": begun }));
        let id = item.get("id").cloned().unwrap_or(Value::Null);
        for (list, place) in [("summary", "summary_index"), ("content", "content_index")] {
            for (at, part) in item.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
                self.part(&json!({ "item_id": id, "output_index": index, place: at }), part);
            }
        }
        let texts = [("arguments", "response.function_call_arguments"), ("input", "response.custom_tool_call_input")];
        for (member, name) in texts {
            if let Some(text) = item.get(member).filter(|text| text.is_string()) {
                let place = json!({ "item_id": id, "output_index": index });
                self.with(&place, json!({ "type": format!("{name}.delta"), "delta": text }));
                self.with(&place, json!({ "type": format!("{name}.done"), member: text }));
            }
        }
        self.add(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }

    fn part(&mut self, place: &Value, part: &Value) {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        let (whole, name, member) = match kind {
            "summary_text" => ("response.reasoning_summary_part", "response.reasoning_summary_text", "text"),
            "reasoning_text" => ("response.content_part", "response.reasoning_text", "text"),
            "refusal" => ("response.content_part", "response.refusal", "refusal"),
            _ => ("response.content_part", "response.output_text", "text"),
        };
        let mut begun = part.clone();
        begun[member] = "".into();
        self.with(place, json!({ "type": format!("{whole}.added"), "part": begun }));
        if let Some(text) = part.get(member) {
            self.with(place, json!({ "type": format!("{name}.delta"), "delta": text }));
            self.with(place, json!({ "type": format!("{name}.done"), member: text }));
        }
        self.with(place, json!({ "type": format!("{whole}.done"), "part": part }));
    }

    fn with(&mut self, place: &Value, mut event: Value) {
        if let (Value::Object(event), Value::Object(place)) = (&mut event, place) {
            event.extend(place.clone());
        }
        self.add(event);
    }
}

/// The response of a stream, which its last event repeats; `None` if it has no end.
pub(super) fn response_of(events: &[Event]) -> Option<Object> {
    events.iter().rev().filter_map(data).find_map(|mut event| {
        let kind = event.get("type")?.as_str()?;
        let is_end = matches!(kind, "response.completed" | "response.incomplete" | "response.failed");
        is_end.then(|| take(&mut event, "response")).flatten()
    })
}

/// The object in an event's data.
fn data(event: &Event) -> Option<Object> {
    serde_json::from_slice(&event.data()?).ok()
}

fn take(from: &mut Object, name: &str) -> Option<Object> {
    match from.get_mut(name)?.take() {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// An event with the name of its type.
fn named(event: &Value) -> Event {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    Event { raw: format!("event: {kind}\ndata: {event}\n\n").into() }
}
