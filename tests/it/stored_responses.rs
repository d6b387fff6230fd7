//! Responses and conversations that the gateway stores for callers before backends that speak only chat.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, End, Sse, data, http},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, tool_events},
};

const RESPONSES: &str = "/v1/responses";

/// An engine of chat whose answer tells what it was sent.
fn chat(seen: &Seen) -> Plan {
    let texts: Vec<String> = messages(seen).iter().map(|message| message["content"].to_string()).collect();
    let text = format!("seen {}", texts.len());
    if seen.streams() { Plan::chat_stream([text]) } else { Plan::chat(&text) }
}

fn messages(seen: &Seen) -> Vec<Value> {
    seen.json()["messages"].as_array().cloned().unwrap_or_default()
}

fn roles(seen: &Seen) -> Vec<String> {
    messages(seen).iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

fn policy(url: &str, more: &str) -> String {
    format!(
        "engines: {{ e: {{ url: \"{url}\", scrape: false }} }}\n\
         pools: {{ main: {{ model: m, speaks: [chat], backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main }} }}\n{more}"
    )
}

async fn before(mock: &Mock, more: &str) -> Gateway {
    Gateway::start(&policy(&mock.url(), more)).await
}

fn keys(ids: &[&str]) -> String {
    let key = |id: &&str| format!("{{ id: {id}, hash: \"blake3:{}\" }}", blake3::hash(id.as_bytes()).to_hex());
    format!("keys: [{}]\n", ids.iter().map(key).collect::<Vec<_>>().join(", "))
}

/// A caller with a key.
struct Caller<'a>(&'a Gateway, &'a str);

impl Caller<'_> {
    async fn post(&self, path: &str, body: &Value) -> Answer {
        client::answer(client::json(http().post(self.0.at(path)).bearer_auth(self.1), body)).await
    }

    async fn get(&self, path: &str) -> Answer {
        client::answer(http().get(self.0.at(path)).bearer_auth(self.1)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        client::answer(http().delete(self.0.at(path)).bearer_auth(self.1)).await
    }

    /// Sends a request for a response, which has to succeed.
    async fn respond(&self, more: Value) -> Value {
        let mut body = json!({ "model": "auto", "input": "hi" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.post(RESPONSES, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The finished response of a stream.
    async fn stream(&self, mut body: Value) -> Value {
        body["stream"] = true.into();
        let request = client::json(http().post(self.0.at(RESPONSES)).bearer_auth(self.1), &body);
        let (events, end) = Sse::send(request).await.rest().await;
        assert!(matches!(end, End::Clean), "{end:?}");
        let last: Value = serde_json::from_str(&data(events.last().unwrap()).unwrap()).unwrap();
        last["response"].clone()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn refusal(answer: &Answer) -> (u16, Value, Value) {
    let error = answer.json()["error"].clone();
    (answer.status.as_u16(), error["code"].clone(), error["param"].clone())
}

#[tokio::test]
async fn a_previous_response_comes_before_the_input() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "").await;
    let caller = Caller(&gateway, "any");
    let first = caller.respond(json!({ "instructions": "Be brief.", "tools": [], "store": true })).await;
    assert_eq!((&first["store"], &first["previous_response_id"]), (&json!(true), &Value::Null));
    let id = text(&first["id"]);
    let second = caller
        .stream(json!({ "model": "auto", "input": [{ "role": "user", "content": "and" }], "previous_response_id": id }))
        .await;
    assert_eq!((&second["store"], &second["previous_response_id"]), (&json!(true), &json!(id)));
    // Without an input of its own, with another spelling of the field.
    let body = format!(r#"{{"model":"auto","previous_response\u005fid":{}}}"#, second["id"]);
    let request = http().post(gateway.at(RESPONSES)).header("content-type", "application/json").body(body);
    let third = client::answer(request).await;
    assert_eq!(third.status, 200, "{}", third.text());
    let seen = mock.seen();
    assert_eq!(roles(&seen[0]), ["system", "user"]);
    assert_eq!(roles(&seen[1]), ["user", "assistant", "user"], "instructions are not carried over");
    assert_eq!(roles(&seen[2]), ["user", "assistant", "user", "assistant"]);
    assert_eq!(messages(&seen[2])[3]["content"], "seen 3");
    assert!(seen.iter().all(|seen| seen.json().get("previous_response_id").is_none()));
}

#[tokio::test]
async fn references_to_items_become_the_items() {
    let mock = Mock::start(|seen| {
        if roles(seen).iter().any(|role| role == "tool") {
            chat(seen)
        } else {
            Plan::stream().events(tool_events("weather", &["{}"])).done()
        }
    })
    .await;
    let gateway = before(&mock, "").await;
    let caller = Caller(&gateway, "any");
    let tools = json!([{ "type": "function", "name": "weather", "parameters": { "type": "object" } }]);
    let first = caller.stream(json!({ "model": "auto", "input": "hi", "tools": tools })).await;
    let call = &first["output"][0];
    for reference in [
        json!({ "type": "item_reference", "id": call["id"] }),
        json!({ "id": call["id"] }),
        json!({ "type": null, "id": call["id"] }),
    ] {
        let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "sunny" });
        let input = json!([{ "role": "user", "content": "hi" }, reference, output]);
        let answer = caller.respond(json!({ "tools": tools, "input": input, "store": false })).await;
        assert_eq!(answer["store"], false);
        let sent = mock.seen().last().unwrap().json();
        assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["name"], "weather");
        // Not stored.
        assert_eq!(caller.get(&format!("{RESPONSES}/{}", text(&answer["id"]))).await.status, 404);
    }
    let unknown = format!("{}9", text(&call["id"]));
    let answer = caller
        .post(RESPONSES, &json!({ "model": "auto", "input": [{ "type": "item_reference", "id": unknown }] }))
        .await;
    assert_eq!(refusal(&answer), (404, Value::Null, json!("input[0].id")));
}

#[tokio::test]
async fn a_stored_response_is_retrieved_listed_and_deleted() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "").await;
    let caller = Caller(&gateway, "any");
    let whole = caller.respond(json!({ "metadata": { "a": "b" } })).await;
    let long = "x".repeat(200_000);
    let streamed = caller.stream(json!({ "model": "auto", "input": [{ "role": "user", "content": long }] })).await;
    for response in [&whole, &streamed] {
        let path = format!("{RESPONSES}/{}", text(&response["id"]));
        let found = caller.get(&path).await;
        assert_eq!((found.status.as_u16(), &found.json()), (200, response));
        assert!(!found.header("x-request-id").is_empty());
        let items = caller.get(&format!("{path}/input_items?order=asc")).await.json();
        assert_eq!((&items["object"], &items["data"][0]["role"]), (&json!("list"), &json!("user")));
        let cancelled = caller.post(&format!("{path}/cancel"), &json!({})).await;
        assert_eq!(cancelled.status, 400, "{}", cancelled.text());
        assert_eq!(caller.get(&format!("{path}/input_items?limit=0")).await.status, 400);
        assert_eq!(caller.get(&format!("{path}/other")).await.status, 404);
        let gone = caller.delete(&path).await.json();
        assert_eq!(gone, json!({ "id": response["id"], "object": "response", "deleted": true }));
        assert_eq!(
            (caller.get(&path).await.status, caller.delete(&path).await.status),
            (404.try_into().unwrap(), 404.try_into().unwrap())
        );
        let answer = caller.post(RESPONSES, &json!({ "model": "auto", "previous_response_id": response["id"] })).await;
        assert_eq!(refusal(&answer), (400, json!("previous_response_not_found"), json!("previous_response_id")));
    }
    assert_eq!(mock.seen().len(), 2, "nothing else reached the engine");
    let unknown =
        caller.post(RESPONSES, &json!({ "model": "auto", "input": "a", "previous_response_id": "resp_1" })).await;
    assert_eq!(refusal(&unknown), (400, json!("previous_response_not_found"), json!("previous_response_id")));
    let background = caller.post(RESPONSES, &json!({ "model": "auto", "input": "a", "background": true })).await;
    assert_eq!(background.status, 400);
}

#[tokio::test]
async fn a_key_cannot_reach_what_another_stored_nor_evict_it() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, &format!("{}responses: {{ store: 1Mi }}\n", keys(&["mine", "theirs"]))).await;
    let (mine, theirs) = (Caller(&gateway, "mine"), Caller(&gateway, "theirs"));
    let response = mine.respond(json!({})).await;
    let conversation =
        mine.post("/v1/conversations", &json!({ "items": [{ "role": "user", "content": "a" }] })).await.json();
    let (id, item) = (text(&response["id"]), text(&response["output"][0]["id"]));
    let path = format!("{RESPONSES}/{id}");
    let talk = format!("/v1/conversations/{}", text(&conversation["id"]));
    for path in [&path, &format!("{path}/input_items"), &talk, &format!("{talk}/items")] {
        assert_eq!(
            (mine.get(path).await.status.as_u16(), theirs.get(path).await.status.as_u16()),
            (200, 404),
            "{path}"
        );
    }
    assert_eq!((theirs.delete(&path).await.status.as_u16(), theirs.delete(&talk).await.status.as_u16()), (404, 404));
    for body in [
        json!({ "model": "auto", "previous_response_id": id }),
        json!({ "model": "auto", "input": [{ "type": "item_reference", "id": item }] }),
        json!({ "model": "auto", "input": "a", "conversation": conversation["id"] }),
    ] {
        let refused = theirs.post(RESPONSES, &body).await;
        assert!(matches!(refused.status.as_u16(), 400 | 404), "{}", refused.text());
        assert_eq!(mine.post(RESPONSES, &body).await.status, 200);
    }
    for number in 0..12 {
        theirs.respond(json!({ "input": format!("{number}{}", "x".repeat(200_000)) })).await;
    }
    assert_eq!(mine.get(&path).await.status, 200, "the key that stores most gives way");
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("signalbox_stored_responses_bytes", &[]) <= f64::from(1 << 20));
    assert!(metrics.sum("signalbox_stored_responses_evictions_total", &["reason=\"space\""]) > 5.0);
    let purged = client::answer(http().post(gateway.admin("/admin/responses/purge?key=mine"))).await;
    assert_eq!(purged.status, 200, "{}", purged.text());
    assert_eq!(mine.get(&path).await.status, 404);
    assert!(gateway.metrics().await.sum("signalbox_stored_responses", &[]) > 0.0, "the others stay");
}

#[tokio::test]
async fn a_conversation_collects_the_items_of_its_turns() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "").await;
    let caller = Caller(&gateway, "any");
    let system = json!({ "role": "system", "content": "Be brief." });
    let made = caller.post("/v1/conversations", &json!({ "metadata": { "a": "b" }, "items": [system] })).await;
    assert_eq!((made.status.as_u16(), &made.json()["metadata"]), (200, &json!({ "a": "b" })));
    let id = text(&made.json()["id"]).to_owned();
    let path = format!("/v1/conversations/{id}");
    let first = caller.respond(json!({ "conversation": id })).await;
    assert_eq!(first["conversation"], json!({ "id": id }));
    caller.stream(json!({ "model": "auto", "input": "more", "conversation": { "id": id }, "store": false })).await;
    assert_eq!(roles(&mock.seen()[1]), ["system", "user", "assistant", "user"]);
    let listed = caller.get(&format!("{path}/items?order=asc")).await.json();
    let data = listed["data"].as_array().unwrap();
    let roles: Vec<_> = data.iter().map(|item| text(&item["role"])).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!(data[2]["id"], first["output"][0]["id"]);

    let added =
        caller.post(&format!("{path}/items"), &json!({ "items": [{ "role": "user", "content": "x" }] })).await.json();
    let item = format!("{path}/items/{}", text(&added["data"][0]["id"]));
    assert_eq!(caller.get(&item).await.json()["content"][0], json!({ "type": "input_text", "text": "x" }));
    assert_eq!(caller.delete(&item).await.json()["id"], json!(id));
    assert_eq!((caller.get(&item).await.status.as_u16(), caller.delete(&item).await.status.as_u16()), (404, 404));
    let changed = caller.post(&path, &json!({ "metadata": { "c": "d" } })).await.json();
    assert_eq!((&changed, &caller.get(&path).await.json()), (&changed, &changed));
    for (path, body) in [
        ("/v1/conversations".to_owned(), json!({ "items": ["x"] })),
        ("/v1/conversations".to_owned(), json!({ "items": {} })),
        ("/v1/conversations".to_owned(), json!({ "metadata": [] })),
        (format!("{path}/items"), json!({ "items": [] })),
        (format!("{path}/items"), json!({ "items": vec![json!({}); 21] })),
        (RESPONSES.to_owned(), json!({ "model": "auto", "conversation": id, "previous_response_id": first["id"] })),
    ] {
        assert_eq!(caller.post(&path, &body).await.status, 400, "{path} {body}");
    }
    assert_eq!(caller.delete(&path).await.json()["object"], "conversation.deleted");
    let gone = caller.post(RESPONSES, &json!({ "model": "auto", "input": "a", "conversation": id })).await;
    assert_eq!(refusal(&gone), (404, Value::Null, json!("conversation")));
}

/// A backend that speaks Responses.
fn native(seen: &Seen) -> Plan {
    let body = json!({ "id": "resp_native1", "object": "response", "status": "completed",
        "output": [{ "id": "msg_n", "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "n", "annotations": [] }] }],
        "usage": { "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 } });
    if seen.path.starts_with(RESPONSES) { Plan::json(200, &body) } else { Plan::error(404, "no") }
}

#[tokio::test]
async fn backends_that_speak_the_api_get_its_own_bytes_or_a_whole_conversation() {
    let (own, other) = (Mock::start(chat).await, Mock::start(native).await);
    let policy = format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }}, n: {{ url: \"{}\", scrape: false }} }}\n\
         pools:\n  main: {{ model: m, speaks: [chat], backends: [{{ engine: e }}] }}\n  \
         native: {{ model: m, speaks: [responses], backends: [{{ engine: n }}] }}\n\
         models: {{ auto: {{ to: main }}, native: {{ to: native }} }}\n",
        own.url(),
        other.url()
    );
    let gateway = Gateway::start(&policy).await;
    let caller = Caller(&gateway, "any");
    let body = r#"{"model":"native", "store":true,  "input":[{"type":"item_reference","id":"msg_p"}],"previous_response_id":"resp_p"}"#;
    let request = http().post(gateway.at(RESPONSES)).header("content-type", "application/json").body(body);
    assert_eq!(client::answer(request).await.status, 200);
    let sent = String::from_utf8(other.seen()[0].body.to_vec()).unwrap();
    assert_eq!(sent.replace("\"m\"", "\"native\""), body, "as the caller sent it, but for the model");

    // A response of the gateway continues at the provider, with all its items.
    let first = caller.respond(json!({})).await;
    caller.respond(json!({ "model": "native", "previous_response_id": first["id"] })).await;
    let sent = other.seen()[1].json();
    assert!(sent.get("previous_response_id").is_none());
    assert_eq!(sent["input"].as_array().unwrap().len(), 3);
    // A conversation of the gateway is used by both.
    let talk = caller.post("/v1/conversations", &json!({})).await.json();
    caller.respond(json!({ "model": "native", "conversation": talk["id"] })).await;
    caller.respond(json!({ "conversation": talk["id"] })).await;
    assert_eq!(roles(own.seen().last().unwrap()), ["user", "assistant", "user"]);
    // The provider's ids stay the provider's.
    assert_eq!(caller.get(&format!("{RESPONSES}/resp_native1")).await.status, 200);
    assert!(other.seen().last().unwrap().path.ends_with("/resp_native1"));
    let foreign =
        caller.post(RESPONSES, &json!({ "model": "auto", "input": "a", "previous_response_id": "resp_native1" })).await;
    assert_eq!(refusal(&foreign), (400, json!("previous_response_not_found"), json!("previous_response_id")));
}

#[tokio::test]
async fn a_policy_may_store_nothing() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "responses: { store: off }\n").await;
    let caller = Caller(&gateway, "any");
    let plain = caller.respond(json!({})).await;
    assert_eq!(plain["store"], false);
    let stored = caller.post(RESPONSES, &json!({ "model": "auto", "input": "a", "store": true })).await;
    assert_eq!(refusal(&stored), (400, json!("unsupported_parameter"), json!("store")));
    assert_eq!(caller.post("/v1/conversations", &json!({})).await.status, 404);
    let missing = caller.post(RESPONSES, &json!({ "model": "auto", "previous_response_id": plain["id"] })).await;
    assert_eq!(refusal(&missing), (400, json!("previous_response_not_found"), json!("previous_response_id")));
}
