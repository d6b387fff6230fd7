//! `POST /admin/playground`: sends one request to this gateway's own API, as any client would, and returns its answer as it comes.
//!
//! The request takes the whole path of the API within the process: keys, limits, caches, placement and accounting hold for it. The operator's
//! credential opens this path alone; where the policy asks for keys, the request needs one of them too.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State as Extract},
    response::Response,
    routing::post,
};
use futures_util::StreamExt;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::{
    api::Api,
    audit::Target,
    json_body::JsonBody,
    keys::refuse,
    listen::{App, HangUp, Peer},
};

/// Largest body, in bytes.
const LARGEST: usize = 1 << 20;
/// Most requests at a time, each until its answer has ended.
const MOST: usize = 8;

/// A request to send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    /// The API: `chat` (the default), `messages` or `responses`.
    api: Option<String>,
    /// The request's body.
    request: Box<RawValue>,
    /// A key of the policy, in its secret form.
    key: Option<String>,
}

/// The model that a request names.
#[derive(Deserialize)]
struct Named {
    model: Option<String>,
}

struct Playground {
    api: Arc<Api>,
    places: Arc<Semaphore>,
}

/// Routes of the admin listener.
pub(super) fn routes(api: Arc<Api>) -> Router {
    let playground = Arc::new(Playground { api, places: Arc::new(Semaphore::new(MOST)) });
    Router::new().route("/admin/playground", post(send)).layer(DefaultBodyLimit::max(LARGEST)).with_state(playground)
}

async fn send(
    Extract(playground): Extract<Arc<Playground>>,
    Extension(Peer(peer)): Extension<Peer>,
    JsonBody(sent): JsonBody<Sent>,
) -> Response {
    let bad = |message: &str| refuse(StatusCode::BAD_REQUEST, message);
    let api = sent.api.as_deref().unwrap_or("chat");
    let path = match api {
        "chat" => "/v1/chat/completions",
        "messages" => "/v1/messages",
        "responses" => "/v1/responses",
        _ => return bad("'api' is chat, messages or responses"),
    };
    let Ok(place) = playground.places.clone().try_acquire_owned() else {
        let message = format!("{MOST} requests of the playground run already: wait until one has ended");
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &message);
    };
    let body = sent.request.get();
    let model = serde_json::from_str::<Named>(body).ok().and_then(|named| named.model);
    let target = format!("{api} {}", model.as_deref().unwrap_or_default());
    let mut request = Request::new(Body::from(Bytes::from(body.to_owned())));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(path);
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The name that the API listener always answers to.
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    if let Some(key) = &sent.key {
        let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {key}")) else {
            return bad("'key' has characters that no header may have");
        };
        bearer.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, bearer);
    }
    let mut answer = playground.api.clone().answer(request, peer, HangUp::default()).await;
    answer.extensions_mut().insert(Target(target));
    // They are about the connection of a client of the API, and a browser would ask for a password.
    for name in [header::CONNECTION, header::WWW_AUTHENTICATE] {
        answer.headers_mut().remove(name);
    }
    // The place is free again when the answer has ended, or its reader has left.
    answer.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _held = &place;
        }))
    })
}
