use proptest::prelude::*;
use serde_json::{Value, json};

use super::{chat, fold, stream, whole};
use crate::messages::{Answer, fuzz_messages};

fn text() -> impl Strategy<Value = String> {
    "[a-zé\u{1F600}\"\\\\\n\t ]{0,12}x"
}

fn input() -> impl Strategy<Value = Value> {
    proptest::collection::hash_map(
        "[a-z]{1,4}",
        prop_oneof![text().prop_map(Value::from), any::<i32>().prop_map(Value::from)],
        0..3,
    )
    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into())
}

/// A turn of the model with the results of its calls, and what the user then says.
fn turn() -> impl Strategy<Value = (String, Vec<(Value, String)>, Vec<String>)> {
    (text(), proptest::collection::vec((input(), text()), 0..3), proptest::collection::vec(text(), 1..3))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_conversation_keeps_its_content(system in text(), first in text(), turns in proptest::collection::vec(turn(), 0..4)) {
        let mut messages = vec![json!({"role": "user", "content": first})];
        let mut want = vec![json!(["system", system]), json!(["user", first])];
        let mut number = 0;
        for (said, calls, user) in turns {
            let mut blocks = vec![json!({"type": "text", "text": said})];
            let mut reply = Vec::new();
            want.push(json!(["assistant", said]));
            for (input, _) in &calls {
                number += 1;
                blocks.push(json!({"type": "tool_use", "id": format!("t{number}"), "name": "f", "input": input}));
                want.push(json!(["call", format!("t{number}"), input]));
            }
            let begin = number - calls.len();
            for (at, (_, result)) in calls.iter().enumerate() {
                let id = format!("t{}", begin + at + 1);
                want.push(json!(["tool", id, result]));
                reply.push(json!({"type": "tool_result", "tool_use_id": id, "content": result}));
            }
            for text in user {
                want.push(json!(["user", text]));
                reply.push(json!({"type": "text", "text": text}));
            }
            messages.push(json!({"role": "assistant", "content": blocks}));
            messages.push(json!({"role": "user", "content": reply}));
        }
        let (body, dropped) = chat(&json!({"model": "m", "max_tokens": 1, "system": system, "messages": messages}));
        prop_assert!(dropped.is_empty());
        let mut found = Vec::new();
        for message in body["messages"].as_array().unwrap() {
            match (message["role"].as_str().unwrap(), &message["content"]) {
                ("tool", content) => found.push(json!(["tool", message["tool_call_id"], content])),
                (role, Value::Array(parts)) => found.extend(parts.iter().map(|part| json!([role, part["text"]]))),
                (role, content) => found.push(json!([role, content])),
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let input: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
                found.push(json!(["call", call["id"], input]));
            }
        }
        prop_assert_eq!(found, want);
    }

    #[test]
    fn any_split_of_a_stream_is_the_whole_answer(
        reasoning in proptest::option::of("[a-z\n é]{0,9}"),
        content in proptest::option::of("[a-z\n \"é\u{1F600}]{0,20}"),
        calls in proptest::collection::vec(input(), 0..3),
        sizes in proptest::collection::vec(1usize..5, 1..8),
        finish_beside in any::<bool>(),
    ) {
        let mut sizes = sizes.iter().cycle();
        let mut pieces = |text: &str| {
            let chars: Vec<char> = text.chars().collect();
            let (mut at, mut found) = (0, Vec::new());
            while at < chars.len() {
                let end = (at + sizes.next().unwrap()).min(chars.len());
                found.push(chars[at..end].iter().collect::<String>());
                at = end;
            }
            found
        };
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        deltas.extend(pieces(reasoning.as_deref().unwrap_or_default()).into_iter().map(|piece| json!({"reasoning_content": piece})));
        deltas.extend(pieces(content.as_deref().unwrap_or_default()).into_iter().map(|piece| json!({"content": piece})));
        let mut tool_calls = Vec::new();
        for (at, input) in calls.iter().enumerate() {
            let (id, arguments) = (format!("c{at}"), input.to_string());
            deltas.push(json!({"tool_calls": [{"index": at, "id": id, "type": "function", "function": {"name": "f", "arguments": ""}}]}));
            deltas.extend(pieces(&arguments).into_iter().map(|piece| json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})));
            tool_calls.push(json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}));
        }
        if !finish_beside {
            deltas.push(json!({}));
        }
        let last = deltas.len() - 1;
        let mut events: Vec<String> = deltas.iter().enumerate().map(|(at, delta)| {
            json!({"id": "i", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": if at == last { json!("stop") } else { Value::Null }}]}).to_string()
        }).collect();
        let usage = json!({"prompt_tokens": 5, "completion_tokens": 6});
        events.push(json!({"choices": [], "usage": usage}).to_string());
        events.push("[DONE]".to_owned());
        let folded = stream(&events);
        prop_assert!(folded.complete);
        let mut message = json!({"role": "assistant", "content": content, "reasoning_content": reasoning});
        if !tool_calls.is_empty() {
            message["tool_calls"] = tool_calls.into();
        }
        let whole = whole(&json!({"id": "i", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}));
        prop_assert_eq!(&Value::from(folded.blocks), &whole["content"]);
        prop_assert_eq!(&folded.end["delta"]["stop_reason"], &whole["stop_reason"]);
        for (name, value) in folded.end["usage"].as_object().unwrap() {
            prop_assert_eq!(value, &whole["usage"][name], "{}", name);
        }
    }

    #[test]
    fn arbitrary_calls_keep_the_order_of_events(
        deltas in proptest::collection::vec((proptest::option::of(0u64..3), proptest::option::of("[ab]?"), proptest::option::of("[fg]?"), "[{}x ]{0,2}", "[ a]{0,2}"), 0..20),
    ) {
        use crate::AnswerTranslator as _;
        let mut answer = Answer::new(1);
        let mut out = Vec::new();
        for (index, id, name, arguments, text) in deltas {
            let delta = json!({"content": text, "tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]});
            let event = json!({"choices": [{"delta": delta}]}).to_string();
            if answer.event(event.as_bytes(), &mut out).is_err() {
                answer.event(br#"{"error":"cut"}"#, &mut out).unwrap();
            }
        }
        fold(&out);
    }
}

#[test]
fn mutated_samples_do_not_break_it() {
    let samples = [
        r#"{"model":"m","max_tokens":5,"stream":true,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a\u00e9"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"A"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":""},{"type":"tool_use","id":"i","name":"n","input":{"a":[1]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"r"}],"is_error":true}]},{"role":"system","content":"x"}],"tools":[{"name":"n","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":1024},"top_k":5}"#,
        "{\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"r\"}}]}\n{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"i\",\"function\":{\"name\":\"n\",\"arguments\":\"{}\"}}]}}]}\n{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n[DONE]",
        r#"{"id":"c","model":"m","choices":[{"index":0,"message":{"content":"a","reasoning_content":"b","tool_calls":[{"id":"i","function":{"name":"n","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        r#"{"error":{"message":"maximum context length is 5 tokens, 9 input tokens","code":400}}"#,
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for sample in samples {
        fuzz_messages(sample.as_bytes());
        for _ in 0..2_000 {
            let mut bytes = sample.as_bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                match random.u8(0..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] = *random.choice(b"\"{}[],:\\nu0d").unwrap(),
                    2 => drop(bytes.drain(at..(at + random.usize(1..9)).min(bytes.len()))),
                    _ => {
                        let piece = bytes[at..(at + random.usize(1..40)).min(bytes.len())].to_vec();
                        let to = random.usize(0..bytes.len());
                        bytes.splice(to..to, piece);
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            fuzz_messages(&bytes);
        }
    }
}
