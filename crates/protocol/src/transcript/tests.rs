use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Event;
use signalbox_types::{Endpoint, Usage};

const LARGE: usize = 1 << 20;

fn gather(endpoint: Endpoint, events: &[&str]) -> Result<Transcript, Uncacheable> {
    let mut gathering = TranscriptBuilder::new(endpoint, true);
    for event in events {
        gathering.push(&Event::of_data(event), Duration::from_millis(10));
    }
    gathering.finish(LARGE)
}

fn whole(transcript: &Transcript) -> Value {
    serde_json::from_slice(transcript.whole()).unwrap()
}

fn again(transcript: &Transcript, paced: bool) -> Transcript {
    let mut gathering = TranscriptBuilder::new(transcript.endpoint(), true);
    transcript.events(true, paced).iter().for_each(|(pause, event)| gathering.push(event, *pause));
    gathering.finish(LARGE).unwrap()
}

fn chunk(choice: &str) -> String {
    format!(
        r#"{{"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","system_fingerprint":"fp","choices":[{choice}]}}"#
    )
}

fn answered(finish: &str) -> Result<Transcript, Uncacheable> {
    let events = [
        chunk(r#"{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}"#),
        chunk(r#"{"index":0,"delta":{"reasoning_content":"Hm"},"finish_reason":null}"#),
        chunk(r#"{"index":0,"delta":{"content":"Grüß"},"logprobs":{"content":[{"token":"a","logprob":-0.5}]}}"#),
        chunk(r#"{"index":0,"delta":{"content":" Gott"},"logprobs":{"content":[{"token":"b","logprob":-1}]}}"#),
        chunk(&format!(r#"{{"index":0,"delta":{{}},"finish_reason":{finish},"stop_reason":null}}"#)),
        r#"{"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}"#.to_owned(),
        "[DONE]".to_owned(),
    ];
    gather(Endpoint::Chat, &events.each_ref().map(String::as_str))
}

#[test]
fn a_stream_becomes_the_whole_answer() {
    let transcript = answered("\"stop\"").unwrap();
    let want = json!({
        "id": "c1", "object": "chat.completion", "created": 5, "model": "m", "system_fingerprint": "fp",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": "Grüß Gott", "refusal": null, "reasoning_content": "Hm" },
            "logprobs": { "content": [{ "token": "a", "logprob": -0.5 }, { "token": "b", "logprob": -1 }] },
            "finish_reason": "stop", "stop_reason": null,
        }],
        "usage": {
            "prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "prompt_tokens_details": { "cached_tokens": 9 },
        },
    });
    assert_eq!(whole(&transcript), want);
    let usage = Usage { prompt_tokens: 9, completion_tokens: 4, ..Usage::default() };
    assert_eq!(transcript.usage(), Some(usage), "the counts stay the engine's");
}

#[test]
fn a_whole_answer_is_replayed_with_or_without_pauses() {
    let transcript = answered("\"stop\"").unwrap();
    let texts = |paced| -> Vec<(u128, String)> {
        let events = transcript.events(true, paced);
        let text = |(pause, event): &(Duration, Event)| {
            let value: Value = serde_json::from_slice(&event.data()?).ok()?;
            let delta = value.pointer("/choices/0/delta")?;
            let text = delta.get("content").or(delta.get("reasoning_content"))?.as_str()?.to_owned();
            Some((pause.as_millis(), text))
        };
        events.iter().filter_map(text).collect()
    };
    let of = |list: &[(u128, &str)]| list.iter().map(|(pause, text)| (*pause, (*text).to_owned())).collect::<Vec<_>>();
    assert_eq!(texts(true), of(&[(20, "Hm"), (10, "Grüß"), (10, " Gott")]));
    assert_eq!(texts(false), of(&[(0, "Hm"), (0, "Grüß Gott")]));
    for paced in [false, true] {
        assert_eq!(whole(&again(&transcript, paced)), whole(&transcript));
        let last =
            |usage| transcript.events(usage, paced).iter().rev().nth(1).map(|(_, event)| event.raw.clone()).unwrap();
        let says = |raw: &[u8]| String::from_utf8_lossy(raw).contains("\"cached_tokens\":9");
        assert!(says(&last(true)) && !says(&last(false)), "usage only where it is asked for");
    }
}

#[test]
fn only_complete_answers_are_kept() {
    for (finish, want) in [
        ("\"length\"", Uncacheable::FinishReason),
        ("\"content_filter\"", Uncacheable::FinishReason),
        ("\"tool_calls\"", Uncacheable::FinishReason),
        ("null", Uncacheable::Unfinished),
    ] {
        assert_eq!(answered(finish), Err(want), "{finish}");
    }
    let begun = chunk(r#"{"index":0,"delta":{"content":"a"},"finish_reason":null}"#);
    let stop = chunk(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#);
    let other = chunk(r#"{"index":1,"delta":{"content":"b"}}"#);
    assert_eq!(gather(Endpoint::Chat, &[&begun]), Err(Uncacheable::Unfinished));
    assert_eq!(gather(Endpoint::Chat, &[&begun, &other, &stop]), Err(Uncacheable::Unfinished), "one of two choices");
    assert_eq!(gather(Endpoint::Chat, &[&begun, r#"{"error":{"message":"x"}}"#, &stop]), Err(Uncacheable::Unfinished));
    assert_eq!(gather(Endpoint::Chat, &[&begun, "<html>", &stop]), Err(Uncacheable::Unreadable));
    assert_eq!(gather(Endpoint::Chat, &["[DONE]"]), Err(Uncacheable::Unreadable));
    assert!(gather(Endpoint::Chat, &[&begun, &stop]).is_ok(), "every choice has ended");
    let whole = |body: &str| Transcript::of_whole(Endpoint::Chat, body.as_bytes(), 100).map(|_| ());
    assert_eq!(whole(r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#), Ok(()));
    assert_eq!(
        whole(r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#),
        Err(Uncacheable::FinishReason)
    );
    assert_eq!(
        whole(r#"{"choices":[{"message":{"refusal":"I will not"},"finish_reason":"stop"}]}"#),
        Err(Uncacheable::Refused)
    );
    assert_eq!(whole(r#"{"choices":[{"message":{"content":"a"}}]}"#), Err(Uncacheable::Unfinished));
    assert_eq!(whole(r#"{"error":{"message":"a"},"choices":[]}"#), Err(Uncacheable::Unfinished));
    assert_eq!(whole(r#"{"choices":[{"finish_reason":"stop"}]}"#), Err(Uncacheable::Unreadable));
    assert_eq!(whole("[1]"), Err(Uncacheable::Unreadable));
    assert_eq!(whole(&" ".repeat(101)), Err(Uncacheable::TooLarge));
}

#[test]
fn completions_have_texts_of_their_own() {
    let chunk = |choice: &str| format!(r#"{{"id":"c","object":"text_completion","choices":[{choice}]}}"#);
    let events = [
        chunk(r#"{"index":0,"text":"a","logprobs":{"tokens":["a"],"token_logprobs":[-1.5]}}"#),
        chunk(r#"{"index":0,"text":"b","logprobs":{"tokens":["b"],"token_logprobs":[-2.5]},"finish_reason":"stop"}"#),
    ];
    let transcript = gather(Endpoint::Completions, &events.each_ref().map(String::as_str)).unwrap();
    let want = json!({ "id": "c", "object": "text_completion", "choices": [{
        "index": 0, "text": "ab", "logprobs": { "tokens": ["a", "b"], "token_logprobs": [-1.5, -2.5] }, "finish_reason": "stop",
    }] });
    assert_eq!(whole(&transcript), want);
    assert_eq!(whole(&again(&transcript, true)), want);
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), "[a-c \"\\\\é\u{1F600}]{0,8}".prop_map(Value::from)]
}

/// A message that answers something.
fn message() -> impl Strategy<Value = Value> {
    let content = "[a-c \"\\\\é\u{1F600}]{0,8}".prop_map(|text| format!("a{text}"));
    (content, text()).prop_map(|(content, reasoning)| {
        json!({ "role": "assistant", "content": content, "reasoning_content": reasoning, "refusal": null })
    })
}

proptest! {
    /// The answer that a client builds from the stream equals the whole answer and vice versa, however the stream was
    /// split.
    #[test]
    fn both_forms_are_equivalent(messages in proptest::collection::vec(message(), 1..4), usage in proptest::option::of((0..99_u64, 0..99_u64)), seconds in any::<bool>()) {
        let choices = messages.iter().zip(0..).map(|(message, index)| json!({ "index": index, "message": message, "finish_reason": "stop", "logprobs": null }));
        let mut answer = json!({ "id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices.collect::<Vec<_>>() });
        if let Some((prompt, completion)) = usage {
            answer["usage"] = json!({ "prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 0 } });
        }
        let first = Transcript::of_whole(Endpoint::Chat, answer.to_string().as_bytes(), LARGE).unwrap();
        let second = again(&first, false);
        prop_assert_eq!(whole(&second), whole(&first));
        let third = again(&second, seconds);
        prop_assert_eq!(whole(&third), whole(&first));
        if let Some((prompt, _)) = usage {
            prop_assert_eq!(first.usage().unwrap().prompt_tokens, prompt);
            prop_assert_eq!(second.usage().unwrap().cached_tokens, Some(prompt));
            answer["usage"]["prompt_tokens_details"]["cached_tokens"] = prompt.into();
        }
        prop_assert_eq!(whole(&first), answer);
    }

    /// Arbitrary events are accepted or rejected, and the answer never grows beyond its input.
    #[test]
    fn arbitrary_events_do_not_panic(events in proptest::collection::vec("\\{\"choices\":\\[(\\{\"index\":[01],\"(delta|text|logprobs)\":(\\{\"content\":\"a\"\\}|\"b\"|null|\\[1\\]),\"finish_reason\":(\"stop\"|null)\\})?\\]\\}", 0..6)) {
        for endpoint in [Endpoint::Chat, Endpoint::Completions] {
            if let Ok(transcript) = gather(endpoint, &events.iter().map(String::as_str).collect::<Vec<_>>()) {
                prop_assert!(transcript.events(true, true).len() > 1);
            }
        }
    }
}

#[test]
fn what_answers_nothing_is_not_kept() {
    let chat = |more: &str| {
        let body = format!(r#"{{"choices":[{{"index":0,"finish_reason":"stop",{more}}}]}}"#);
        Transcript::of_whole(Endpoint::Chat, body.as_bytes(), LARGE).err()
    };
    for (more, why) in [
        (r#""message":{"content":""}"#, Some(Uncacheable::Empty)),
        (r#""message":{"content":null}"#, Some(Uncacheable::Empty)),
        (r#""message":{"content":" \n\t"}"#, Some(Uncacheable::Empty)),
        (r#""message":{"content":[]}"#, Some(Uncacheable::Empty)),
        (r#""message":{"content":"","reasoning_content":"Hm"}"#, Some(Uncacheable::Empty)),
        (r#""message":{"content":"<think>\nHm</think>\n"}"#, Some(Uncacheable::Empty)),
        (r#""message":{"content":"<think>Hm"}"#, Some(Uncacheable::Empty)),
        (r#""message":{"content":"a","tool_calls":[{"id":"1"}]}"#, Some(Uncacheable::Calls)),
        (r#""message":{"content":null,"function_call":{"name":"f"}}"#, Some(Uncacheable::Calls)),
        (r#""message":{"content":"part"},"error":{"code":502}"#, Some(Uncacheable::Unfinished)),
        (r#""message":{"content":"<think>Hm</think>a","tool_calls":[],"function_call":null},"error":null"#, None),
        (r#""message":{"content":null,"audio":{"id":"a"}}"#, None),
        (r#""message":{"content":[{"type":"text","text":"a"}]}"#, None),
    ] {
        assert_eq!(chat(more), why, "{more}");
    }
    let text = |text: &str| {
        let body = format!(r#"{{"choices":[{{"index":0,"finish_reason":"stop","text":"{text}"}}]}}"#);
        Transcript::of_whole(Endpoint::Completions, body.as_bytes(), LARGE).err()
    };
    assert_eq!((text(" "), text("a")), (Some(Uncacheable::Empty), None));
}
