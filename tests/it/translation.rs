//! Callers of Anthropic Messages and of OpenAI Responses before backends that speak chat completions only, and callers of
//! chat before backends that speak Messages only: every feature of chat applies to all of them.

use serde_json::{Value, json};

use crate::support::{
    client::{Answer, End, Sse, answer, data, http, json as with_json, post},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_chunk, chat_events, tool_events},
};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

fn words(who: &str) -> Vec<String> {
    (0..12).map(|number| format!("{who}{number} ")).collect()
}

fn message(stream: bool) -> Value {
    json!({ "model": "auto", "max_tokens": 50, "stream": stream, "temperature": 0,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } }],
        "messages": [{ "role": "user", "content": "Count." }] })
}

fn response(stream: bool) -> Value {
    json!({ "model": "auto", "stream": stream, "temperature": 0, "instructions": "Be brief.", "input": "Count." })
}

/// The events of a stream: name and data.
async fn events(gateway: &Gateway, path: &str, body: &Value) -> Vec<(String, Value)> {
    let (events, end) = Sse::post(&gateway.at(path), body).await.rest().await;
    assert!(matches!(end, End::Clean), "{end:?}");
    let named = |event: &bytes::Bytes| {
        let text = String::from_utf8_lossy(event).into_owned();
        let name = text.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or_default().to_owned();
        let data: Value = serde_json::from_str(&data(event)?).expect("JSON");
        assert_eq!(name, data["type"].as_str().unwrap_or_default(), "the event's name is its type");
        Some((name, data))
    };
    events.iter().filter_map(named).collect()
}

fn message_text(events: &[(String, Value)]) -> String {
    events.iter().filter_map(|(_, data)| data["delta"]["text"].as_str()).collect()
}

fn response_text(events: &[(String, Value)]) -> String {
    let deltas = events.iter().filter(|(name, _)| name == "response.output_text.delta");
    deltas.filter_map(|(_, data)| data["delta"].as_str()).collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| &**name).collect()
}

async fn before(mock: &Mock, more: &str) -> Gateway {
    let policy = format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }} }}\n\
         pools: {{ main: {{ model: m, speaks: [chat], backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main }} }}\n{more}",
        mock.url()
    );
    Gateway::start(&policy).await
}

fn chat_only(seen: &Seen) -> Plan {
    if seen.path != "/v1/chat/completions" {
        return Plan::error(404, "not found");
    }
    if seen.streams() { Plan::chat_stream(words("a")) } else { Plan::chat("one two") }
}

#[tokio::test]
async fn messages_are_answered_by_a_backend_of_chat() {
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "").await;
    let whole = post(&gateway.at(MESSAGES), &message(false)).await;
    let body = whole.json();
    assert_eq!((whole.status.as_u16(), &body["type"], &body["role"]), (200, &json!("message"), &json!("assistant")));
    assert_eq!((&body["content"][0]["text"], &body["stop_reason"]), (&json!("one two"), &json!("end_turn")));
    assert_eq!(whole.header("x-signalbox-translated"), "messages");
    let sent = mock.seen()[0].json();
    assert_eq!((&sent["model"], &sent["messages"][0]["role"]), (&json!("m"), &json!("system")));
    assert!(mock.seen()[0].header("x-api-key").is_none());

    let streamed = events(&gateway, MESSAGES, &message(true)).await;
    assert_eq!(message_text(&streamed), words("a").concat());
    let names = names(&streamed);
    assert_eq!((names[0], names[1]), ("message_start", "content_block_start"));
    assert_eq!(names[names.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
}

#[tokio::test]
async fn responses_are_answered_by_a_backend_of_chat() {
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "").await;
    let whole = post(&gateway.at(RESPONSES), &response(false)).await;
    let body = whole.json();
    assert_eq!(
        (whole.status.as_u16(), &body["object"], &body["status"]),
        (200, &json!("response"), &json!("completed"))
    );
    assert_eq!(body["output"][0]["content"][0]["text"], "one two");

    let streamed = events(&gateway, RESPONSES, &response(true)).await;
    assert_eq!(response_text(&streamed), words("a").concat());
    let names = names(&streamed);
    assert_eq!((names[0], names[1]), ("response.created", "response.in_progress"));
    assert_eq!(*names.last().expect("events"), "response.completed");
    let numbers: Vec<_> = streamed.iter().map(|(_, data)| data["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).map(Some).collect::<Vec<_>>());
}

#[tokio::test]
async fn tool_calls_keep_their_names_and_arguments() {
    let pieces = ["{\"city\":", "\"Oslo\"}"];
    let mock = Mock::start(move |_| Plan::stream().events(tool_events("weather", &pieces)).done()).await;
    let gateway = before(&mock, "").await;
    let mut body = message(true);
    body["tools"] = json!([{ "name": "weather", "input_schema": { "type": "object" } }]);
    let streamed = events(&gateway, MESSAGES, &body).await;
    let block = streamed.iter().find(|(name, _)| name == "content_block_start").expect("a block");
    assert_eq!(
        (&block.1["content_block"]["type"], &block.1["content_block"]["name"]),
        (&json!("tool_use"), &json!("weather"))
    );
    let arguments: String = streamed.iter().filter_map(|(_, data)| data["delta"]["partial_json"].as_str()).collect();
    assert_eq!(arguments, pieces.concat());
    let stop = streamed.iter().find(|(name, _)| name == "message_delta").expect("an end");
    assert_eq!(stop.1["delta"]["stop_reason"], "tool_use");

    let mut body = response(true);
    body["tools"] = json!([{ "type": "function", "name": "weather", "parameters": { "type": "object" } }]);
    let streamed = events(&gateway, RESPONSES, &body).await;
    let last = &streamed.last().expect("events").1["response"]["output"][0];
    assert_eq!((&last["type"], &last["arguments"]), (&json!("function_call"), &json!(pieces.concat())));
}

#[tokio::test]
async fn a_cut_stream_is_resumed_for_callers_of_every_api() {
    let text = words("a");
    let cut = text.clone();
    let first = Mock::start(move |_| Plan::stream().events(&chat_events(&cut)[..6]).cut()).await;
    let second = Mock::start(|_| Plan::chat_stream(words("a"))).await;
    let policy = format!(
        "pools:\n  first: {{ model: m, speaks: [chat], backends: [\"{}\"] }}\n  second: {{ model: m, speaks: [chat], backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: first, fallback: [second] }} }}\n",
        first.url(),
        second.url()
    );
    let gateway = Gateway::start(&policy).await;
    let message = events(&gateway, MESSAGES, &message(true)).await;
    assert_eq!(message_text(&message), text.concat());
    assert_eq!(message.last().expect("events").0, "message_stop");
    let response = events(&gateway, RESPONSES, &response(true)).await;
    assert_eq!(response_text(&response), text.concat());
    assert_eq!(response.last().expect("events").0, "response.completed");
}

#[tokio::test]
async fn a_stream_that_stays_cut_ends_in_the_callers_error_event() {
    let mock = Mock::start(|_| Plan::stream().events(&chat_events(words("a"))[..6]).cut()).await;
    let gateway = before(&mock, "").await;
    let message = events(&gateway, MESSAGES, &message(true)).await;
    let (name, last) = message.last().expect("events");
    assert_eq!((&**name, &last["error"]["type"]), ("error", &json!("api_error")));
    assert!(!names(&message).contains(&"message_stop"));
    let response = events(&gateway, RESPONSES, &response(true)).await;
    assert!(!names(&response).contains(&"response.completed"));
    let (name, _) = response.last().expect("events");
    assert!(name == "error" || name == "response.failed", "{name}");
}

#[tokio::test]
async fn a_refusal_is_escalated_for_callers_of_every_api() {
    const SORRY: &str = "I'm sorry, but I can't help with that.";
    let small = Mock::start(
        |seen: &Seen| {
            if seen.streams() { Plan::chat_stream(vec![SORRY.to_owned()]) } else { Plan::chat(SORRY) }
        },
    )
    .await;
    let large = Mock::start(chat_only).await;
    let policy = format!(
        "pools:\n  small: {{ model: m, speaks: [chat], backends: [\"{}\"] }}\n  large: {{ model: m, speaks: [chat], backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: small, cascade: {{ to: large, checks: [refusal] }} }} }}\n",
        small.url(),
        large.url()
    );
    let gateway = Gateway::start(&policy).await;
    let streamed = events(&gateway, MESSAGES, &message(true)).await;
    assert_eq!(message_text(&streamed), words("a").concat());
    assert_eq!(streamed.last().expect("events").0, "message_stop");
    let streamed = events(&gateway, RESPONSES, &response(true)).await;
    assert_eq!(response_text(&streamed), words("a").concat());
    assert_eq!(streamed.last().expect("events").0, "response.completed");
    for (path, body) in [(MESSAGES, message(false)), (RESPONSES, response(false))] {
        let text = post(&gateway.at(path), &body).await.json().to_string();
        assert!(text.contains("one two") && !text.contains("sorry"), "{path}: {text}");
    }
    assert_eq!((small.seen().len(), large.seen().len()), (4, 4));
}

#[tokio::test]
async fn answers_are_cached_for_callers_of_every_api() {
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "cache: { exact: {} }\n").await;
    for (path, body) in [(MESSAGES, message(true)), (RESPONSES, response(true))] {
        let before = mock.seen().len();
        let first = events(&gateway, path, &body).await;
        let again = Sse::post(&gateway.at(path), &body).await;
        assert!(again.header("x-signalbox-cache").starts_with("hit"), "{path}: {}", again.header("x-signalbox-cache"));
        let again = events(&gateway, path, &body).await;
        assert_eq!((names(&first).first(), names(&first).last()), (names(&again).first(), names(&again).last()));
        assert_eq!(message_text(&first), message_text(&again));
        assert_eq!(mock.seen().len(), before + 1, "{path}");
    }
}

#[tokio::test]
async fn what_chat_cannot_express_is_refused_by_name() {
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "").await;
    let mut body = message(false);
    body["tools"] = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    let refused = post(&gateway.at(MESSAGES), &body).await;
    let error = refused.json();
    assert_eq!((refused.status.as_u16(), &error["error"]["type"]), (400, &json!("invalid_request_error")));
    assert!(error["error"]["message"].as_str().expect("a message").contains("web_search"), "{error}");
    let mut body = response(false);
    body["background"] = json!(true);
    let refused = post(&gateway.at(RESPONSES), &body).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["param"]), (400, &json!("background")));
    assert!(mock.seen().is_empty());
}

#[tokio::test]
async fn a_backends_error_comes_in_the_callers_shape() {
    let mock = Mock::start(|_| Plan::error(400, "too hot")).await;
    let gateway = before(&mock, "").await;
    let refused = post(&gateway.at(MESSAGES), &message(true)).await;
    let error = refused.json();
    assert_eq!(
        (refused.status.as_u16(), &error["type"], &error["error"]["message"]),
        (400, &json!("error"), &json!("too hot"))
    );
    let refused = post(&gateway.at(RESPONSES), &response(false)).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["message"]), (400, &json!("too hot")));
}

#[tokio::test]
async fn a_whole_answer_in_place_of_a_stream_becomes_one() {
    let mock = Mock::start(|_| Plan::chat("one two")).await;
    let gateway = before(&mock, "").await;
    for (path, body, end) in
        [(MESSAGES, message(true), "event: message_stop"), (RESPONSES, response(true), "event: response.completed")]
    {
        let streamed = post(&gateway.at(path), &body).await;
        let text = streamed.text();
        assert_eq!((streamed.status.as_u16(), streamed.header("content-type")), (200, "text/event-stream"));
        assert!(text.contains("\"one two\"") && text.contains(end), "{text}");
    }
}

#[tokio::test]
async fn what_needs_a_provider_with_state_is_not_sent_to_a_backend_of_chat() {
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "").await;
    for (path, code) in
        [("/v1/responses/compact", json!("unsupported_endpoint")), ("/v1/responses/resp_1/cancel", Value::Null)]
    {
        let refused = post(&gateway.at(path), &response(false)).await;
        assert_eq!((refused.status.as_u16(), &refused.json()["error"]["code"]), (404, &code), "{path}");
    }
    let nameless = post(&gateway.at(RESPONSES), &json!({ "input": "Count." })).await;
    assert_eq!((nameless.status.as_u16(), &nameless.json()["error"]["param"]), (400, &json!("model")));
    assert!(mock.seen().is_empty());
}

#[tokio::test]
async fn thinking_is_shown_to_callers_that_ask_for_it() {
    let reasoned = |seen: &Seen| {
        let delta = |delta: Value, finish: Option<&str>| chat_chunk(&delta, finish);
        if seen.streams() {
            let (thought, said) = (json!({ "reasoning_content": "Hm." }), json!({ "content": "one" }));
            Plan::stream().events([delta(thought, None), delta(said, None), delta(json!({}), Some("stop"))]).done()
        } else {
            let message = json!({ "role": "assistant", "reasoning_content": "Hm.", "content": "one" });
            Plan::json(
                200,
                &json!({ "id": "c", "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] }),
            )
        }
    };
    let mock = Mock::start(reasoned).await;
    let gateway = before(&mock, "").await;
    for (thinking, blocks) in [(Value::Null, 1), (json!({ "type": "enabled", "budget_tokens": 2000 }), 2)] {
        let mut body = message(false);
        body["max_tokens"] = json!(4000);
        body["thinking"] = thinking;
        if blocks == 1 {
            body.as_object_mut().expect("an object").remove("thinking");
        }
        let whole = post(&gateway.at(MESSAGES), &body).await.json();
        assert_eq!(whole["content"].as_array().map(Vec::len), Some(blocks), "{whole}");
        body["stream"] = json!(true);
        let streamed = events(&gateway, MESSAGES, &body).await;
        assert_eq!(names(&streamed).iter().filter(|name| **name == "content_block_start").count(), blocks);
        assert_eq!(message_text(&streamed), "one");
    }
}

#[tokio::test]
async fn tokens_are_counted_without_a_backend() {
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "").await;
    let counted = post(&gateway.at("/v1/messages/count_tokens"), &message(false)).await;
    assert_eq!(counted.status, 200, "{}", counted.text());
    let tokens = counted.json()["input_tokens"].as_u64().expect("a count");
    assert!((4..40).contains(&tokens), "{tokens}");
    assert!(mock.seen().is_empty());
}

/// A backend that speaks Messages only.
fn native(seen: &Seen) -> Plan {
    if !seen.path.starts_with(MESSAGES) {
        return Plan::error(404, "not found");
    }
    if !seen.streams() {
        return Plan::json(
            200,
            &json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
                "content": [{ "type": "text", "text": "native" }], "usage": { "input_tokens": 5, "output_tokens": 2 } }),
        );
    }
    let events = [
        json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude", "content": [], "stop_reason": null, "usage": { "input_tokens": 5, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "nat" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "ive" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 2 } }),
        json!({ "type": "message_stop" }),
    ];
    let text: Vec<String> = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type")))
        .collect();
    Plan::text(200, "text/event-stream", text.concat())
}

async fn mixed(local: &Mock, claude: &Mock, to: &str, fallback: &str) -> Gateway {
    let policy = format!(
        "accounts: {{ a: {{ keys: [sk-ant-1] }} }}\n\
         engines:\n  local: {{ url: \"{}\", scrape: false }}\n  claude: {{ url: \"{}\", dialect: anthropic, account: a }}\n\
         pools:\n  local: {{ model: m, speaks: [chat], backends: [{{ engine: local }}] }}\n  claude: {{ model: claude, backends: [{{ engine: claude }}] }}\n\
         models: {{ auto: {{ to: {to}, fallback: [{fallback}] }} }}\n",
        local.url(),
        claude.url()
    );
    Gateway::start(&policy).await
}

#[tokio::test]
async fn a_backend_of_the_callers_api_gets_the_original_bytes() {
    let (local, claude) = (Mock::start(chat_only).await, Mock::start(native).await);
    let gateway = mixed(&local, &claude, "claude", "local").await;
    let body = message(true);
    let request = with_json(http().post(gateway.at("/v1/messages?beta=true")), &body).header("anthropic-beta", "x-1");
    let (_, end) = Sse::send(request).await.rest().await;
    assert!(matches!(end, End::Clean), "{end:?}");
    let streamed = events(&gateway, MESSAGES, &body).await;
    assert_eq!(
        (message_text(&streamed), &*streamed[0].1["message"]["id"].to_string()),
        ("native".to_owned(), "\"msg_1\"")
    );
    let seen = claude.seen();
    assert_eq!(seen[0].header("anthropic-beta"), Some("x-1"));
    assert_eq!((seen[0].header("x-api-key"), seen[0].header("authorization")), (Some("sk-ant-1"), None));
    assert_eq!((&seen[0].json()["system"], &seen[0].json()["model"]), (&body["system"], &json!("claude")));
    assert!(local.seen().is_empty());
}

#[tokio::test]
async fn thinking_of_a_chat_backend_does_not_reach_anthropic() {
    let (local, claude) = (Mock::start(chat_only).await, Mock::start(native).await);
    let block = |signature: &str| json!({ "type": "thinking", "thinking": "hm", "signature": signature });
    let text = json!({ "type": "text", "text": "yes" });
    let body = |blocks: Value| {
        let mut body = message(false);
        body["messages"] = json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": blocks },
            { "role": "user", "content": "b" }]);
        body
    };
    let moved = body(json!([block("chat.reasoning_content"), block("EqoB"), text]));
    for (to, fallback) in [("claude", "local"), ("claude", "")] {
        let gateway = mixed(&local, &claude, to, fallback).await;
        let whole = post(&gateway.at(MESSAGES), &moved).await;
        assert_eq!(whole.json()["content"][0]["text"], "native", "{}", whole.text());
        let seen = claude.seen().pop().expect("a request").json();
        assert_eq!(seen["messages"], body(json!([block("EqoB"), text]))["messages"]);
    }
    let gateway = mixed(&local, &claude, "local", "claude").await;
    post(&gateway.at(MESSAGES), &moved).await;
    let seen = local.seen().pop().expect("a request").json();
    assert_eq!(seen["messages"][2], json!({ "role": "assistant", "content": "yes", "reasoning_content": "hm" }));
}

#[tokio::test]
async fn fallback_crosses_the_apis_in_both_directions() {
    let (local, claude) = (Mock::start(|_| Plan::error(503, "busy")).await, Mock::start(native).await);
    let gateway = mixed(&local, &claude, "local", "claude").await;
    let whole = post(&gateway.at(MESSAGES), &message(false)).await;
    assert_eq!(whole.json()["content"][0]["text"], "native", "{}", whole.text());
    let streamed = events(&gateway, MESSAGES, &message(true)).await;
    assert_eq!(message_text(&streamed), "native");

    let (local, claude) = (Mock::start(chat_only).await, Mock::start(|_| Plan::error(529, "overloaded")).await);
    let gateway = mixed(&local, &claude, "claude", "local").await;
    let streamed = events(&gateway, MESSAGES, &message(true)).await;
    assert_eq!(message_text(&streamed), words("a").concat());
}

#[tokio::test]
async fn chat_and_responses_are_answered_by_a_backend_of_messages() {
    let (local, claude) = (Mock::start(chat_only).await, Mock::start(native).await);
    let gateway = mixed(&local, &claude, "claude", "local").await;
    let chat = |stream| {
        json!({ "model": "auto", "stream": stream,
        "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Count." }] })
    };
    let whole: Answer = post(&gateway.at("/v1/chat/completions"), &chat(false)).await;
    let body = whole.json();
    assert_eq!(
        (&body["object"], &body["choices"][0]["message"]["content"]),
        (&json!("chat.completion"), &json!("native"))
    );
    assert_eq!((&body["usage"]["prompt_tokens"], &body["choices"][0]["finish_reason"]), (&json!(5), &json!("stop")));
    let (text, end) = Sse::post(&gateway.at("/v1/chat/completions"), &chat(true)).await.text().await;
    assert!(matches!(end, End::Clean), "{end:?}");
    assert_eq!(text, "native");
    let sent = claude.seen()[0].json();
    assert_eq!((&sent["system"][0]["text"], &sent["model"]), (&json!("Be brief."), &json!("claude")));
    assert!(sent["max_tokens"].as_u64().is_some_and(|most| most > 0));
    assert_eq!(claude.seen()[0].header("anthropic-version"), Some("2023-06-01"));
    let streamed = events(&gateway, RESPONSES, &response(true)).await;
    assert_eq!(response_text(&streamed), "native");
    assert!(local.seen().is_empty());
}

#[tokio::test]
async fn hints_that_a_backend_of_messages_cannot_take_are_named() {
    let (local, claude) = (Mock::start(chat_only).await, Mock::start(native).await);
    let gateway = mixed(&local, &claude, "claude", "local").await;
    let mut chat = json!({ "model": "auto", "temperature": 1.5, "seed": 7,
        "messages": [{ "role": "user", "name": "ann", "content": "Count." }] });
    for stream in [false, true] {
        chat["stream"] = json!(stream);
        let reply = post(&gateway.at("/v1/chat/completions"), &chat).await;
        assert_eq!(reply.header("x-signalbox-dropped"), "messages[].name, temperature, seed");
    }
    // A caller of another API learns what was dropped on either part of the way, each once.
    let mut response = response(false);
    response["temperature"] = json!(1.5);
    response["text"] = json!({ "verbosity": "low" });
    response["safety_identifier"] = json!("u");
    let reply = post(&gateway.at(RESPONSES), &response).await;
    assert_eq!(reply.header("x-signalbox-translated"), "responses");
    let dropped = reply.header("x-signalbox-dropped").to_owned();
    assert!(dropped.contains("temperature") && dropped.contains("verbosity"), "{dropped}");
    assert_eq!(dropped.matches("temperature").count(), 1, "{dropped}");

    let gateway = mixed(&local, &claude, "local", "claude").await;
    let reply = post(&gateway.at("/v1/chat/completions"), &chat).await;
    assert_eq!((reply.header("x-signalbox-pool"), reply.header("x-signalbox-dropped")), ("local", ""));
}

#[tokio::test]
async fn a_break_in_a_translated_upstream_is_resumed_elsewhere() {
    let broken = |seen: &Seen| {
        let whole = native(seen);
        if seen.streams() { whole.cut() } else { whole }
    };
    let (local, claude) = (Mock::start(chat_only).await, Mock::start(broken).await);
    let gateway = mixed(&local, &claude, "claude", "local").await;
    let request = json!({ "model": "auto", "stream": true, "messages": [{ "role": "user", "content": "Count." }] });
    let answer = answer(with_json(http().post(gateway.at("/v1/chat/completions")), &request)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("[DONE]") || answer.text().contains("\"error\""), "{}", answer.text());
}

/// Sends a request with an id. Returns the whole answer.
async fn identified(gateway: &Gateway, path: &str, id: &str, body: &Value) -> Answer {
    answer(with_json(http().post(gateway.at(path)), body).header("x-request-id", id)).await
}

#[tokio::test]
async fn a_request_is_recorded_as_its_caller_saw_it() {
    let call = |index: u64, function: Value| {
        chat_chunk(
            &json!({ "tool_calls": [{ "index": index, "id": format!("c{index}"), "function": function }] }),
            None,
        )
    };
    let mixed = move |seen: &Seen| {
        let named = json!({ "name": "f", "arguments": "{}" });
        let events = [call(0, named), call(1, json!({ "arguments": "{}" }))];
        let nothing = json!({ "id": "c", "object": "chat.completion", "choices": [] });
        if seen.streams() { Plan::stream().events(events).done() } else { Plan::json(200, &nothing) }
    };
    let mock = Mock::start(mixed).await;
    let gateway = before(&mock, "").await;
    let mut refused = message(false);
    refused["tools"] = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    let seen = identified(&gateway, MESSAGES, "refused", &refused).await;
    let entry = gateway.decision("refused").await;
    assert_eq!((seen.status.as_u16(), &entry["status"]), (400, &json!(400)));
    assert_eq!((&entry["outcome"], &entry["attempts"]), (&json!("invalid_request"), &json!([])), "{entry}");

    for (path, id, body) in [(MESSAGES, "whole-m", message(false)), (RESPONSES, "whole-r", response(false))] {
        let seen = identified(&gateway, path, id, &body).await;
        let entry = gateway.decision(id).await;
        assert_eq!((seen.status.as_u16(), &entry["status"]), (502, &json!(502)), "{entry}");
        assert_eq!(entry["outcome"], "upstream_garbage", "{entry}");
    }
    let seen = identified(&gateway, MESSAGES, "streamed", &message(true)).await;
    assert!(seen.text().contains("event: error\n") && !seen.text().contains("message_stop"), "{}", seen.text());
    let entry = gateway.decision("streamed").await;
    assert_eq!((&entry["status"], &entry["outcome"]), (&json!(200), &json!("upstream_garbage")), "{entry}");

    // The attempts failed as well, and three in a row open the breaker.
    for id in ["whole-m", "whole-r", "streamed"] {
        let attempt = gateway.decision(id).await["attempts"][0].clone();
        assert_eq!(attempt["outcome"], "upstream_garbage", "{attempt}");
    }
    let metrics = gateway.metrics().await;
    // Of the three, only the streamed one had begun to answer.
    for (counted, least) in [
        ("signalbox_requests_total", 3.0),
        ("signalbox_backend_requests_total", 1.0),
        ("signalbox_backend_attempts_total", 3.0),
    ] {
        assert!(metrics.sum(counted, &["outcome=\"ok\""]).abs() < 0.5, "{metrics:?}");
        assert!(metrics.sum(counted, &["outcome=\"upstream_garbage\""]) > least - 0.5, "{metrics:?}");
    }
    assert!(metrics.sum("signalbox_backend_breaker", &["state=\"closed\""]) < 0.5, "{metrics:?}");
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "").await;
    for (id, body) in [("good", message(false)), ("good-stream", message(true))] {
        identified(&gateway, MESSAGES, id, &body).await;
        let entry = gateway.decision(id).await;
        assert_eq!((&entry["status"], &entry["outcome"]), (&json!(200), &json!("ok")), "{entry}");
    }
}

#[tokio::test]
async fn paths_below_responses_are_answered_or_explained() {
    let mock = Mock::start(chat_only).await;
    let gateway = before(&mock, "").await;
    let counted = post(&gateway.at("/v1/responses/input_tokens"), &response(false)).await.json();
    assert_eq!(counted["object"], "response.input_tokens", "{counted}");
    // A text is a user's message: the chat template around it counts.
    let mut listed = response(false);
    listed["input"] = json!([{ "role": "user", "content": "Count." }]);
    let listed = post(&gateway.at("/v1/responses/input_tokens"), &listed).await.json();
    assert_eq!(counted["input_tokens"], listed["input_tokens"]);
    assert!((2..40).contains(&counted["input_tokens"].as_u64().expect("a count")), "{counted}");
    let refused = post(&gateway.at("/v1/responses/compact"), &response(false)).await;
    let text = refused.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert!(refused.status == 404 && text.contains("whole conversation") && text.contains("speaks"), "{text}");
    for path in ["/v1/responses/resp_1", "/v1/responses/resp_1/input_items"] {
        let refused = answer(http().get(gateway.at(path))).await;
        let error = refused.json()["error"].clone();
        assert_eq!((refused.status.as_u16(), &error["code"]), (404, &Value::Null), "{path}: {error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("not found")), "{path}: {error}");
    }
    assert!(mock.seen().is_empty());
}

/// Gemini and Bedrock have endpoints in OpenAI's form, at bases of their own.
#[tokio::test]
async fn every_api_reaches_the_openai_endpoints_of_gemini_and_bedrock() {
    for base in ["/v1beta/openai", "/v1beta/openai/", "/openai/v1"] {
        let path = format!("{}/chat/completions", base.trim_end_matches('/'));
        let expected = path.clone();
        // They take the key as a bearer token only, and reject what they do not know.
        let provider = move |seen: &Seen| match &*seen.path {
            path if path != expected => Plan::error(404, "no such path"),
            _ if seen.header("authorization") != Some("Bearer secret") => Plan::error(401, "no key"),
            _ if seen.header("x-api-key").is_some() || seen.header("anthropic-version").is_some() => {
                Plan::error(400, "a foreign header")
            }
            _ if seen.json()["max_completion_tokens"].is_u64() => Plan::error(400, "an unknown field"),
            _ if seen.streams() => Plan::chat_stream(words("a")),
            _ => Plan::chat("one two"),
        };
        let mock = Mock::start(provider).await;
        let policy = format!(
            "accounts: {{ hosted: {{ keys: [secret] }} }}\n\
             engines: {{ hosted: {{ url: \"{}{base}\", account: hosted, scrape: false }} }}\n\
             pools: {{ hosted: {{ model: gemini-2.5-flash, speaks: [chat], backends: [{{ engine: hosted }}] }} }}\n\
             models: {{ auto: {{ to: hosted }} }}\n",
            mock.url().trim_end_matches("/v1")
        );
        let gateway = Gateway::start(&policy).await;
        let chat = json!({ "model": "auto", "messages": [{ "role": "user", "content": "Count." }] });
        let whole = post(&gateway.at("/v1/chat/completions"), &chat).await;
        assert_eq!(whole.json()["choices"][0]["message"]["content"], "one two", "{}", whole.text());
        let whole = post(&gateway.at(MESSAGES), &message(false)).await;
        assert_eq!(whole.json()["content"][0]["text"], "one two", "{}", whole.text());
        let streamed = events(&gateway, MESSAGES, &message(true)).await;
        assert_eq!(message_text(&streamed), words("a").concat());
        let streamed = events(&gateway, RESPONSES, &response(true)).await;
        assert_eq!(response_text(&streamed), words("a").concat());
        assert!(mock.seen().iter().all(|seen| seen.path == path && seen.json()["model"] == "gemini-2.5-flash"));
    }
}
