//! Thinking that Anthropic signed comes back with its signature in later turns, whichever API the caller speaks.

use serde_json::{Map, Value, json};

use crate::support::{
    client::{Sse, data, post},
    gateway::Gateway,
    mock::{Mock, Plan, Seen},
};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

/// The blocks of the first turn, which ends in a call if there are tools.
fn blocks(calls: bool) -> [Value; 4] {
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": {} });
    let text = json!({ "type": "text", "text": "I looked." });
    [
        json!({ "type": "redacted_thinking", "data": "cmVk" }),
        json!({ "type": "thinking", "thinking": "I \"look\".\n", "signature": "RXFv+/=" }),
        json!({ "type": "thinking", "thinking": "", "signature": "b21pdHRlZA==" }),
        if calls { call } else { text },
    ]
}

/// Answers as Anthropic does: it checks the blocks of a turn that it wrote, if they include thinking.
fn claude(seen: &Seen) -> Plan {
    let body = seen.json();
    let calls = body.get("tools").is_some();
    let messages = body["messages"].as_array().expect("messages");
    let own = messages.iter().find(|message| message["role"] == "assistant");
    if let Some(own) = own {
        let found = own["content"].as_array().expect("blocks");
        let [.., last] = blocks(calls);
        if *found != blocks(calls) && *found != [last] {
            return Plan::error(400, &format!("messages.1.content: invalid `signature` in `thinking` block: {own}"));
        }
    }
    let content = if own.is_some() { json!([{ "type": "text", "text": "seen" }]) } else { json!(blocks(calls)) };
    let reason = if own.is_some() || !calls { "end_turn" } else { "tool_use" };
    let mut message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content,
        "stop_reason": reason, "usage": { "input_tokens": 5, "output_tokens": 2 } });
    if !seen.streams() {
        return Plan::json(200, &message);
    }
    message["content"] = json!([]);
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, block) in content.as_array().expect("blocks").iter().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        match block["type"].as_str() {
            Some("thinking") => {
                (start["thinking"], start["signature"]) = ("".into(), "".into());
                let text = block["thinking"].as_str().expect("a text");
                deltas.extend(
                    text.split_inclusive(' ').map(|text| json!({ "type": "thinking_delta", "thinking": text })),
                );
                deltas.push(json!({ "type": "signature_delta", "signature": block["signature"] }));
            }
            Some("text") => {
                start["text"] = "".into();
                deltas.push(json!({ "type": "text_delta", "text": block["text"] }));
            }
            _ => {}
        }
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        events.extend(
            deltas.iter().map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })),
        );
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events
        .push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 2 } }));
    events.push(json!({ "type": "message_stop" }));
    let text: Vec<String> = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type")))
        .collect();
    Plan::text(200, "text/event-stream", text.concat())
}

async fn gateway(claude: &Mock, local: &Mock, more: &str) -> Gateway {
    let policy = format!(
        "engines:\n  claude: {{ url: \"{}\", dialect: anthropic }}\n  local: {{ url: \"{}\", scrape: false }}\n\
         pools:\n  claude: {{ model: claude, backends: [{{ engine: claude }}] }}\n  local: {{ model: m, speaks: [chat], backends: [{{ engine: local }}] }}\n\
         models: {{ auto: {{ to: claude }}, other: {{ to: local }} }}\n{more}",
        claude.url(),
        local.url()
    );
    Gateway::start(&policy).await
}

/// The data of the events of a stream.
async fn events(gateway: &Gateway, path: &str, body: &Value) -> Vec<Value> {
    let (events, _) = Sse::post(&gateway.at(path), body).await.rest().await;
    events.iter().filter_map(|event| serde_json::from_str(&data(event)?).ok()).collect()
}

fn request(stream: bool, input: &Value) -> Value {
    json!({ "model": "auto", "stream": stream, "input": input, "reasoning": { "effort": "low" }, "temperature": 0,
        "tools": [{ "type": "function", "name": "look", "parameters": { "type": "object" } }] })
}

/// The output of a response.
async fn respond(gateway: &Gateway, request: &Value) -> Vec<Value> {
    let response = if request["stream"] == true {
        let events = events(gateway, RESPONSES, request).await;
        events.last().map(|last| last["response"].clone()).unwrap_or_default()
    } else {
        post(&gateway.at(RESPONSES), request).await.json()
    };
    response["output"].as_array().unwrap_or_else(|| panic!("no output: {response}")).clone()
}

/// The input of a second turn after a call.
fn second(output: &[Value]) -> Value {
    let mut input = vec![json!({ "role": "user", "content": "Look." })];
    input.extend_from_slice(output);
    input.push(json!({ "type": "function_call_output", "call_id": "toolu_1", "output": "nothing" }));
    input.into()
}

#[tokio::test]
async fn a_second_turn_of_responses_has_the_signatures_of_the_first() {
    let claude = Mock::start(claude).await;
    let local = Mock::start(|_| Plan::chat("local")).await;
    let gateway = gateway(&claude, &local, "").await;
    for stream in [false, true] {
        let output = respond(&gateway, &request(stream, &json!([{ "role": "user", "content": "Look." }]))).await;
        let texts: String = output.iter().filter_map(|item| item["content"][0]["text"].as_str()).collect();
        assert_eq!(texts, "I \"look\".\n", "{output:?}");
        assert_eq!(output.last().expect("a call")["type"], "function_call");
        let input = second(&output);
        let answered = respond(&gateway, &request(stream, &input)).await;
        assert_eq!(answered[0]["content"][0]["text"], "seen");
        let sent = claude.seen().pop().expect("a request").json();
        assert_eq!(sent["messages"][1]["content"], json!(blocks(true)));

        // A chat backend does not know the blocks.
        let mut moved = request(false, &input);
        moved["model"] = "other".into();
        respond(&gateway, &moved).await;
        let sent = local.seen().pop().expect("a request").json();
        let members = |message: &Value| message.as_object().expect("a message").keys().cloned().collect::<Vec<_>>();
        assert_eq!(members(&sent["messages"][1]), ["role", "content", "tool_calls"], "{sent}");
    }
}

#[tokio::test]
async fn a_cached_answer_has_its_signatures() {
    let claude = Mock::start(claude).await;
    let local = Mock::start(|_| Plan::chat("local")).await;
    for (first, then) in [(true, true), (true, false), (false, true)] {
        let gateway = gateway(&claude, &local, "cache: { exact: {} }\n").await;
        let plain = |stream: bool, input: Value| {
            let mut request = request(stream, &input);
            request.as_object_mut().expect("a request").remove("tools");
            request
        };
        let before = claude.seen().len();
        respond(&gateway, &plain(first, json!([{ "role": "user", "content": "Look." }]))).await;
        let output = respond(&gateway, &plain(then, json!([{ "role": "user", "content": "Look." }]))).await;
        assert_eq!(claude.seen().len(), before + 1, "the second is cached");
        let mut input = vec![json!({ "role": "user", "content": "Look." })];
        input.extend(output);
        input.push(json!({ "role": "user", "content": "And?" }));
        respond(&gateway, &plain(then, input.into())).await;
        let sent = claude.seen().pop().expect("a request").json();
        assert_eq!(sent["messages"][1]["content"], json!(blocks(false)));
    }
}

#[tokio::test]
async fn thinking_whose_signature_is_not_returned_comes_back_with_its_call() {
    let claude = Mock::start(claude).await;
    let local = Mock::start(|_| Plan::chat("local")).await;
    let gateway = gateway(&claude, &local, "").await;
    let mut output = respond(&gateway, &request(false, &json!("Look."))).await;
    for item in &mut output {
        item.as_object_mut().expect("an item").remove("encrypted_content");
    }
    let reply = post(&gateway.at(RESPONSES), &request(false, &second(&output))).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("x-signalbox-dropped"), "temperature");
    assert_eq!(claude.seen().pop().expect("a request").json()["messages"][1]["content"], json!(blocks(true)));
}

/// Joins the deltas of a chat stream as the SDKs do: lists by the index of their elements.
fn joined(events: &[Value]) -> Value {
    fn merge(known: &mut Value, new: &Value) {
        match (known, new) {
            (Value::Object(known), Value::Object(new)) => {
                for (name, value) in new {
                    merge(known.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
            (Value::Array(known), Value::Array(new)) => {
                for element in new {
                    match known.iter_mut().find(|it| it["index"] == element["index"]) {
                        Some(known) => merge(known, element),
                        None => known.push(element.clone()),
                    }
                }
            }
            (Value::String(known), Value::String(new)) if !matches!(&**new, "thinking" | "redacted_thinking") => {
                known.push_str(new);
            }
            (known, new) => *known = new.clone(),
        }
    }
    let mut message = Value::Object(Map::new());
    for event in events {
        merge(&mut message, &event["choices"][0]["delta"]);
    }
    message
}

#[tokio::test]
async fn chat_callers_keep_the_signatures_in_the_extension() {
    let claude = Mock::start(claude).await;
    let local = Mock::start(|_| Plan::chat("local")).await;
    let gateway = gateway(&claude, &local, "").await;
    let request = |stream: bool, messages: Value| {
        json!({ "model": "auto", "stream": stream, "messages": messages, "reasoning_effort": "low",
            "tools": [{ "type": "function", "function": { "name": "look", "parameters": { "type": "object" } } }] })
    };
    for stream in [false, true] {
        let asked = json!({ "role": "user", "content": "Look." });
        let first = request(stream, json!([asked]));
        let message = if stream {
            joined(&events(&gateway, CHAT, &first).await)
        } else {
            post(&gateway.at(CHAT), &first).await.json()["choices"][0]["message"].clone()
        };
        let result = json!({ "role": "tool", "tool_call_id": "toolu_1", "content": "nothing" });
        let reply = post(&gateway.at(CHAT), &request(false, json!([asked, message, result]))).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let sent = claude.seen().pop().expect("a request").json();
        assert_eq!(sent["messages"][1]["content"], json!(blocks(true)), "{message}");
    }
}
