//! Vectors from servers with OpenAI's `/v1/embeddings`.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::time::Duration;

use serde_json::{Value, json};
use signalbox::{
    policy::Secret,
    upstream::{Client, Embeddings, EmbeddingsError, embeddings::Source},
};

use crate::support::{
    engine::{Engine, Model},
    mock::{Mock, Plan},
};

fn embeddings(url: String, key: Option<&str>, timeout: Duration) -> Embeddings {
    let key = key.map(|key| Secret(key.into()));
    let source = Source { url, model: "small".to_owned(), key, dimensions: None, timeout };
    Embeddings::new(Client::new(Duration::from_secs(5)).unwrap(), source).unwrap()
}

/// One vector of two dimensions for each input, in reverse order.
fn vectors(body: &Value) -> Plan {
    let inputs = body["input"].as_array().unwrap();
    let item = |(index, text): (usize, &Value)| json!({ "object": "embedding", "index": index, "embedding": [text.as_str().unwrap().len(), 1] });
    let mut data: Vec<Value> = inputs.iter().enumerate().map(item).collect();
    data.reverse();
    Plan::json(200, &json!({ "object": "list", "data": data, "model": "small", "usage": {} }))
}

#[tokio::test]
async fn many_texts_come_in_batches_and_in_order() {
    let mock = Mock::start(|seen| vectors(&seen.json())).await;
    let embeddings = embeddings(format!("{}/", mock.url()), Some("secret"), Duration::from_mins(1));
    assert_eq!(embeddings.dimensions(), None);
    let texts: Vec<String> = (0..70).map(|length| "x".repeat(length)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (length, vector) in embeddings.embed(&texts).await.unwrap().iter().enumerate() {
        assert!((vector[0] / vector[1] - length as f32).abs() < 1e-3, "{length}: {vector:?}");
        assert!((vector[0].hypot(vector[1]) - 1.0).abs() < 1e-5);
    }
    assert_eq!(embeddings.dimensions(), Some(2));
    assert!(embeddings.embed(&[]).await.unwrap().is_empty());
    let seen = mock.seen();
    assert_eq!(seen.len(), 3);
    assert_eq!((seen[0].path.as_str(), seen[0].header("authorization")), ("/v1/embeddings", Some("Bearer secret")));
}

#[tokio::test]
async fn a_failing_server_is_distinguished_from_a_slow_one() {
    let refusing = Mock::start(|_| Plan::error(429, "too many")).await;
    let error = embeddings(refusing.url(), None, Duration::from_mins(1)).embed(&["a"]).await.unwrap_err();
    assert!(error.to_string().contains("429") && error.to_string().contains("too many"), "{error}");
    let silent = Mock::start(|_| Plan::silence()).await;
    let error = embeddings(silent.url(), None, Duration::from_millis(50)).embed(&["a"]).await.unwrap_err();
    assert!(matches!(error, EmbeddingsError::Late(_)), "{error}");
    let cut = Mock::start(|_| Plan::status(200).body("{\"data\":[").cut()).await;
    let error = embeddings(cut.url(), None, Duration::from_mins(1)).embed(&["a"]).await.unwrap_err();
    assert!(!matches!(error, EmbeddingsError::Late(_)), "{error}");
}

#[tokio::test]
async fn a_real_engine_embeds() {
    let Some(engine) = Engine::start(Model::Embed, 1, 2048).await else { return };
    let embeddings = embeddings(engine.url(), None, Duration::from_mins(1));
    let texts = ["How do I return an item?", "What is the return policy?", "How do I return an item?"];
    let vectors = embeddings.embed(&texts).await.unwrap();
    let cosine = |one: usize, other: usize| vectors[one].iter().zip(&vectors[other]).map(|(a, b)| a * b).sum::<f32>();
    assert_eq!(embeddings.dimensions(), Some(vectors[0].len()));
    assert!(cosine(0, 2) > 0.999 && (cosine(0, 0) - 1.0).abs() < 1e-4, "{} {}", cosine(0, 2), cosine(0, 0));
}
