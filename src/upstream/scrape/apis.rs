//! Paths that an engine serves, learned from requests that are invalid on purpose and generate nothing.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Collected, Limited};
use memchr::memmem;
use tokio::time::timeout;

use crate::{
    fleet::Engine,
    policy::{Dialect, Secret},
    types::{Clock, EngineApi, Moment, Presence},
    upstream::{
        Client, address,
        outgoing::{Outgoing, SendError},
    },
};

/// Body of a probe. No API takes an array: servers that route first answer 404 for an absent path, and those that parse
/// first accept its syntax.
const BODY: &[u8] = b"[]";
/// Time limit of a probe.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes read of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Time after which an engine is probed again: it may have been upgraded without a restart that was noticed.
const MAX_AGE: Duration = Duration::from_hours(1);
/// Pause after an incomplete round; it doubles up to the second value.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
const MAX_RETRY_PAUSE: Duration = Duration::from_mins(5);

/// Probes one engine at the start, after each restart or outage, and every hour, until the task is aborted. `every` is
/// the interval at which it looks for a reason.
pub(super) async fn follow(engine: Arc<Engine>, key: Option<Secret>, every: Duration, client: Client, clock: Clock) {
    let (mut lives, mut next, mut again) = (None, Moment::default(), RETRY_PAUSE);
    loop {
        let is_away = engine.is_reachable() == Some(false);
        let now_lives = Some(engine.lives());
        if !is_away && (lives != now_lives || clock.now() >= next) {
            let is_complete = round(&engine, key.as_ref(), &client).await;
            lives = now_lives;
            again = if is_complete { RETRY_PAUSE } else { (again * 2).min(MAX_RETRY_PAUSE) };
            next = clock.now().plus(if is_complete { MAX_AGE } else { again });
        }
        tokio::time::sleep(every.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

/// Probes each path once, one after another. Returns false if the engine did not answer all of them.
async fn round(engine: &Engine, key: Option<&Secret>, client: &Client) -> bool {
    let before = engine.apis.served();
    for api in EngineApi::ALL {
        match timeout(TIMEOUT, probe(client, &engine.id.url, key, api)).await {
            Ok(Ok(presence)) => engine.apis.set(api, presence),
            Ok(Err(_)) | Err(_) => return false,
        }
    }
    let after = engine.apis.served();
    if let Some(served) = after.filter(|after| before.as_ref() != Some(after)) {
        let (name, served) = (&engine.name, served.iter().map(|api| api.name()).collect::<Vec<_>>().join(" "));
        tracing::info!(engine = %name, served, "endpoints: engine '{name}' serves: {served}");
    }
    true
}

/// Asks an engine at the base address `base` whether it serves a path.
pub async fn probe(client: &Client, base: &str, key: Option<&Secret>, api: EngineApi) -> Result<Presence, SendError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if api == EngineApi::Messages {
        // Required by the API.
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    if let Some(key) = key {
        address::authorise_dialect(&mut headers, &Dialect::OpenAi, key);
    }
    let url = match api {
        EngineApi::Tokenize => address::root_url(base, api.path()),
        _ => address::openai_url(base, api.path()),
    };
    let asked = Outgoing { method: Method::POST, url, headers, body: Bytes::from_static(BODY) };
    let (head, body) = client.send(asked).await?.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map(Collected::to_bytes).unwrap_or_default();
    Ok(presence(head.status, &body))
}

/// Reads the answer to a probe.
fn presence(status: StatusCode, body: &[u8]) -> Presence {
    let lower = body.to_ascii_lowercase();
    let says = |words: &str| memmem::find(&lower, words.as_bytes()).is_some();
    match status.as_u16() {
        // Ollama looks for the model before it looks at the rest.
        404 if says("model") => Presence::Present,
        404 | 405 | 501 => Presence::Absent,
        // LM Studio answers 200 on any path.
        200..=299 if says("unexpected endpoint") => Presence::Absent,
        // llama.cpp tokenizes nothing.
        200..=299 | 400 | 413 | 415 | 422 => Presence::Present,
        // A handler that does not expect such a body. Errors of proxies are 502 to 504.
        500 if says("\"error\"") => Presence::Present,
        _ => Presence::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_known_servers_are_read() {
        for (status, body, want) in [
            // llama.cpp
            (404, r#"{"error":{"message":"File Not Found","type":"not_found_error","code":404}}"#, Presence::Absent),
            (501, r#"{"error":{"code":501,"message":"This server does not support embeddings"}}"#, Presence::Absent),
            (500, r#"{"error":{"code":500,"message":"'messages' is required"}}"#, Presence::Present),
            (200, r#"{"tokens":[]}"#, Presence::Present),
            // vLLM, SGLang and TGI
            (404, r#"{"detail":"Not Found"}"#, Presence::Absent),
            (405, r#"{"detail":"Method Not Allowed"}"#, Presence::Absent),
            (400, r#"{"error":{"message":"Input should be a valid dictionary","code":400}}"#, Presence::Present),
            (422, "Failed to deserialize the JSON body", Presence::Present),
            // Ollama
            (404, "404 page not found", Presence::Absent),
            (404, r#"{"error":{"message":"model '' not found"}}"#, Presence::Present),
            // LM Studio
            (200, r#"{"error":"Unexpected endpoint or method. (POST /v1/messages)"}"#, Presence::Absent),
            (400, r#"{"error":"'messages' field is required"}"#, Presence::Present),
            // Any
            (401, "", Presence::Unknown),
            (403, "", Presence::Unknown),
            (429, "", Presence::Unknown),
            (503, r#"{"error":{"message":"Loading model"}}"#, Presence::Unknown),
            (500, "<html>", Presence::Unknown),
        ] {
            assert_eq!(presence(StatusCode::from_u16(status).unwrap(), body.as_bytes()), want, "{status} {body}");
        }
    }
}
