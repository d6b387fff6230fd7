//! Tests on requests and streams of real clients and engines, and properties of the translation.

mod codex;
mod engines;
mod errors;
mod other_tools;
mod properties;
mod requests;
mod samples;

use serde_json::Value;

use super::{Answer, Echo, to_chat};
use crate::{AnswerTranslator as _, Unsupported};

/// The chat form of a request, and its dropped hints.
fn chat(request: &Value) -> (Value, Vec<String>) {
    let (translated, _) = to_chat(request.to_string().as_bytes(), &crate::NoStates).unwrap();
    (serde_json::from_slice(&translated.body).unwrap(), translated.dropped)
}

fn refused(request: &Value) -> Unsupported {
    to_chat(request.to_string().as_bytes(), &crate::NoStates).unwrap_err()
}

fn echo(request: &Value) -> Echo {
    to_chat(request.to_string().as_bytes(), &crate::NoStates).unwrap().1
}

/// The events of a stream, by name and data.
fn stream(request: &Value, chunks: &[Value]) -> Vec<(String, Value)> {
    let mut answer = Answer::new(echo(request), "resp_7", || 1_700_000_000);
    let mut out = Vec::new();
    for chunk in chunks {
        let data = chunk.as_str().map_or_else(|| chunk.to_string(), str::to_owned);
        answer.event(data.as_bytes(), &mut out).unwrap();
    }
    events(&out)
}

fn events(out: &[u8]) -> Vec<(String, Value)> {
    let text = std::str::from_utf8(out).unwrap();
    let read = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        assert!(!data.contains('\n'), "{data}");
        (name.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
    };
    text.split_terminator("\n\n").map(read).collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.strip_prefix("response.").unwrap_or(name)).collect()
}

fn whole(request: &Value, body: &Value) -> Value {
    let mut answer = Answer::new(echo(request), "resp_7", || 1_700_000_000);
    serde_json::from_slice(&answer.whole(body.to_string().as_bytes()).unwrap()).unwrap()
}

/// Checks the published order of events, and that `done` events and the final object repeat the deltas.
fn check_order(events: &[(String, Value)]) {
    let mut open: Vec<(u64, String, String)> = Vec::new();
    let mut items: Vec<Value> = Vec::new();
    for (at, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["type"], name.as_str());
        assert_eq!(data["sequence_number"], at);
        match at {
            0 => assert_eq!(name, "response.created"),
            1 => assert_eq!(name, "response.in_progress"),
            _ => {}
        }
        let index = data["output_index"].as_u64();
        if let (Some(id), Some(index)) = (data["item_id"].as_str(), index) {
            assert!(open.iter().any(|(known, name, _)| *known == index && name == id), "{name} outside its item");
        }
        let text = index.and_then(|index| open.iter_mut().find(|(known, ..)| *known == index)).map(|(.., text)| text);
        match name.rsplit('.').next().unwrap() {
            "added" if name.ends_with("output_item.added") => {
                assert_eq!(index, Some(items.len() as u64), "indices count up");
                assert_eq!(data["item"]["status"], "in_progress");
                open.push((index.unwrap(), data["item"]["id"].as_str().unwrap().to_owned(), String::new()));
                items.push(Value::Null);
            }
            "added" if data["part"].is_object() => text.unwrap().clear(),
            "delta" => text.unwrap().push_str(data["delta"].as_str().unwrap()),
            "done" if name.ends_with("output_item.done") => {
                let place = open.iter().position(|(known, ..)| Some(*known) == index).expect("the item is open");
                let (_, id, text) = open.remove(place);
                assert_eq!(data["item"]["id"], id.as_str());
                for member in ["arguments", "input"] {
                    if data["item"][member].is_string() {
                        assert_eq!(data["item"][member], text.as_str());
                    }
                }
                items[usize::try_from(index.unwrap()).unwrap()] = data["item"].clone();
            }
            "done" => {
                let done = ["text", "refusal", "arguments", "input"].into_iter().find_map(|name| data[name].as_str());
                let part = ["text", "refusal"].into_iter().find_map(|name| data["part"][name].as_str());
                assert_eq!(done.or(part), text.map(|text| text.as_str()), "{name}");
            }
            "completed" | "incomplete" => {
                assert!(open.is_empty() && at + 1 == events.len());
                assert_eq!(data["response"]["output"], Value::Array(items.clone()));
            }
            "failed" => assert_eq!(at + 1, events.len()),
            _ => {}
        }
    }
}
