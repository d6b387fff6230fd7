//! The official OpenAI SDKs against the real gateway: over a mock, and over the built-in simulated engines.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use serde_json::json;

use crate::support::{
    client,
    gateway::{Gateway, Start},
    mock::{Mock, polite},
    sdk,
};

/// Model names of the SDKs' checks, all served by one mock, which gets the client's name.
async fn bed() -> (Mock, Gateway) {
    let mock = Mock::start(polite).await;
    let names = ["chat", "embed", "err-400", "err-422", "err-429", "err-503"];
    let models = names.map(|name| format!("  {name}: {{ to: p }}\n")).concat();
    let policy = format!("pools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels:\n{models}", mock.url());
    let gateway = Gateway::start(&policy).await;
    (mock, gateway)
}

#[tokio::test]
async fn the_python_sdk_is_content_with_the_gateway() {
    let (_mock, gateway) = bed().await;
    sdk::python(&gateway.url()).await;
}

#[tokio::test]
async fn the_node_sdk_is_content_with_the_gateway() {
    let (_mock, gateway) = bed().await;
    sdk::node(&gateway.url()).await;
}

#[tokio::test]
async fn the_simulated_engines_answer_without_a_policy() {
    let gateway = Start::simulated().start().await;
    let models = client::get(&gateway.at("/v1/models")).await.json();
    let names: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(names, ["auto", "small", "large", "long"]);
    assert_eq!(models["data"][0]["owned_by"], "signalbox-simulated");
    let body = json!({ "model": "auto", "max_tokens": 4, "messages": [{ "role": "user", "content": "hi" }] });
    let answer = client::post(&gateway.at("/v1/chat/completions"), &body).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-simulated")), (200, "true"));
    assert_eq!(answer.json()["usage"]["completion_tokens"], 4);
    gateway.wait_log("SIMULATED").await;
}

/// A gateway in front of `serve --simulate`: the SDKs' names for the simulated models, and a mock for scripted errors.
async fn simulated() -> (Mock, Gateway, Gateway) {
    let (mock, behind) = (Mock::start(polite).await, Start::simulated().start().await);
    let policy = format!(
        "pools:\n  sim: {{ model: small, backends: [\"{}\"] }}\n  mock: {{ backends: [\"{}\"] }}\n\
         models: {{ chat: {{ to: sim }}, embed: {{ to: sim }}, \"err-*\": {{ to: mock }} }}\n",
        behind.url(),
        mock.url()
    );
    let gateway = Gateway::start(&policy).await;
    (mock, behind, gateway)
}

#[tokio::test]
async fn the_python_sdk_is_content_with_the_simulated_engines() {
    let (_mock, _behind, gateway) = simulated().await;
    sdk::python(&gateway.url()).await;
}

#[tokio::test]
async fn the_node_sdk_is_content_with_the_simulated_engines() {
    let (_mock, _behind, gateway) = simulated().await;
    sdk::node(&gateway.url()).await;
}
