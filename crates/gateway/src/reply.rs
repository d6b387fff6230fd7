//! Replies of the gateway itself: faults as HTTP, the request's id, and the headers of streams.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::{Reply, body_fault::BAD_ENCODING};
use signalbox_protocol::{encoding::READABLE, error};
use signalbox_types::{Endpoint, Fault};

/// Methods that go upstream, as `Allow` lists them. TRACE is left out: an engine that reflects requests would show
/// callers the provider's key.
pub(super) const METHODS: &str = "GET, HEAD, POST, DELETE";
/// Header that lists dropped hints, and the longest list, in bytes.
const DROPPED: HeaderName = HeaderName::from_static("x-signalbox-dropped");
const MOST_DROPPED: usize = 512;
/// Headers with the request's id.
const ID: [HeaderName; 2] = [HeaderName::from_static("x-request-id"), HeaderName::from_static("x-signalbox-id")];
/// Kind of a fault caused by the method.
const BAD_METHOD: &str = "bad_method";

/// Returns the client's request id if it is valid in headers and logs, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    let sound = |id: &&str| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    match given.filter(sound) {
        Some(id) => id.into(),
        None => format!("sb-{:016x}", fastrand::u64(..)).into(),
    }
}

/// Converts a fault to an HTTP reply, in the error shape of `endpoint`.
pub fn reply_to(endpoint: Option<Endpoint>, id: &str, fault: &Fault) -> Reply {
    let (mut headers, body) = if let Some(unmasked) = &fault.unmasked {
        (unmasked.headers.clone(), unmasked.body.clone())
    } else {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        (headers, error::body(endpoint, fault))
    };
    put_id(&mut headers, id);
    if let Some(after) = fault.retry_after {
        headers.insert(header::RETRY_AFTER, after.as_secs().max(1).into());
    }
    if fault.kind == BAD_METHOD && endpoint.is_some() {
        headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
    }
    if fault.kind == BAD_ENCODING {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(READABLE));
    }
    let mut reply = Reply::new(Body::from(body));
    *reply.status_mut() = fault.status;
    *reply.headers_mut() = headers;
    reply
}

/// Sets the headers with the request's id.
pub(super) fn put_id(headers: &mut HeaderMap, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id)
        && !id.is_empty()
    {
        for name in ID {
            headers.insert(name, value.clone());
        }
    }
}

/// Adds names of hints that another API cannot express to those that the reply lists.
pub(super) fn put_dropped(headers: &mut HeaderMap, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let listed = headers.get(DROPPED).and_then(|list| list.to_str().ok());
    let mut list = listed.unwrap_or_default().to_owned();
    for name in names {
        let name: String = name.chars().filter(char::is_ascii_graphic).collect();
        if list.len() + name.len() < MOST_DROPPED && !list.split(", ").any(|listed| listed == name) {
            list.push_str(if list.is_empty() { "" } else { ", " });
            list.push_str(&name);
        }
    }
    if let (false, Ok(list)) = (list.is_empty(), HeaderValue::from_str(&list)) {
        headers.insert(DROPPED, list);
    }
}

/// Builds a fault with status 405.
pub(super) fn bad_method(message: String) -> Fault {
    Fault::client(StatusCode::METHOD_NOT_ALLOWED, BAD_METHOD, message).with_code("method_not_allowed")
}

/// Sets `Allow` on a 405 reply to the methods that go upstream.
pub(super) fn with_methods(mut reply: Reply) -> Reply {
    if reply.status() == StatusCode::METHOD_NOT_ALLOWED {
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    }
    reply
}

/// Rejects a method that a path does not serve. axum sets `Allow`.
pub async fn wrong_method(method: Method, headers: HeaderMap) -> Reply {
    reply_to(None, &request_id(&headers), &bad_method(format!("{method} is not served at this path")))
}

/// Sets headers that keep proxies from storing or buffering the events of a stream.
pub(super) fn put_stream_headers(headers: &mut HeaderMap) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    headers.entry(HeaderName::from_static("x-accel-buffering")).or_insert(HeaderValue::from_static("no"));
}

/// True if an answer with these headers is a stream of events.
pub fn is_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let name = "text/event-stream";
    kind.trim_start().as_bytes().get(..name.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(name.as_bytes()))
}
