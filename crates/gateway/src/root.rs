//! `GET /` and `HEAD /`: a short answer for clients that check a base URL before they use it.

use axum::{Router, body::Body, routing::get};
use http::{HeaderMap, HeaderValue, Method, header};

use super::{Reply, reply};

/// The answer. It tells no more than that this is a gateway, since it needs no key.
const BODY: &str = r#"{"object":"gateway","name":"signalbox","api":"/v1","models":"/v1/models"}"#;

/// Routes of the root, to merge into the API. No request at them reaches an engine.
pub fn root() -> Router {
    let at = || get(answer).fallback(wrong_method);
    Router::new().route("/", at()).route("/v1", at()).route("/v1/", at())
}

async fn answer() -> Reply {
    let mut reply = Reply::new(Body::from(BODY));
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

async fn wrong_method(method: Method, headers: HeaderMap) -> Reply {
    let message = format!("{method} goes to a path of the API, for example POST /v1/chat/completions");
    let mut reply = reply::reply_to(None, &reply::request_id(&headers), &reply::bad_method(message));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    reply
}
