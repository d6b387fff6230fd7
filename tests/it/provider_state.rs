//! State that only one account of a provider can read: items and encrypted reasoning of its answers, objects of which it is not
//! known where they are, and lists.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, http, post},
    gateway::Gateway,
    mock::{Mock, Plan, Seen},
};

/// Two accounts in one pool, asked by turns.
fn two(mock: &Mock, more: &str) -> String {
    format!(
        "{more}accounts: {{ a: {{ keys: [sk-a] }}, b: {{ keys: [sk-b] }} }}\n\
         engines:\n  via-a: {{ url: \"{0}\", account: a, scrape: false }}\n  via-b: {{ url: \"{0}\", account: b, scrape: false }}\n\
         pools: {{ main: {{ model: m, balance: round_robin, speaks: [chat, responses, files, batches], backends: [{{ engine: via-a }}, {{ engine: via-b }}] }} }}\n",
        mock.url()
    )
}

/// The account that was asked.
fn account(seen: &Seen) -> &'static str {
    if seen.header("authorization") == Some("Bearer sk-a") { "a" } else { "b" }
}

/// A response whose parts name their account; an error if the request names parts of another.
fn responds(seen: &Seen) -> Plan {
    let (me, other) = if account(seen) == "a" { ("a", "b") } else { ("b", "a") };
    let text = String::from_utf8_lossy(&seen.body).into_owned();
    for part in ["rs-", "gAAA-", "cntr-", "file-", "msg-"] {
        if text.contains(&format!("\"{part}{other}")) {
            return Plan::error(400, &format!("{part}{other} is unknown to account {me}"));
        }
    }
    let id = |kind: &str| format!("{kind}-{me}{}", seen.number);
    if seen.path == "/v1/files" {
        return Plan::json(200, &json!({ "id": id("file"), "object": "file" }));
    }
    let output = json!([
        { "type": "reasoning", "id": id("rs"), "summary": [], "encrypted_content": id("gAAA") },
        { "type": "code_interpreter_call", "id": id("ci"), "container_id": id("cntr"), "status": "completed" },
        { "type": "message", "id": id("msg"), "role": "assistant", "content": [{ "type": "output_text", "text": "ok" }] },
    ]);
    let whole =
        json!({ "id": id("resp"), "object": "response", "status": "completed", "model": "m", "output": output });
    if !seen.streams() {
        return Plan::json(200, &whole);
    }
    let item =
        |item: &Value| json!({ "type": "response.output_item.done", "output_index": 0, "item": item }).to_string();
    let mut events =
        vec![json!({ "type": "response.created", "response": { "id": id("resp"), "output": [] } }).to_string()];
    events.extend(output.as_array().expect("a list").iter().map(item));
    events.push(json!({ "type": "response.output_text.delta", "delta": "ok" }).to_string());
    events.push(json!({ "type": "response.completed", "response": whole }).to_string());
    Plan::stream().events(events)
}

/// The parts of an answer, whole or streamed.
fn output(answer: &Answer) -> Value {
    let text = answer.text();
    if let Ok(whole) = serde_json::from_str::<Value>(&text) {
        return whole["output"].clone();
    }
    let last =
        text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("response.completed"));
    serde_json::from_str::<Value>(last.expect("an end")).expect("JSON")["response"]["output"].clone()
}

/// The next request, made of the parts of an answer.
type Way = fn(&Value) -> Value;

#[tokio::test]
async fn what_an_account_made_goes_back_to_it() {
    let mock = Mock::start(responds).await;
    let gateway = Gateway::start(&two(&mock, "")).await;
    let user = || json!({ "role": "user", "content": "go on" });
    let ways: [(&str, Way); 4] = [
        ("reference", |output| json!({ "input": [{ "type": "item_reference", "id": output[2]["id"] }] })),
        (
            "encrypted",
            |output| json!({ "store": false, "input": [{ "type": "reasoning", "summary": [], "encrypted_content": output[0]["encrypted_content"] }] }),
        ),
        ("item", |output| json!({ "input": [{ "type": "reasoning", "id": output[0]["id"], "summary": [] }] })),
        (
            "container",
            |output| json!({ "input": [], "tools": [{ "type": "code_interpreter", "container": output[1]["container_id"] }] }),
        ),
    ];
    for stream in [false, true] {
        for (name, way) in &ways {
            for turn in 0..4 {
                let first = json!({ "model": "m", "input": [user()], "stream": stream, "store": *name != "encrypted" });
                let first = post(&gateway.at("/v1/responses"), &first).await;
                assert_eq!(first.status, 200, "{}", first.text());
                let mut next = way(&output(&first));
                next["model"] = json!("m");
                next["input"].as_array_mut().expect("a list").push(user());
                let answer = post(&gateway.at("/v1/responses"), &next).await;
                assert_eq!(answer.status.as_u16(), 200, "{name}, stream {stream}, turn {turn}: {}", answer.text());
            }
        }
    }
}

#[tokio::test]
async fn objects_of_two_accounts_are_too_much_for_one_request() {
    let mock = Mock::start(responds).await;
    let gateway = Gateway::start(&two(&mock, "")).await;
    let mut files = Vec::new();
    for _ in 0..2 {
        files.push(post(&gateway.at("/v1/files"), &json!({})).await.json()["id"].clone());
    }
    let part = |id: &Value| json!({ "type": "input_file", "file_id": id });
    let ask = async |files: &[Value]| {
        let content: Vec<Value> = files.iter().map(part).collect();
        let body = json!({ "model": "m", "input": [{ "role": "user", "content": content }] });
        post(&gateway.at("/v1/responses"), &body).await
    };
    assert_eq!(ask(&files[..1]).await.status, 200);
    let refused = ask(&files).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["code"]),
        (400, &json!("objects_apart")),
        "{}",
        refused.text()
    );
}

/// Account `b` has every object.
fn only_b(seen: &Seen) -> Plan {
    match (account(seen), &*seen.path) {
        (me, "/v1/files") => Plan::json(200, &json!({ "object": "list", "data": [{ "id": format!("file-{me}") }] })),
        ("a", _) => Plan::error(404, "No such object"),
        _ => Plan::json(200, &json!({ "id": "x", "object": "x", "status": "completed", "output": [] })),
    }
}

#[tokio::test]
async fn an_object_of_unknown_origin_is_sought_in_every_account() {
    let mock = Mock::start(only_b).await;
    let gateway = Gateway::start(&two(&mock, "objects: { unknown: allow }\n")).await;
    let get = async |path: &str| client::answer(http().request(Method::GET, gateway.at(path))).await;
    for path in ["/v1/batches/batch_1", "/v1/files/file-1/content", "/v1/responses/resp_1"] {
        for turn in 0..3 {
            let answer = get(path).await;
            assert_eq!(answer.status.as_u16(), 200, "{path}, turn {turn}: {}", answer.text());
        }
    }
    let asked_a = mock.seen().iter().filter(|seen| account(seen) == "a").count();
    assert!(asked_a <= 3, "the place is remembered: {asked_a}");
    let batch = json!({ "input_file_id": "file-old", "endpoint": "/v1/chat/completions", "completion_window": "24h" });
    for _ in 0..2 {
        assert_eq!(post(&gateway.at("/v1/batches"), &batch).await.status, 200, "a batch over such a file");
    }
    let first = get("/v1/files").await.text();
    for _ in 0..3 {
        assert_eq!(get("/v1/files").await.text(), first, "a list is always that of one account");
    }
}

#[tokio::test]
async fn an_object_that_no_account_has_is_missing() {
    let mock = Mock::start(|_| Plan::error(404, "No such object")).await;
    let gateway = Gateway::start(&two(&mock, "objects: { unknown: allow }\n")).await;
    let answer = client::answer(http().request(Method::GET, gateway.at("/v1/batches/batch_1"))).await;
    assert_eq!((answer.status.as_u16(), mock.seen().len()), (404, 2), "{}", answer.text());
    let answer = client::answer(http().request(Method::GET, gateway.at("/v1/batches/batch_1"))).await;
    assert_eq!(answer.status.as_u16(), 404, "it left no endpoint out: {}", answer.text());
}
