//! Streamed answers: the client gets the engine's bytes unchanged, event by event, and never waits in silence.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::{
    client::{self, End, Sse, http},
    gateway::Gateway,
    mock::{Mock, Plan, chat_chunk, chat_events, completion_events, usage_event},
};

/// One pool over these mocks, tried in turn; clients may request any model.
fn policy(mocks: &[&Mock], more: &str) -> String {
    let backends: Vec<String> = mocks.iter().map(|mock| format!("\"{}\"", mock.url())).collect();
    let backends = backends.join(", ");
    format!(
        "pools:\n  p: {{ balance: round_robin, speaks: [chat, completions, responses, messages], backends: [{backends}] }}\n\
         models: {{ \"*\": {{ to: p }} }}\n{more}"
    )
}

async fn gateway(mock: &Mock, more: &str) -> Gateway {
    Gateway::start(&policy(&[mock], more)).await
}

fn ask(model: &str, usage: bool) -> Value {
    let mut body = json!({ "model": model, "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    if usage {
        body["stream_options"] = json!({ "include_usage": true });
    }
    body
}

async fn stream(gateway: &Gateway, model: &str) -> Sse {
    Sse::post(&gateway.at("/v1/chat/completions"), &ask(model, false)).await
}

/// Events as they are sent.
fn events(data: Vec<String>) -> String {
    data.into_iter().fold(String::new(), |text, data| text + "data: " + &data + "\n\n")
}

/// All events of a stream as text, and whether it ended properly.
async fn all(gateway: &Gateway, model: &str) -> (String, bool) {
    let (events, end) = stream(gateway, model).await.rest().await;
    (String::from_utf8(events.concat()).unwrap(), matches!(end, End::Clean))
}

/// The error that a broken stream ends with, after the earlier events.
async fn broken(gateway: &Gateway, model: &str) -> (String, Value) {
    let (events, end) = stream(gateway, model).await.rest().await;
    assert!(matches!(end, End::Clean), "{end:?}");
    let (last, before) = events.split_last().expect("at least the error");
    let error = client::data(last).unwrap();
    let error: Value = serde_json::from_str(&error).unwrap_or_else(|_| panic!("no error at the end: {events:?}"));
    let before = String::from_utf8(before.concat()).unwrap();
    assert!(!before.contains("[DONE]"), "a cut stream must not look complete: {before}");
    (before, error["error"].clone())
}

/// Everything that may occur in a stream of chat chunks.
const RICH: &str = concat!(
    ": welcome\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n",
    ": keep-alive\n\n",
    "id: 7\nevent: chunk\nretry: 10\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"\u{e4}\u{20ac}\u{1F600}\\ud83d\"},\"logprobs\":{\"content\":[{\"token\":\"x\",\"logprob\":-0.10,\"bytes\":[120]}]}}],\"x_vendor\":{\"k\": [1, 2e3]}}\n\n",
    "data: {\"choices\":\ndata:[{\"index\":0,\"delta\":{\"content\":\"two lines\"}}]}\n\n",
    "made-up: field\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n",
);
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"x\":1}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[tokio::test]
async fn a_stream_cut_at_any_byte_arrives_as_it_was() {
    let text = [RICH, USAGE, DONE].concat();
    let line_ends = |ending: &str| text.replace('\n', ending);
    let texts = [text.clone(), line_ends("\r\n"), line_ends("\r")];
    let served = texts.clone();
    // The model's name says which text is sent, and where it is cut.
    let mock = Mock::start(move |seen| {
        let mut numbers = seen.model().split('-').map(|number| number.parse::<usize>().unwrap());
        let (text, cut) = (numbers.next().unwrap(), numbers.next().unwrap());
        let plan = Plan::stream().body(served[text].clone());
        if cut == 0 { plan.cut_every(1) } else { plan.cut_at([cut, cut + 1]) }
    })
    .await;
    let gateway = gateway(&mock, "").await;
    let url = gateway.at("/v1/chat/completions");
    let (client, url, texts) = (&http(), &url, &texts);
    let whole = |text: usize, cut: usize, usage: bool| async move {
        let request = client::json(client.post(url), &ask(&format!("{text}-{cut}"), usage));
        let answer = client::answer(request).await;
        let mut wanted = texts[text].clone();
        if !usage {
            let ending = ["\n", "\r\n", "\r"][text];
            wanted = wanted.replace(&USAGE.replace('\n', ending), "");
        }
        assert_eq!(answer.text(), wanted, "text {text} cut at {cut}, usage asked for: {usage}");
    };
    let offsets = (0..3).flat_map(|text| (0..texts[text].len()).map(move |cut| (text, cut)));
    stream::iter(offsets).for_each_concurrent(16, |(text, cut)| whole(text, cut, cut % 2 == 0)).await;
    for text in 0..3 {
        whole(text, 0, true).await;
        whole(text, 0, false).await;
    }
}

#[tokio::test]
async fn every_api_streams_natively() {
    let completions = events(completion_events(["a", "\u{e4}b"])) + DONE;
    let responses = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\n\n\
        event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\",\"sequence_number\":1}\n\n\
        event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n";
    let messages = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\"}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let texts = [
        ("/v1/completions", completions),
        ("/v1/responses", responses.to_owned()),
        ("/v1/messages", messages.to_owned()),
    ];
    let served = texts.clone();
    let mock = Mock::start(move |seen| {
        let (_, text) = served.iter().find(|(path, _)| *path == seen.path).expect("a known path");
        Plan::stream().body(text.clone()).cut_every(5)
    })
    .await;
    let gateway = gateway(&mock, "").await;
    for (path, text) in &texts {
        let body = json!({ "model": "m", "stream": true, "prompt": "a", "input": "b", "messages": [1] });
        let answer = client::post(&gateway.at(path), &body).await;
        assert_eq!(answer.text(), *text, "{path}");
        assert_eq!(answer.header("content-type"), "text/event-stream", "{path}");
    }
    let read = |kind: &'static str| {
        move |metrics: &crate::support::gateway::Metrics| metrics.sum("signalbox_tokens_total", &[kind])
    };
    let metrics = gateway.wait_metrics("two usages", |metrics| read("kind=\"completion\"")(metrics) >= 6.0).await;
    assert!(read("kind=\"prompt\"")(&metrics) >= 6.0, "{metrics:?}");
}

#[tokio::test]
async fn events_are_passed_on_while_the_engine_is_still_at_it() {
    let mock = Mock::start(|_| {
        let mut events = chat_events(["a", "b"]).into_iter();
        let plan = Plan::stream().events(events.by_ref().take(2));
        plan.gate(1).body(": still here\n\n").gate(2).events(events).done()
    })
    .await;
    let gateway = gateway(&mock, "").await;
    let mut stream = stream(&gateway, "m").await;
    assert_eq!((stream.status.as_u16(), stream.header("content-type")), (200, "text/event-stream"));
    assert_eq!((stream.header("cache-control"), stream.header("x-accel-buffering")), ("no-cache", "no"));
    assert!(stream.data().await.unwrap().contains("assistant"));
    assert!(stream.data().await.unwrap().contains("\"a\""));
    mock.open(1);
    assert_eq!(stream.event().await.unwrap(), ": still here\n\n");
    assert_eq!(mock.under_way(), 1);
    mock.open(2);
    assert_eq!(stream.text().await.0, "b");
}

#[tokio::test]
async fn an_event_that_is_not_json_is_left_out() {
    let mock = Mock::start(|_| {
        let [role, a, b, finish] = chat_events(["a", "b"]).try_into().unwrap();
        let plan = Plan::stream().events([role, "{\"choices\": [{\"del".to_owned(), a, "oops".to_owned(), b, finish]);
        plan.event(&usage_event(3, 2)).done()
    })
    .await;
    let gateway = gateway(&mock, "").await;
    let (text, end) = stream(&gateway, "m").await.text().await;
    assert_eq!(text, "ab");
    assert!(matches!(end, End::Clean));
    let (events, _) = all(&gateway, "m").await;
    assert!(events.ends_with(DONE) && !events.contains("oops") && !events.contains("{\"del"), "{events}");
}

#[tokio::test]
async fn a_finished_stream_without_done_is_complete() {
    let mock = Mock::start(|seen| {
        let plan = Plan::stream().events(chat_events(["a"])).event(&usage_event(3, 1));
        match seen.model() {
            "hang" => plan.hang(),
            "done-hang" => plan.done().hang(),
            "done-cut" => plan.done().cut(),
            _ => plan,
        }
    })
    .await;
    let gateway = gateway(&mock, "timeouts: { idle: 300ms }\n").await;
    let finished = events(chat_events(["a"]));
    for (model, wanted) in [
        // What the engine leaves out is added.
        ("end", format!("{finished}{DONE}")),
        ("hang", format!("{finished}{DONE}")),
        ("done-hang", format!("{finished}{DONE}")),
        ("done-cut", format!("{finished}{DONE}")),
    ] {
        assert_eq!(all(&gateway, model).await, (wanted, true), "{model}");
    }
    let metrics =
        gateway.wait_metrics("four usages", |m| m.sum("signalbox_tokens_total", &["kind=\"completion\""]) >= 4.0).await;
    assert!((metrics.sum("signalbox_requests_total", &["outcome=\"ok\""]) - 4.0).abs() < 0.1, "{metrics:?}");
}

#[tokio::test]
async fn a_client_that_leaves_after_done_was_served() {
    let mock = Mock::start(|_| Plan::chat_stream(["a"]).gate(1)).await;
    let gateway = gateway(&mock, "").await;
    let mut stream = stream(&gateway, "m").await;
    while stream.data().await.unwrap() != "[DONE]" {}
    drop(stream);
    let metrics = gateway.wait_metrics("the end", |m| m.sum("signalbox_requests_total", &[]) >= 1.0).await;
    assert!(metrics.sum("signalbox_requests_total", &["outcome=\"ok\""]) >= 1.0, "{metrics:?}");
}

#[tokio::test]
async fn an_upstream_that_goes_on_after_done_does_not_hold_the_client() {
    let mock = Mock::start(|_| {
        let said = Plan::stream().events(chat_events(["a"])).done();
        (0..100).fold(said, |plan, _| plan.pause(std::time::Duration::from_millis(50)).body(": still here\n\n")).hang()
    })
    .await;
    let gateway = gateway(&mock, "").await;
    let (events, end) = stream(&gateway, "m").await.rest().await;
    let after = events.iter().filter(|event| event.starts_with(b": ")).count();
    assert!(matches!(end, End::Clean) && after < 50, "{after} events after the end");
}

#[tokio::test]
async fn a_cut_stream_ends_in_an_error() {
    let mock = Mock::start(|seen| {
        let mut plan = Plan::stream().events(chat_events(["a", "b"]).into_iter().take(3));
        if seen.model().starts_with("half") {
            plan = plan.body(format!("data: {}", chat_chunk(&json!({ "content": "c" }), None)));
        }
        if seen.model().starts_with("torn") {
            plan = plan.body("data: {\"choices\":[{\"ind");
        }
        match seen.model().split('-').nth(1) {
            Some("cut") => plan.cut(),
            Some("reset") => plan.reset(),
            _ => plan,
        }
    })
    .await;
    let gateway = gateway(&mock, "").await;
    for model in ["whole-cut", "whole-reset", "whole-end", "half-cut", "half-end", "torn-cut", "torn-end"] {
        let (before, error) = broken(&gateway, model).await;
        assert!(before.contains("\"a\""), "{model}: {before}");
        assert_eq!((&error["code"], &error["type"]), (&json!("stream_cut"), &json!("upstream_error")), "{model}");
        assert!(!before.contains("\"ind\n") && before.ends_with("\n\n"), "{model}: {before}");
    }
}

#[tokio::test]
async fn a_stream_of_two_choices_is_cut_while_one_is_open() {
    let chunk = |index: u32, delta: Value, finish: Option<&str>| {
        json!({ "choices": [{ "index": index, "delta": delta, "finish_reason": finish }] }).to_string()
    };
    let mock = Mock::start(move |_| {
        let text = |text: &str| json!({ "content": text });
        Plan::stream().events([chunk(1, text("b"), None), chunk(0, text("a"), None), chunk(1, json!({}), Some("stop"))])
    })
    .await;
    let gateway = gateway(&mock, "").await;
    assert_eq!(broken(&gateway, "m").await.1["code"], "stream_cut");
}

#[tokio::test]
async fn a_stream_that_stalls_ends_in_an_error() {
    let mock = Mock::start(|seen| {
        let plan = Plan::stream().events(chat_events(["a"]).into_iter().take(2));
        match seen.model() {
            // Signs of life are no content.
            "alive" => (0..500)
                .fold(plan, |plan, _| plan.pause(std::time::Duration::from_millis(20)).body(": ping\n\n"))
                .done(),
            _ => plan.hang(),
        }
    })
    .await;
    let gateway = gateway(&mock, "timeouts: { idle: 300ms, content: 1s }\n").await;
    for (model, limit) in [("silent", "timeouts.idle"), ("alive", "timeouts.content")] {
        let (before, error) = broken(&gateway, model).await;
        assert!(before.contains("\"a\""), "{before}");
        assert_eq!(error["code"], "stream_stalled", "{error}");
        assert!(error["message"].as_str().unwrap().contains(limit), "{error}");
        mock.wait_under_way(0).await;
    }
}

#[tokio::test]
async fn a_stream_that_takes_too_long_ends_in_an_error() {
    let mock = Mock::start(|_| {
        let plan = Plan::stream();
        (0..500).fold(plan, |plan, _| {
            plan.event(&chat_chunk(&json!({ "content": "a" }), None)).pause(std::time::Duration::from_millis(20))
        })
    })
    .await;
    let gateway = gateway(&mock, "timeouts: { total: 1s }\n").await;
    let (before, error) = broken(&gateway, "m").await;
    assert!(before.contains("\"a\""), "{before}");
    assert_eq!(error["code"], "deadline", "{error}");
}

#[tokio::test]
async fn an_error_event_before_the_first_token_is_retried() {
    let error = r#"{"error":{"message":"out of memory","type":"server_error","code":500}}"#;
    let failing = Mock::start(move |seen| {
        let role = chat_chunk(&json!({ "role": "assistant", "content": "" }), None);
        let plan = Plan::stream().body(": hi\n\n").event(&role);
        match seen.model() {
            "error" => plan.event(error),
            "cut" => plan.cut(),
            _ => plan,
        }
    })
    .await;
    let sound = Mock::start(|_| Plan::chat_stream(["sound"])).await;
    let policy = format!(
        "pools:\n  bad: {{ backends: [\"{}\"] }}\n  good: {{ backends: [\"{}\"] }}\n\
         models: {{ \"*\": {{ to: bad, fallback: [good] }} }}\n",
        failing.url(),
        sound.url()
    );
    let gateway = Gateway::start(&policy).await;
    for model in ["error", "cut", "end"] {
        let mut stream = stream(&gateway, model).await;
        assert_eq!((stream.status.as_u16(), stream.header("x-signalbox-pool")), (200, "good"), "{model}");
        let (events, _) = stream.rest().await;
        assert_eq!(events.len(), 4, "one answer, not two glued together: {events:?}");
    }
    assert!((3..=6).contains(&failing.seen().len()), "each is given a second chance at most");
}

#[tokio::test]
async fn a_whole_answer_in_the_place_of_a_stream_becomes_one() {
    let mock = Mock::start(|seen| {
        let plan = Plan::stream();
        let whole = json!({ "id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
            { "index": 0, "message": { "role": "assistant", "content": "Hello" }, "finish_reason": "stop" }] });
        match seen.model() {
            "naked" => plan.body(format!("\n{whole}\n")),
            "event" => plan.event(&whole.to_string()).done(),
            _ => plan.body(": hi\n\n").event(&whole.to_string()),
        }
    })
    .await;
    let gateway = gateway(&mock, "").await;
    for model in ["naked", "event", "event without an end"] {
        let (events, clean) = all(&gateway, model).await;
        assert!(clean && events.contains(r#""delta":{"role":"assistant""#) && events.contains("Hello"), "{events}");
        assert!(events.trim_end().ends_with("[DONE]") && !events.contains(r#""message""#), "{model}: {events}");
    }
}

#[tokio::test]
async fn last_words_and_quoted_words_of_an_engine_reach_the_caller() {
    let mock = Mock::start(|seen| {
        let plan = Plan::stream().events(chat_events(["a"]).into_iter().take(2));
        match seen.model() {
            "naked" => plan.body("Internal Server Error: out of memory\n"),
            "text" => plan.event("Error: out of memory"),
            "code" => plan.event(r#"{"choices":null,"base_resp":{"status_code":1000,"status_msg":"out of memory"}}"#),
            _ => plan.event(
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"out of memory\"}}"}}}"#,
            ),
        }
    })
    .await;
    let gateway = gateway(&mock, "").await;
    for model in ["naked", "text", "code", "quoted"] {
        let (_, error) = broken(&gateway, model).await;
        assert!(error["message"].as_str().is_some_and(|message| message.contains("out of memory")), "{model}: {error}");
    }
}

#[tokio::test]
async fn heartbeats_with_data_reach_callers_of_chat_as_comments() {
    let mock = Mock::start(|_| {
        let mut events = chat_events(["a", "b"]).into_iter();
        let plan = Plan::stream().events(events.by_ref().take(2)).body("data: \n\nevent: ping\ndata: {}\n\n");
        plan.event(r#"{"type": "ping"}"#).events(events)
    })
    .await;
    let (events, clean) = all(&gateway(&mock, "").await, "m").await;
    assert!(clean && !events.contains("ping") && !events.contains("{}\n"), "{events}");
}

#[tokio::test]
async fn an_error_event_after_a_token_is_passed_on() {
    // Usage beside it, which the client did not ask for, is no reason to keep it back.
    let error = r#"{"error":{"message":"out of memory","code":500},"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let mock = Mock::start(move |_| Plan::stream().events(chat_events(["a"]).into_iter().take(2)).event(error)).await;
    let other = Mock::start(|_| Plan::chat_stream(["never"])).await;
    let policy = format!(
        "pools:\n  bad: {{ backends: [\"{}\"] }}\n  good: {{ backends: [\"{}\"] }}\n\
         models: {{ \"*\": {{ to: bad, fallback: [good] }} }}\n",
        mock.url(),
        other.url()
    );
    let gateway = Gateway::start(&policy).await;
    let (events, clean) = all(&gateway, "m").await;
    // The other pool has the same model, but says something else: that is no way on.
    assert!(clean && events.contains("out of memory") && !events.contains("never"), "{events}");
    assert!(!events.contains("[DONE]"), "{events}");
    let metrics = gateway.wait_metrics("the end", |m| m.sum("signalbox_requests_total", &[]) >= 1.0).await;
    assert!(metrics.sum("signalbox_requests_total", &["outcome=\"upstream_error\""]) >= 1.0, "{metrics:?}");
}
