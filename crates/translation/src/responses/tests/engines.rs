//! Streams and answers of real engines, which differ in many ways.

use serde_json::{Value, json};

use super::{check_order, names, samples, stream, whole};
use samples::{delta, done, finish, usage};

fn output(events: &[(String, Value)]) -> Value {
    check_order(events);
    events.last().unwrap().1["response"]["output"].clone()
}

/// Name, id and arguments of each call.
fn calls(chunks: &[Value]) -> Vec<(String, String, String)> {
    let output = output(&stream(&samples::small(), chunks));
    let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    let calls = output.as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
    calls.map(|item| (text(item, "name"), text(item, "call_id"), text(item, "arguments"))).collect()
}

fn call(value: &Value) -> Value {
    delta(&json!({ "tool_calls": value }))
}

fn expect(found: &[(String, String, String)], wanted: &[(&str, &str, &str)]) {
    let found: Vec<_> = found.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(found, wanted);
}

#[test]
fn text_has_the_published_events() {
    let events = stream(
        &samples::small(),
        &[
            delta(&json!({"role": "assistant", "content": ""})),
            delta(&json!({"content": "Hel"})),
            json!({"choices": [{"index": 0, "delta": {"content": "lo\n\""}, "finish_reason": "stop"}], "usage": null}),
            usage(),
            done(),
        ],
    );
    assert_eq!(
        names(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed"
        ]
    );
    assert_eq!(output(&events)[0]["content"][0]["text"], "Hello\n\"");
    assert_eq!(
        events[9].1["response"]["usage"],
        json!({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 14})
    );
    assert_eq!(
        events[4].1,
        json!({"type": "response.output_text.delta", "sequence_number": 4, "item_id": "msg_700",
        "output_index": 0, "content_index": 0, "delta": "Hel", "logprobs": []})
    );
}

#[test]
fn calls_of_every_engine_are_distinguished() {
    let end = || vec![finish("tool_calls"), done()];
    // Pieces with a new id each, and an empty piece after the call.
    let mut chunks = vec![
        call(&json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}])),
        call(&json!([{"index": 0, "id": "b", "function": {"name": null, "arguments": "{\"x\""}}])),
        call(&json!([{"index": 0, "function": {"arguments": ":1}"}}])),
        call(&json!([{"index": 1, "id": "c", "function": {"name": "g", "arguments": "{}"}}])),
        call(&json!([{"index": 0, "function": {"arguments": ""}}])),
    ];
    chunks.extend(end());
    expect(&calls(&chunks), &[("f", "a", "{\"x\":1}"), ("g", "c", "{}")]);
    // Whole calls that all have the index 0.
    let mut chunks = vec![
        call(&json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
        call(&json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}])),
    ];
    chunks.extend(end());
    expect(&calls(&chunks), &[("f", "a", "{}"), ("f", "b", "{}")]);
    // Neither index nor id, all in one chunk; arguments as an object; the finish reason is `stop`.
    let chunks = [
        call(
            &json!([{"function": {"name": "f", "arguments": {"a": "b\n"}}}, {"function": {"name": "f", "arguments": "{}"}}]),
        ),
        finish("stop"),
        done(),
    ];
    expect(&calls(&chunks), &[("f", "call_700", "{\"a\":\"b\\n\"}"), ("f", "call_701", "{}")]);
    // The same id twice; name and id repeated in every piece.
    let mut chunks = vec![
        call(&json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}])),
        call(&json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}])),
        call(&json!([{"index": 1, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
    ];
    chunks.extend(end());
    expect(&calls(&chunks), &[("f", "a", "{}"), ("f", "call_701", "{}")]);
    // The older form.
    let chunks = [
        delta(&json!({"function_call": {"name": "f", "arguments": "{"}})),
        delta(&json!({"function_call": {"arguments": "}"}})),
        finish("function_call"),
        done(),
    ];
    expect(&calls(&chunks), &[("f", "call_700", "{}")]);
    // The name comes after the id and a piece of the arguments.
    let mut chunks = vec![
        call(&json!([{"index": 0, "id": "a", "function": {"arguments": "{"}}])),
        call(&json!([{"index": 0, "function": {"name": "f", "arguments": "}"}}])),
    ];
    chunks.extend(end());
    expect(&calls(&chunks), &[("f", "a", "{}")]);
}

#[test]
fn a_call_without_arguments_has_an_empty_object() {
    let chunks = [
        call(&json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}])),
        finish("tool_calls"),
        done(),
    ];
    expect(&calls(&chunks), &[("f", "a", "{}")]);
    let body = json!({"choices": [{"message": {"content": null, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": ""}}]}}]});
    assert_eq!(whole(&samples::small(), &body)["output"][0]["arguments"], "{}");
}

#[test]
fn reasoning_and_text_alternate() {
    let events = stream(
        &samples::small(),
        &[
            delta(&json!({"reasoning": "hm"})),
            delta(&json!({"content": "a", "reasoning": null})),
            delta(&json!({"reasoning_content": "oh", "reasoning": "oh"})),
            delta(&json!({"content": "b"})),
            delta(&json!({"refusal": "no"})),
            finish("stop"),
            done(),
        ],
    );
    let output = output(&events);
    let kinds: Vec<&str> = output.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "reasoning", "message"]);
    assert_eq!(
        output[0],
        json!({"type": "reasoning", "id": "rs_700", "status": "completed", "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}]})
    );
    assert_eq!(
        output[3]["content"],
        json!([{"type": "output_text", "text": "b", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "no"}])
    );
    assert!(names(&events).contains(&"reasoning_text.delta") && names(&events).contains(&"refusal.done"));
}

#[test]
fn text_during_a_call_is_an_item_of_its_own() {
    let events = stream(
        &samples::small(),
        &[
            call(&json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}])),
            delta(&json!({"content": "aside"})),
            call(&json!([{"index": 0, "function": {"arguments": "}"}}])),
            finish("tool_calls"),
            done(),
        ],
    );
    let output = output(&events);
    assert_eq!((&output[0]["arguments"], &output[1]["content"][0]["text"]), (&json!("{}"), &json!("aside")));
}

#[test]
fn limits_and_filters_make_an_answer_incomplete() {
    for (reason, wanted) in [("length", "max_output_tokens"), ("content_filter", "content_filter")] {
        let events = stream(&samples::small(), &[delta(&json!({"content": "a"})), finish(reason), usage(), done()]);
        check_order(&events);
        let (name, data) = events.last().unwrap();
        assert_eq!(name, "response.incomplete");
        assert_eq!(data["response"]["incomplete_details"], json!({ "reason": wanted }));
        assert_eq!(
            (&data["response"]["status"], &data["response"]["completed_at"]),
            (&json!("incomplete"), &Value::Null)
        );
        assert_eq!(data["response"]["output"][0]["status"], "incomplete");
    }
}

#[test]
fn logprobs_and_citations_are_kept() {
    let entry = json!({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []});
    let citation =
        json!([{"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}]);
    let flat = json!([{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}]);
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [entry]}}]});
    let events = stream(
        &samples::small(),
        &[chunk.clone(), chunk, delta(&json!({"annotations": citation})), finish("stop"), done()],
    );
    let output = output(&events);
    assert_eq!(output[0]["content"][0]["logprobs"], json!([entry, entry]));
    assert_eq!(output[0]["content"][0]["annotations"], flat);
    let body =
        json!({"choices": [{"message": {"content": "a", "annotations": citation}, "logprobs": {"content": [entry]}}]});
    let response = whole(&samples::small(), &body);
    assert_eq!(
        response["output"][0]["content"],
        json!([{"type": "output_text", "text": "a", "annotations": flat, "logprobs": [entry]}])
    );
}

#[test]
fn content_lists_are_read() {
    let content =
        json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]);
    let events = stream(&samples::small(), &[delta(&json!({ "content": content })), finish("stop"), done()]);
    let output = output(&events);
    assert_eq!((&output[0]["content"][0]["text"], &output[1]["content"][0]["text"]), (&json!("hm"), &json!("a")));
}

#[test]
fn an_empty_answer_is_complete() {
    let events =
        stream(&samples::small(), &[delta(&json!({"role": "assistant", "content": null})), finish("stop"), done()]);
    assert_eq!(output(&events), json!([]));
}

#[test]
fn other_choices_are_ignored() {
    let other = json!({"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "length"}]});
    let events = stream(&samples::small(), &[other, delta(&json!({"content": "a"})), finish("stop"), done()]);
    assert_eq!(output(&events)[0]["content"][0]["text"], "a");
}

#[test]
fn an_answer_without_end_is_stopped() {
    let mut answer = super::Answer::new(super::echo(&samples::small()), "resp_7", || 0);
    let chunk = delta(&json!({"content": "x".repeat(1 << 20)})).to_string();
    let mut send = || crate::AnswerTranslator::event(&mut answer, chunk.as_bytes(), &mut Vec::new());
    for _ in 0..16 {
        send().unwrap();
    }
    assert!(send().is_err());
}

#[test]
fn repeated_events_change_nothing() {
    let role = delta(&json!({"role": "assistant", "content": ""}));
    let events = stream(
        &samples::small(),
        &[
            role.clone(),
            role.clone(),
            delta(&json!({"role": "assistant", "content": "a"})),
            delta(&json!({})),
            delta(&json!({"content": null, "reasoning_content": null, "tool_calls": null})),
            delta(&json!({"content": "b", "tool_calls": []})),
            role,
            finish("stop"),
            finish("stop"),
            delta(&json!({"content": ""})),
            usage(),
            usage(),
            done(),
            done(),
            usage(),
        ],
    );
    let output = output(&events);
    assert_eq!(output.as_array().map(Vec::len), Some(1), "{output}");
    assert_eq!(output[0]["content"][0]["text"], "ab");
    assert_eq!(names(&events).iter().filter(|name| **name == "completed").count(), 1);
}

#[test]
fn cached_tokens_are_read_under_any_name() {
    for reported in [
        json!({"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}),
        json!({"prompt_tokens": 9.0, "completion_tokens": 5, "cached_tokens": 4, "completion_tokens_details": []}),
        json!({"input_tokens": 5, "output_tokens": 5, "cache_read_input_tokens": 4}),
    ] {
        let mut counted = usage();
        counted["usage"] = reported.clone();
        let mut within = finish("stop");
        within["choices"][0]["usage"] = reported;
        for end in [vec![finish("stop"), counted], vec![within]] {
            let events =
                stream(&samples::small(), &[vec![delta(&json!({"content": "a"}))], end, vec![done()]].concat());
            let usage = &events.last().unwrap().1["response"]["usage"];
            let counts =
                [&usage["input_tokens"], &usage["input_tokens_details"]["cached_tokens"], &usage["total_tokens"]];
            assert_eq!(counts, [9, 4, 14]);
        }
    }
}
