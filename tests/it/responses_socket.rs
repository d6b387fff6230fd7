//! The Responses API over a WebSocket: turns of agents on one connection.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest},
};

use crate::support::{
    gateway::Gateway,
    mock::{Mock, Plan, Seen},
};

/// An engine of chat whose answer tells what it was sent.
fn chat(seen: &Seen) -> Plan {
    let body = seen.json();
    let texts = body["messages"].as_array().unwrap().iter().map(|message| message["content"].to_string());
    Plan::chat_stream([texts.collect::<Vec<_>>().join(" ")])
}

async fn before(mock: &Mock, more: &str) -> Gateway {
    Gateway::start(&format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }} }}\n\
         pools: {{ main: {{ model: m, speaks: [chat], backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main }} }}\n{more}",
        mock.url()
    ))
    .await
}

/// A connection of a client.
struct Client(WebSocketStream<TcpStream>);

impl Client {
    async fn try_connect(gateway: &Gateway, path: &str, key: &str) -> Result<Self, Error> {
        let mut request = format!("ws://{}{path}", gateway.listen()).into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        let connection = TcpStream::connect(gateway.listen()).await?;
        Ok(Self(client_async(request, connection).await?.0))
    }

    async fn connect(gateway: &Gateway) -> Self {
        Self::try_connect(gateway, "/v1/responses", "any").await.unwrap()
    }

    async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// The next event; `None` once the connection is closed.
    async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Sends a turn. Returns its events.
    async fn turn(&mut self, more: Value) -> Vec<Value> {
        let mut frame = json!({ "type": "response.create", "model": "auto", "store": false });
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.send(&frame).await;
        let mut events = Vec::new();
        loop {
            let event = self.next().await.unwrap();
            let kind = event["type"].as_str().unwrap().to_owned();
            events.push(event);
            if ["response.completed", "response.incomplete", "response.failed", "error"].contains(&&*kind) {
                return events;
            }
        }
    }
}

fn contents(seen: &Seen) -> Vec<String> {
    let body = seen.json();
    body["messages"].as_array().unwrap().iter().map(|it| it["content"].as_str().unwrap().to_owned()).collect()
}

fn id(events: &[Value]) -> Value {
    events.last().unwrap()["response"]["id"].clone()
}

#[tokio::test]
async fn turns_continue_what_only_the_connection_knows() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "").await;
    let mut client = Client::connect(&gateway).await;
    let first = client.turn(json!({ "input": "a" })).await;
    let kinds: Vec<_> = first.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("response.created", "response.completed"));
    assert!(kinds.contains(&"response.output_text.delta"), "{kinds:?}");
    let second = json!({ "input": [{ "role": "user", "content": "b" }], "previous_response_id": id(&first) });
    let second = client.turn(second).await;
    client.turn(json!({ "input": "c", "previous_response_id": id(&second) })).await;
    // An earlier one may be continued in another way.
    client.turn(json!({ "input": "d", "previous_response_id": id(&first) })).await;
    let seen = mock.seen();
    assert_eq!(contents(&seen[1]), ["a", "\"a\"", "b"]);
    assert_eq!(contents(&seen[2])[2..], ["b", "\"a\" \"\\\"a\\\"\" \"b\"", "c"]);
    assert_eq!(contents(&seen[3]), ["a", "\"a\"", "d"]);
    client.0.close(None).await.unwrap();
    assert!(matches!(client.0.next().await, Some(Ok(Message::Close(_)))), "the closing handshake is completed");
    // Another connection does not know it.
    let mut other = Client::connect(&gateway).await;
    let events = other.turn(json!({ "input": "e", "previous_response_id": id(&first) })).await;
    let error = &events.last().unwrap()["error"];
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("previous_response_not_found"), &json!("previous_response_id"))
    );
    assert_eq!(mock.seen().len(), 4);
}

#[tokio::test]
async fn a_turn_that_generates_nothing_announces_its_input() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "").await;
    let mut client = Client::connect(&gateway).await;
    let announced = client.turn(json!({ "input": "a", "generate": false })).await;
    assert_eq!(announced.len(), 2);
    assert!(mock.seen().is_empty());
    client.turn(json!({ "input": [], "previous_response_id": id(&announced) })).await;
    assert_eq!(contents(&mock.seen()[0]), ["a"]);
    assert!(mock.seen()[0].json().get("generate").is_none());
}

#[tokio::test]
async fn stored_responses_continue_on_any_connection() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "").await;
    let first = Client::connect(&gateway).await.turn(json!({ "input": "a", "store": true })).await;
    let more = json!({ "input": "b", "previous_response_id": id(&first) });
    Client::connect(&gateway).await.turn(more).await;
    assert_eq!(contents(&mock.seen()[1]), ["a", "\"a\"", "b"]);
}

#[tokio::test]
async fn lanes_run_side_by_side_and_each_in_order() {
    let mock = Mock::start(|seen| {
        let plan = chat(seen);
        if contents(seen)[0] == "slow" {
            Plan::stream()
                .gate(1)
                .events(["{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}"])
                .done()
        } else {
            plan
        }
    })
    .await;
    let gateway = before(&mock, "").await;
    let mut client = Client::connect(&gateway).await;
    let create = |lane: &str, input: &str| json!({ "type": "response.create", "model": "auto", "stream_id": lane, "input": input });
    for (lane, input) in [("one", "slow"), ("one", "later"), ("two", "quick")] {
        client.send(&create(lane, input)).await;
    }
    let mut completed = Vec::new();
    while completed.len() < 3 {
        let event = client.next().await.unwrap();
        if event["type"] == "response.completed" {
            completed.push(event["stream_id"].clone());
            mock.open(1);
        }
    }
    assert_eq!(completed, ["two", "one", "one"]);
    let order: Vec<_> = mock.seen().iter().map(|seen| contents(seen)[0].clone()).collect();
    assert_eq!(order.last().unwrap(), "later", "{order:?}");
}

#[tokio::test]
async fn a_backend_that_speaks_the_api_gets_whole_requests() {
    let response = |id: &str, status: &str, output: Value| json!({ "id": id, "object": "response", "status": status, "output": output, "store": false });
    let mock = Mock::start(move |_| {
        let output = json!([
            { "type": "reasoning", "id": "rs_1", "summary": [] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "hello" }] },
        ]);
        Plan::stream()
            .body(format!(
                ": sign of life\n\nevent: response.created\ndata: {}\n\n",
                json!({ "type": "response.created", "response": response("resp_1", "in_progress", json!([])) })
            ))
            .body(format!(
                "event: response.completed\ndata: {}\n\n",
                json!({ "type": "response.completed", "response": response("resp_1", "completed", output.clone()) })
            ))
    })
    .await;
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ model: auto, speaks: [responses], backends: [{{ url: \"{}\" }}] }} }}\n",
        mock.url()
    ))
    .await;
    let mut client = Client::connect(&gateway).await;
    client.turn(json!({ "input": "a", "x-unknown": [1] })).await;
    client.turn(json!({ "input": "b", "previous_response_id": "resp_1" })).await;
    client.turn(json!({ "input": "c", "previous_response_id": "resp_of_the_provider" })).await;
    let seen: Vec<_> = mock.seen().iter().map(Seen::json).collect();
    assert_eq!(seen[0], json!({ "stream": true, "model": "auto", "store": false, "input": "a", "x-unknown": [1] }));
    let kinds: Vec<_> = seen[1]["input"].as_array().unwrap().iter().map(|item| item["role"].clone()).collect();
    assert_eq!(kinds, ["user", "assistant", "user"], "reasoning that is known by its id alone is not sent");
    assert!(seen[1].get("previous_response_id").is_none());
    assert_eq!(seen[2]["previous_response_id"], "resp_of_the_provider");
}

#[tokio::test]
async fn errors_are_frames_and_the_connection_goes_on() {
    let mock = Mock::start(chat).await;
    let gateway = before(&mock, "").await;
    let mut client = Client::connect(&gateway).await;
    for (frame, status, code) in [
        (json!({ "model": "unknown", "input": "a" }), 404, json!("model_not_found")),
        (json!({ "model": 1, "input": "a" }), 400, json!("invalid_type")),
        (json!({ "type": "response.steer" }), 400, Value::Null),
        (json!({ "input": "a", "background": true }), 400, Value::Null),
    ] {
        let event = client.turn(frame.clone()).await.pop().unwrap();
        assert_eq!((&event["type"], &event["status"]), (&json!("error"), &json!(status)), "{frame}: {event}");
        if !code.is_null() {
            assert_eq!(event["error"]["code"], code, "{event}");
        }
        assert!(event["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{event}");
    }
    client.0.send(Message::text("no json")).await.unwrap();
    assert_eq!(client.next().await.unwrap()["status"], 400);
    assert_eq!(client.turn(json!({ "input": "a" })).await.last().unwrap()["type"], "response.completed");
}

#[tokio::test]
async fn an_upgrade_needs_a_key_and_the_right_path() {
    let mock = Mock::start(chat).await;
    let key = format!(
        "keys: [{{ id: k, hash: \"blake3:{}\", endpoints: [responses] }}, {{ id: c, hash: \"blake3:{}\", endpoints: [chat] }}]\n",
        blake3::hash(b"good").to_hex(),
        blake3::hash(b"chat").to_hex()
    );
    let gateway = before(&mock, &key).await;
    for (path, key, status) in
        [("/v1/responses", "bad", 401), ("/v1/responses", "chat", 403), ("/v1/chat/completions", "good", 426)]
    {
        match Client::try_connect(&gateway, path, key).await {
            Err(Error::Http(answer)) => assert_eq!(answer.status().as_u16(), status, "{path} with {key}"),
            other => panic!("{path} with {key}: {:?}", other.err()),
        }
    }
    for path in ["/v1/responses", "/responses", "/openai/v1/responses"] {
        let mut client = Client::try_connect(&gateway, path, "good").await.unwrap();
        assert_eq!(client.turn(json!({ "input": "a" })).await.last().unwrap()["type"], "response.completed");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request() {
    let mock =
        Mock::start(|_| Plan::stream().event("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}").hang())
            .await;
    let gateway = before(&mock, "").await;
    let mut client = Client::connect(&gateway).await;
    client.send(&json!({ "type": "response.create", "model": "auto", "input": "a" })).await;
    client.next().await.unwrap();
    drop(client);
    mock.gone().await;
}

#[tokio::test]
async fn a_gateway_that_stops_lets_turns_end_and_says_why() {
    let mock = Mock::start(|_| {
        Plan::stream()
            .gate(1)
            .events(["{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}"])
            .done()
    })
    .await;
    let mut gateway = before(&mock, "").await;
    let mut client = Client::connect(&gateway).await;
    let mut idle = Client::connect(&gateway).await;
    client.send(&json!({ "type": "response.create", "model": "auto", "input": "a" })).await;
    mock.wait_seen(1).await;
    gateway.sigterm();
    assert_eq!(idle.next().await.unwrap()["error"]["code"], "websocket_connection_limit_reached");
    assert!(idle.next().await.is_none());
    mock.open(1);
    let mut kinds = Vec::new();
    while let Some(event) = client.next().await {
        kinds.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds[kinds.len() - 2..], ["response.completed", "error"]);
    assert!(gateway.wait_exit().await.success());
}
