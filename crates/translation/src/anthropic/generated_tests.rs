//! Properties over generated conversations, streams and bytes.

use std::{collections::BTreeSet, fmt::Write as _};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Answer, AnswerTranslator, Defaults, from_chat, fuzz_anthropic,
    messages::CONTINUE,
    samples,
    stream_tests::{collected, comparable, streamed, whole},
};

fn text() -> impl Strategy<Value = String> {
    "[a-zé\u{1F600}\"\\\\\n/]{0,5}[a-z]"
}

/// A turn: its chat messages, and the role and blocks that they must become.
fn turn() -> impl Strategy<Value = (Vec<Value>, Vec<(&'static str, Vec<Value>)>)> {
    let user = text().prop_map(|text| {
        (vec![json!({"role": "user", "content": text})], vec![("user", vec![json!({"type": "text", "text": text})])])
    });
    let calls = proptest::collection::vec(("[a-z]{1,4}", text(), text()), 1..4);
    let calling = (proptest::option::of(text()), "[a-z]{12}", calls).prop_map(|(said, turn, calls)| {
        let (mut asked, mut results) = (Vec::new(), Vec::new());
        let mut spoken: Vec<Value> = said.iter().map(|text| json!({"type": "text", "text": text})).collect();
        let mut answered = Vec::new();
        for (index, (name, argument, result)) in calls.into_iter().enumerate() {
            let id = format!("call_{turn}_{index}");
            let input = json!({"a": argument});
            asked.push(
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}}),
            );
            spoken.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
            results.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
            answered.push(json!({"type": "tool_result", "tool_use_id": id, "content": result}));
        }
        let mut messages = vec![json!({"role": "assistant", "content": said, "tool_calls": asked})];
        messages.extend(results);
        (messages, vec![("assistant", spoken), ("user", answered)])
    });
    let assistant = text().prop_map(|text| {
        let blocks = vec![("assistant", vec![json!({"type": "text", "text": text})])];
        (vec![json!({"role": "assistant", "content": [{"type": "text", "text": text}]})], blocks)
    });
    prop_oneof![user, assistant, calling]
}

/// Messages in any order, many of them empty.
fn messy() -> impl Strategy<Value = Value> {
    let said = prop_oneof![
        Just(json!("")),
        Just(json!(null)),
        Just(json!(" \n")),
        Just(json!([])),
        text().prop_map(|text| json!(text)),
        text().prop_map(|text| json!([{"type": "text", "text": ""}, {"type": "text", "text": text}])),
    ];
    let call = json!([{"id": "a", "function": {"name": "f", "arguments": "{}"}}]);
    (0..5, said).prop_map(move |(kind, said)| match kind {
        0 => json!({"role": "system", "content": said}),
        1 => json!({"role": "user", "content": said}),
        2 => json!({"role": "assistant", "content": said}),
        3 => json!({"role": "assistant", "content": said, "tool_calls": call}),
        _ => json!({"role": "tool", "tool_call_id": "a", "content": said}),
    })
}

/// Asserts the rules of Messages for turns.
fn assert_turns(turns: &[Value]) {
    assert!(!turns.is_empty());
    assert_ne!(turns[0]["role"], "system");
    let (mut ids, mut results) = (BTreeSet::new(), 0);
    for (index, turn) in turns.iter().enumerate() {
        let blocks = turn["content"].as_array().unwrap();
        assert!(!blocks.is_empty(), "an empty turn in {turns:?}");
        for block in blocks {
            assert!(block["type"] != "text" || !block["text"].as_str().unwrap().trim().is_empty(), "a blank text");
        }
        let next = turns.get(index + 1).map_or(&Value::Null, |next| &next["role"]);
        assert_ne!(&turn["role"], next, "two turns of one role in {turns:?}");
        if turn["role"] == "system" {
            assert_eq!(turns[index - 1]["role"], "user");
            assert!(next.is_null() || next == "assistant", "{turns:?}");
        }
        let called = named(blocks, "tool_use", "id");
        let after = turns.get(index + 1).and_then(|next| next["content"].as_array());
        let answered = after.map(|after| named(&after[..called.len()], "tool_result", "tool_use_id"));
        assert_eq!(answered.unwrap_or_default(), called, "each call has a result in {turns:?}");
        for id in called {
            assert!(ids.insert(id), "two calls with one id in {turns:?}");
        }
        results += named(blocks, "tool_result", "tool_use_id").len();
    }
    assert_eq!(results, ids.len(), "a result without a call in {turns:?}");
}

/// The ids of the blocks of a type.
fn named<'a>(blocks: &'a [Value], kind: &str, name: &str) -> BTreeSet<&'a str> {
    blocks.iter().filter(|block| block["type"] == kind).filter_map(|block| block[name].as_str()).collect()
}

/// A content block of an answer.
fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        (text(), "[A-Za-z0-9]{4}")
            .prop_map(|(text, signature)| json!({"type": "thinking", "thinking": text, "signature": signature})),
        "[A-Za-z0-9]{4}".prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        ("[a-z]{1,4}", text()).prop_map(
            |(name, text)| json!({"type": "tool_use", "id": format!("t_{name}"), "name": name, "input": {"a": text}})
        ),
        Just(json!({"type": "tool_use", "id": "t", "name": "now", "input": {}})),
        Just(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}})),
    ]
}

/// The events of an answer with `blocks`, texts cut in pieces of `size` characters.
fn events(blocks: &[Value], size: usize) -> String {
    let mut lines = String::from(
        r#"{"type":"message_start","message":{"id":"msg_1","model":"c","usage":{"input_tokens":3,"output_tokens":1}}}"#,
    );
    for (index, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let mut deltas: Vec<Value> = Vec::new();
        let mut cut = |text: &str, kind: &str, name: &str| {
            let characters: Vec<char> = text.chars().collect();
            deltas.extend(
                characters.chunks(size).map(|piece| json!({"type": kind, name: piece.iter().collect::<String>()})),
            );
        };
        match block["type"].as_str() {
            Some("text") => {
                cut(start["text"].take().as_str().unwrap(), "text_delta", "text");
                start["text"] = json!("");
            }
            Some("thinking") => {
                cut(start["thinking"].take().as_str().unwrap(), "thinking_delta", "thinking");
                start["thinking"] = json!("");
                deltas.push(json!({"type": "signature_delta", "signature": start["signature"].take()}));
            }
            Some("tool_use") if block["input"] != json!({}) => {
                cut(&start["input"].take().to_string(), "input_json_delta", "partial_json");
                start["input"] = json!({});
            }
            _ => {}
        }
        let _ = write!(lines, "\n{}", json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            let _ = write!(lines, "\n{}", json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        let _ = write!(lines, "\n{}", json!({"type": "content_block_stop", "index": index}));
    }
    lines.push_str("\n{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n{\"type\":\"message_stop\"}");
    lines
}

proptest! {
    #[test]
    fn conversations_keep_roles_texts_ids_and_order(turns in proptest::collection::vec(turn(), 1..8)) {
        let mut chat = Vec::new();
        let mut want: Vec<(&str, Vec<Value>)> = Vec::new();
        for (messages, blocks) in turns {
            chat.extend(messages);
            for (role, blocks) in blocks {
                match want.last_mut() {
                    Some((last, known)) if *last == role => known.extend(blocks),
                    _ => want.push((role, blocks)),
                }
            }
        }
        let want: Vec<Value> = want.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
        let body = json!({"model": "m", "messages": chat}).to_string();
        let got = from_chat(body.as_bytes(), &Defaults { max_tokens: 9 }).unwrap();
        let got: Value = serde_json::from_slice(&got.body).unwrap();
        prop_assert_eq!(&got["messages"], &Value::Array(want));
    }

    #[test]
    fn any_conversation_follows_the_rules(chat in proptest::collection::vec(messy(), 0..8), model in prop_oneof![Just("m"), Just("claude-opus-5-5")]) {
        let body = json!({"model": model, "messages": chat}).to_string();
        if let Ok(got) = from_chat(body.as_bytes(), &Defaults { max_tokens: 9 }) {
            let got: Value = serde_json::from_slice(&got.body).unwrap();
            assert_turns(got["messages"].as_array().unwrap());
            // Appending an answer and a question must keep the beginning, which prompt caches and signatures depend on.
            let mut longer = chat.clone();
            longer.push(json!({"role": "assistant", "content": "answer"}));
            longer.push(json!({"role": "user", "content": "question"}));
            let body = json!({"model": model, "messages": longer}).to_string();
            let longer = from_chat(body.as_bytes(), &Defaults { max_tokens: 9 }).unwrap();
            let longer: Value = serde_json::from_slice(&longer.body).unwrap();
            let turns = got["messages"].as_array().unwrap();
            // The open turn of the assistant grows, and what asks for its rest disappears.
            let asked = turns.last().is_some_and(|turn| turn["content"][0]["text"].as_str() == Some(CONTINUE));
            let open = asked || turns.last().is_some_and(|turn| turn["role"] == "assistant");
            let kept = turns.len() - usize::from(asked) - usize::from(open);
            prop_assert_eq!(&turns[..kept], &longer["messages"].as_array().unwrap()[..kept]);
        }
    }

    #[test]
    fn any_split_of_a_stream_equals_the_whole_answer(blocks in proptest::collection::vec(block(), 0..6), size in 1usize..6) {
        let got = collected(&streamed(&events(&blocks, size)));
        let answer = json!({"id": "msg_1", "model": "c", "content": blocks, "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 9}});
        let mut want = whole(&answer.to_string());
        let want = json!({"message": want["choices"][0]["message"].take(),
            "finish_reason": want["choices"][0]["finish_reason"], "usage": want["usage"]});
        prop_assert_eq!(comparable(got), comparable(want));
    }

    #[test]
    fn a_collected_stream_can_be_sent_back(blocks in proptest::collection::vec(block(), 1..6), size in 1usize..6) {
        let collected = collected(&streamed(&events(&blocks, size)));
        let pieces: Vec<Value> = streamed(&events(&blocks, size))
            .iter()
            .filter_map(|event| serde_json::from_str::<Value>(event).ok())
            .filter_map(|chunk| chunk["choices"][0]["delta"]["thinking_blocks"].as_array().cloned())
            .flatten()
            .collect();
        let wanted: Vec<&Value> = blocks.iter().filter(|block| block["type"].as_str().is_some_and(|kind| kind.ends_with("thinking"))).collect();
        let mut naive = collected["message"].clone();
        naive["thinking_blocks"] = Value::Array(pieces);
        for message in [&collected["message"], &naive] {
            let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}, message, {"role": "user", "content": "b"}]});
            let sent = from_chat(body.to_string().as_bytes(), &Defaults { max_tokens: 9 }).unwrap();
            let sent: Value = serde_json::from_slice(&sent.body).unwrap();
            let thinking: Vec<&Value> = sent["messages"][1]["content"].as_array().into_iter().flatten()
                .filter(|block| block["type"].as_str().is_some_and(|kind| kind.ends_with("thinking"))).collect();
            prop_assert_eq!(&thinking, &wanted);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_anthropic(&bytes);
    }
}

#[test]
fn mutated_samples_are_survived() {
    let mut random = fastrand::Rng::with_seed(7);
    let pieces: [&[u8]; 12] =
        [b"null", b"\"\"", b"{}", b"[]", b"\\", b"\"", b"}", b",", b"\xff", b"\\ud83d", b"1e999", b"\"type\":\"text\""];
    for sample in [samples::REQUEST, samples::STREAM, samples::WHOLE] {
        for _ in 0..3000 {
            let mut bytes = sample.as_bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                let end = (at + random.usize(0..12)).min(bytes.len());
                let piece = pieces[random.usize(0..pieces.len())];
                bytes.splice(at..end, piece.iter().copied());
            }
            fuzz_anthropic(&bytes);
        }
    }
}

#[test]
fn the_state_of_a_stream_stays_small() {
    let mut answer = Answer::new(7, true);
    let mut out = Vec::new();
    let start = r#"{"type":"message_start","message":{"id":"m","model":"c"}}"#;
    answer.event(start.as_bytes(), &mut out).unwrap();
    let size = format!("{answer:?}").len();
    for index in 0..1000 {
        for line in [
            format!(r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"thinking"}}}}"#),
            format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{"thinking":"x"}}}}"#),
            format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
        ] {
            out.clear();
            answer.event(line.as_bytes(), &mut out).unwrap();
        }
    }
    assert!(format!("{answer:?}").len() < size + 100);
}
