//! Endpoints beside the OpenAI API that engines have at their root, and those of providers' objects.

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::{
    client,
    gateway::Gateway,
    mock::{Mock, Plan, Seen},
    until,
};

/// An engine that has these paths, and answers each request by its body.
fn engine(paths: &'static [&'static str]) -> impl Fn(&Seen) -> Plan + Clone {
    move |seen| match seen.path.split('?').next() {
        Some(path) if paths.iter().any(|served| path.starts_with(served)) => {
            Plan::json(if seen.body == b"[]"[..] { 400 } else { 200 }, &json!({ "id": "made", "path": path }))
        }
        _ => Plan::json(404, &json!({ "detail": "Not Found" })),
    }
}

async fn post(gateway: &Gateway, path: &str, body: Value) -> (u16, Value) {
    let answer = client::post(&gateway.at(path), &body).await;
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn engines_get_their_own_endpoints_at_their_own_paths() {
    let mock =
        Mock::start(engine(&["/rerank", "/v1/rerank", "/score", "/v1/score", "/tokenize", "/pooling", "/detok"])).await;
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ speaks: [rerank, score, tokenize, pooling], backends: [{{ url: \"{}\", model: up }}] }} }}\n\
         models: {{ m: {{ to: p }} }}\n",
        mock.url()
    ))
    .await;
    for (path, goes_to) in [
        ("/rerank", "/rerank"),
        ("/v1/rerank", "/v1/rerank"),
        ("/score", "/score"),
        ("/v1/score", "/v1/score"),
        ("/pooling", "/pooling"),
        ("/v1/pooling", "/pooling"),
        ("/tokenize", "/tokenize"),
        ("/v1/tokenize", "/tokenize"),
        ("/detokenize", "/detokenize"),
    ] {
        let (status, answer) = post(&gateway, path, json!({ "model": "m", "input": "x" })).await;
        assert_eq!((status, &answer["path"]), (200, &json!(goes_to)), "{path}: {answer}");
        assert_eq!(mock.seen().pop().unwrap().json(), json!({ "model": "up", "input": "x" }));
    }
    // Another pool would have to speak it.
    let (status, answer) = post(&gateway, "/classify", json!({ "model": "m", "input": "x" })).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("unsupported_endpoint")));
}

#[tokio::test]
async fn a_pool_without_speaks_has_the_endpoints_that_its_engines_are_found_to_have() {
    let mock = Mock::start(engine(&["/v1/", "/classify"])).await;
    mock.set_apis(["/v1/chat/completions", "/v1/score", "/classify"]);
    let gateway =
        Gateway::start(&format!("pools: {{ p: {{ model: m, backends: [{{ url: \"{}\" }}] }} }}\n", mock.url())).await;
    let body = json!({ "model": "m", "text_1": "a", "text_2": "b" });
    until("the engine is asked", async || post(&gateway, "/v1/score", body.clone()).await.0 == 200).await;
    assert_eq!(post(&gateway, "/classify", body.clone()).await.0, 200);
    let (status, answer) = post(&gateway, "/v1/rerank", body).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("unsupported_endpoint")));
}

#[tokio::test]
async fn precomputed_embeddings_and_conversations_to_embed_pass() {
    let mock = Mock::start(engine(&["/v1/"])).await;
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ model: m, speaks: [completions, embeddings], backends: [{{ url: \"{}\" }}] }} }}\n",
        mock.url()
    ))
    .await;
    for (path, body) in [
        ("/v1/completions", json!({ "model": "m", "prompt_embeds": "AAAA" })),
        ("/v1/embeddings", json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] })),
    ] {
        client::post(&gateway.at(path), &body).await;
        assert_eq!(mock.seen().pop().map(|seen| seen.json()), Some(body));
    }
    for (path, param) in [("/v1/completions", "prompt"), ("/v1/embeddings", "input")] {
        let (status, answer) = post(&gateway, path, json!({ "model": "m" })).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)));
    }
}

#[tokio::test]
async fn objects_of_every_kind_belong_to_the_key_that_made_them() {
    let mock = Mock::start(engine(&["/v1/"])).await;
    let key = |id: &str| format!("{{ id: {id}, hash: \"blake3:{}\" }}", blake3::hash(id.as_bytes()).to_hex());
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ model: m, speaks: [responses, vector_stores, videos, fine_tuning], backends: [{{ url: \"{}\" }}] }} }}\n\
         keys: [{}, {}]\n",
        mock.url(),
        key("one"),
        key("two")
    ))
    .await;
    for path in ["/v1/vector_stores", "/v1/videos", "/v1/fine_tuning/jobs"] {
        let made = client::http().post(gateway.at(path)).bearer_auth("one");
        let answer = client::answer(client::json(made, &json!({ "model": "m" }))).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
        for (key, status) in [("one", 200), ("two", 404)] {
            let asked = client::http().get(gateway.at(&format!("{path}/made"))).bearer_auth(key);
            assert_eq!(client::answer(asked).await.status.as_u16(), status, "{path} of {key}");
        }
    }
    let tools = json!([{ "type": "file_search", "vector_store_ids": ["made"] }]);
    let body = json!({ "model": "m", "input": "x", "tools": tools });
    for (key, status) in [("one", 200), ("two", 404)] {
        let asked = client::http().post(gateway.at("/v1/responses")).bearer_auth(key);
        let answer = client::answer(client::json(asked, &body)).await;
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    }
}
