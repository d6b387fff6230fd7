//! Properties: conversations keep their content, and every way to cut a stream gives the same answer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{chat, check_order, samples, stream, whole};
use crate::responses::fuzz_responses;

/// A turn of a conversation.
#[derive(Clone, Debug)]
enum Turn {
    User(String),
    System(String),
    Assistant(String),
    Calls(Vec<(String, String, bool)>),
}

fn text() -> impl Strategy<Value = String> {
    "[a-z \"\\\\\n\u{e9}\u{1F600}{}:]{1,12}"
}

fn turn() -> impl Strategy<Value = Turn> {
    let calls = proptest::collection::vec((text(), text(), any::<bool>()), 1..4);
    prop_oneof![
        text().prop_map(Turn::User),
        text().prop_map(Turn::System),
        text().prop_map(Turn::Assistant),
        calls.prop_map(Turn::Calls),
    ]
}

/// The items of a conversation, and its facts in order: role or call, and text.
fn items(turns: &[Turn]) -> (Vec<Value>, Vec<(String, String)>) {
    let (mut items, mut facts) =
        (vec![json!({"role": "user", "content": "first"})], vec![("user".to_owned(), "first".to_owned())]);
    for (at, turn) in turns.iter().enumerate() {
        match turn {
            Turn::User(text) | Turn::System(text) | Turn::Assistant(text) => {
                let (role, kind) = match turn {
                    Turn::User(_) => ("user", "input_text"),
                    Turn::System(_) => ("system", "input_text"),
                    _ => ("assistant", "output_text"),
                };
                items.push(json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}));
                facts.push((role.to_owned(), text.clone()));
            }
            Turn::Calls(calls) => {
                for (index, (arguments, _, custom)) in calls.iter().enumerate() {
                    let id = format!("call_{at}_{index}");
                    items.push(if *custom {
                        json!({"type": "custom_tool_call", "call_id": id, "name": "f", "input": arguments})
                    } else {
                        json!({"type": "function_call", "call_id": id, "name": "f", "arguments": arguments})
                    });
                    let sent = if *custom { json!({"input": arguments}).to_string() } else { arguments.clone() };
                    facts.push((format!("call {id}"), sent));
                }
                for (index, (_, output, custom)) in calls.iter().enumerate() {
                    let id = format!("call_{at}_{index}");
                    let kind = if *custom { "custom_tool_call_output" } else { "function_call_output" };
                    items.push(json!({"type": kind, "call_id": id, "output": output}));
                    facts.push((format!("output {id}"), output.clone()));
                }
            }
        }
    }
    (items, facts)
}

/// The same facts, read from chat messages.
fn facts(messages: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for message in messages.as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        if let Some(text) = message["content"].as_str() {
            let name = if role == "tool" {
                format!("output {}", message["tool_call_id"].as_str().unwrap())
            } else {
                role.to_owned()
            };
            found.push((name, text.to_owned()));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap();
            found.push((format!("call {id}"), call["function"]["arguments"].as_str().unwrap().to_owned()));
        }
    }
    found
}

/// An answer: reasoning, text and calls.
type Script = (String, String, Vec<(bool, String)>);

/// The message of a script. The input of custom tools is wrapped in JSON.
fn message(script: &Script) -> Value {
    let calls: Vec<Value> = (script.2.iter().enumerate())
        .map(|(at, (custom, text))| {
            let arguments = json!({"input": text}).to_string();
            let name = if *custom { "apply_patch" } else { "exec_command" };
            json!({"id": format!("c{at}"), "type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    json!({"role": "assistant", "content": script.1, "reasoning_content": script.0, "tool_calls": calls})
}

/// Cuts a text into pieces of the sizes that `cuts` gives.
fn pieces(text: &str, cuts: &mut impl Iterator<Item = usize>) -> Vec<String> {
    let mut chars = text.chars().peekable();
    let mut found = Vec::new();
    while chars.peek().is_some() {
        found.push(chars.by_ref().take(cuts.next().unwrap_or(1)).collect());
    }
    found
}

/// The chunks of a script, in one of the styles of engines.
fn chunks(script: &Script, cuts: &[usize], style: usize) -> Vec<Value> {
    let mut cuts = cuts.iter().copied().cycle();
    let mut found = vec![samples::delta(
        &json!({"role": "assistant", "content": if style == 0 { json!("") } else { Value::Null }}),
    )];
    for piece in pieces(&script.0, &mut cuts) {
        found.push(samples::delta(
            &json!({"reasoning_content": piece, "content": if style == 1 { json!("") } else { Value::Null }}),
        ));
    }
    for piece in pieces(&script.1, &mut cuts) {
        found.push(samples::delta(&json!({ "content": piece })));
    }
    let message = message(script);
    for (at, call) in message["tool_calls"].as_array().unwrap().iter().enumerate() {
        let (id, name) = (&call["id"], &call["function"]["name"]);
        let arguments = call["function"]["arguments"].as_str().unwrap();
        let mut first = true;
        let mut list: Vec<String> = if style == 3 { vec![arguments.to_owned()] } else { pieces(arguments, &mut cuts) };
        if list.is_empty() || style == 0 {
            list.insert(0, String::new());
        }
        for piece in list {
            let mut part = json!({"function": {"arguments": piece}});
            if style != 3 {
                part["index"] = json!(at);
            }
            if first || style == 1 {
                part["id"] = id.clone();
                part["function"]["name"] = name.clone();
            }
            first = false;
            found.push(samples::delta(
                &json!({"content": if style == 2 { json!("") } else { Value::Null }, "tool_calls": [part]}),
            ));
        }
    }
    found.extend([samples::finish(if style == 2 { "stop" } else { "tool_calls" }), samples::usage(), samples::done()]);
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_conversation_keeps_its_content_and_order(turns in proptest::collection::vec(turn(), 0..8)) {
        let (items, wanted) = items(&turns);
        let (body, dropped) = chat(&json!({"model": "m", "input": items}));
        prop_assert_eq!(facts(&body["messages"]), wanted);
        prop_assert!(dropped.is_empty());
    }

    #[test]
    fn every_cut_gives_the_same_answer(
        reasoning in "[a-z\"\\\\\n\u{1F600}]{0,10}",
        content in "[a-z\"\\\\\n\u{1F600}]{0,10}",
        calls in proptest::collection::vec((any::<bool>(), "[a-z\"\\\\\n\u{e9}{}\u{1F600}]{1,12}"), 0..4),
        cuts in proptest::collection::vec(1usize..6, 1..6),
        style in 0usize..4,
    ) {
        let script = (reasoning, content, calls);
        let events = stream(&samples::codex(), &chunks(&script, &cuts, style));
        check_order(&events);
        let body = json!({"model": "up", "choices": [{"index": 0, "message": message(&script), "finish_reason": "tool_calls"}],
            "usage": samples::usage()["usage"]});
        let mut wanted = whole(&samples::codex(), &body);
        let mut found = events.last().unwrap().1["response"].clone();
        for response in [&mut wanted, &mut found] {
            response["completed_at"] = Value::Null;
        }
        prop_assert_eq!(&found, &wanted);
        let calls: Vec<&Value> = found["output"].as_array().unwrap().iter().filter(|item| item["call_id"].is_string()).collect();
        for ((custom, text), item) in script.2.iter().zip(calls) {
            let wanted = if *custom { text.clone() } else { json!({"input": text}).to_string() };
            prop_assert_eq!(&item[if *custom { "input" } else { "arguments" }], &wanted);
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_responses(&bytes);
    }
}

#[test]
fn mutated_samples_do_no_harm() {
    let script = ("hm".to_owned(), "text\n".to_owned(), vec![(true, "*** \"x\"".to_owned()), (false, "{}".to_owned())]);
    let lines: Vec<String> = chunks(&script, &[3], 1)
        .iter()
        .map(|chunk| chunk.as_str().map_or_else(|| chunk.to_string(), str::to_owned))
        .collect();
    let answer = json!({"model": "up", "choices": [{"message": message(&script), "finish_reason": "stop", "logprobs": {"content": []}}]});
    let samples = [
        samples::codex().to_string(),
        serde_json::to_string_pretty(&samples::codex()).unwrap(),
        lines.join("\n"),
        answer.to_string(),
        json!({"error": {"message": "m", "code": 429}}).to_string(),
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for sample in &samples {
        fuzz_responses(sample.as_bytes());
        for _ in 0..1500 {
            let mut bytes = sample.clone().into_bytes();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                match random.u8(..5) {
                    0 => bytes[at] = random.u8(..),
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, *random.choice(b"\"\\{}[],:0tn\n".as_slice()).unwrap()),
                    3 => bytes.truncate(at.max(1)),
                    _ => {
                        let end = (at + random.usize(..40)).min(bytes.len());
                        let copy = bytes[at..end].to_vec();
                        let to = random.usize(..=bytes.len());
                        bytes.splice(to..to, copy);
                    }
                }
            }
            fuzz_responses(&bytes);
        }
    }
}
