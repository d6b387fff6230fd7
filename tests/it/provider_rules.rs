//! Conversations that one provider wrote into, and another rejects: ids of calls, items of its own tools, and members that only
//! some models take.

use serde_json::{Value, json};

use crate::support::{
    client::post,
    gateway::Gateway,
    mock::{Mock, Plan, Seen},
};

/// A backend with Mistral's rule for ids.
fn strict(seen: &Seen) -> Plan {
    let body = seen.json();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let calls = messages.iter().flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
    let mut ids: Vec<Value> = calls.map(|call| call["id"].clone()).collect();
    let mut answered: Vec<Value> =
        messages.iter().map(|message| message["tool_call_id"].clone()).filter(Value::is_string).collect();
    let is_accepted =
        |id: &Value| id.as_str().is_some_and(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    ids.sort_by_key(ToString::to_string);
    answered.sort_by_key(ToString::to_string);
    if ids != answered || !ids.iter().all(is_accepted) {
        return Plan::error(400, "Tool call id must be a-z, A-Z, 0-9, with a length of 9.");
    }
    Plan::chat("fine")
}

/// A gateway before one engine of chat with a model.
async fn before(mock: &Mock, model: &str, key: &str) -> Gateway {
    Gateway::start(&format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false{key} }} }}\n\
         pools: {{ main: {{ model: {model}, speaks: [chat], backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main }} }}\n",
        mock.url()
    ))
    .await
}

/// A conversation with a call and its result, in each API.
fn conversations() -> [(&'static str, Value); 3] {
    let call = json!({ "id": "call_0fypS1hVX", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    [
        (
            "/v1/chat/completions",
            json!({ "model": "auto", "messages": [
                { "role": "user", "content": "x" }, { "role": "assistant", "content": "", "tool_calls": [call] },
                { "role": "tool", "tool_call_id": "call_0fypS1hVX", "content": "1" }] }),
        ),
        (
            "/v1/messages",
            json!({ "model": "auto", "max_tokens": 9, "messages": [
                { "role": "user", "content": "x" },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "toolu_01A", "name": "f", "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_01A", "content": "r" }] }] }),
        ),
        (
            "/v1/responses",
            json!({ "model": "auto", "store": false, "input": [
                { "role": "user", "content": "x" },
                { "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "call_1", "output": "r" }] }),
        ),
    ]
}

#[tokio::test]
async fn ids_of_calls_become_those_that_mistral_takes() {
    let mock = Mock::start(strict).await;
    for (model, key) in [("codestral-latest", ""), ("m", ", tool_call_ids: mistral")] {
        let gateway = before(&mock, model, key).await;
        for (path, body) in conversations() {
            assert_eq!(post(&gateway.at(path), &body).await.status, 200, "{path} {model}");
        }
    }
    let gateway = before(&mock, "codestral-latest", ", tool_call_ids: any").await;
    for (path, body) in conversations() {
        assert_eq!(post(&gateway.at(path), &body).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn that_a_backend_takes_only_mistrals_ids_is_learned_from_its_refusal() {
    let mock = Mock::start(strict).await;
    let gateway = before(&mock, "house-model", "").await;
    for (path, body) in conversations() {
        assert_eq!(post(&gateway.at(path), &body).await.status, 200, "{path}");
    }
    assert_eq!(mock.seen().len(), 4, "the first request is sent twice, and no other");
}

#[tokio::test]
async fn a_conversation_with_the_providers_tools_goes_on_at_a_backend_of_chat() {
    let mock = Mock::start(|_: &Seen| Plan::chat("fine")).await;
    let gateway = before(&mock, "m", "").await;
    let searched = json!([
        { "type": "server_tool_use", "id": "s1", "name": "web_search", "input": { "query": "q" } },
        { "type": "web_search_tool_result", "tool_use_id": "s1", "content": [
            { "type": "web_search_result", "url": "http://a.example", "title": "t", "encrypted_content": "e" }] },
        { "type": "text", "text": "found" }
    ]);
    let message = json!({ "model": "auto", "max_tokens": 9, "tools": [{ "type": "web_search_20250305", "name": "web_search" }],
        "messages": [{ "role": "user", "content": "x" }, { "role": "assistant", "content": searched }, { "role": "user", "content": "and?" }] });
    let reply = post(&gateway.at("/v1/messages"), &message).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["content"][0]["text"]), (200, &json!("fine")));
    assert_eq!(
        reply.header("x-signalbox-dropped"),
        "messages[].content[].server_tool_use, messages[].content[].web_search_tool_result, tools[].web_search_20250305"
    );
    let sent = mock.seen()[0].json();
    let said = sent["messages"][1]["content"].as_str().expect("text");
    assert!(said.contains("- t: http://a.example") && said.ends_with("found"), "{said}");

    let response = json!({ "model": "auto", "store": false, "tools": [{ "type": "image_generation" }], "input": [
        { "role": "user", "content": "x" }, { "type": "image_generation_call", "id": "i", "status": "completed", "result": "QUJD" },
        { "role": "user", "content": "and?" }] });
    let reply = post(&gateway.at("/v1/responses"), &response).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-signalbox-dropped"), "tools.image_generation, input.image_generation_call");
}

#[tokio::test]
async fn claude_gets_only_the_members_that_its_model_takes() {
    let whole = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [
        { "type": "text", "text": "fine" }], "stop_reason": "end_turn", "usage": { "input_tokens": 1, "output_tokens": 1 } });
    let mock = Mock::start(move |_: &Seen| Plan::json(200, &whole)).await;
    let policy = format!(
        "engines: {{ e: {{ url: \"{}\", dialect: anthropic }} }}\n\
         pools: {{ main: {{ model: claude-sonnet-4-5, backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main }} }}\n",
        mock.url()
    );
    let gateway = Gateway::start(&policy).await;
    let body = json!({ "model": "auto", "temperature": 0.5, "top_p": 0.9, "messages": [
        { "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "data:image/PJPEG;base64,/9j/4AAQ\r\nSkZJRg" } }] }] });
    let reply = post(&gateway.at("/v1/chat/completions"), &body).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-signalbox-dropped")), (200, "top_p"));
    let sent = mock.seen()[0].json();
    assert_eq!((&sent["temperature"], sent.get("top_p")), (&json!(0.5), None));
    let source = json!({ "type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQSkZJRg==" });
    assert_eq!(sent["messages"][0]["content"][0]["source"], source);
}
