//! What is asked: the body is read within its limits and looked through once.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::Semaphore;

use super::{
    Desk, Reply, Step,
    stages::{Arrival, Authed, Call},
};
use crate::{
    protocol::{RequestBody, multipart},
    types::{Endpoint, Fault},
};

/// Bodies longer than this are read on a thread of their own: they would hold up a worker for more than a quarter millisecond.
const LONG_BODY: usize = 128 << 10;
/// Most of a model's name that is noted, in characters.
const LONGEST_NAME: usize = 256;
/// How long a client may take over its body.
const BODY_TIME: Duration = Duration::from_mins(1);

pub(super) struct Parse<S> {
    inner: S,
    desk: Arc<Desk>,
    /// Bounds the threads that read long bodies.
    readers: Arc<Semaphore>,
}

impl<S> Parse<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { inner, desk, readers: Arc::new(Semaphore::new(readers)) }
    }
}

impl<S: Step<Call>> Step<Authed> for Parse<S> {
    async fn call(&self, Authed(arrival): Authed) -> Result<Reply, Fault> {
        let Arrival { endpoint, serving, record, request } = arrival;
        let (head, body) = request.into_parts();
        check_method(endpoint, &head.method)?;
        let bytes = collect(body, serving.snapshot.policy.limits.body).await?;
        let read_at = self.desk.clock.now();
        let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let body = self.read(endpoint, &head.method, content_type, bytes).await?;
        record.note(|line| {
            // Clients choose the length, and lines are remembered.
            line.model = body.model.as_ref().map(|model| model.chars().take(LONGEST_NAME).collect());
            line.stream = body.stream;
            line.prompt_bytes = body.prompt_bytes;
        });
        let path = head.uri.path().to_owned();
        let query = head.uri.query().map(ToOwned::to_owned);
        let (method, headers) = (head.method, head.headers);
        self.inner.call(Call { read_at, endpoint, serving, record, method, path, query, headers, body }).await
    }
}

impl<S> Parse<S> {
    async fn read(
        &self,
        endpoint: Endpoint,
        method: &Method,
        content_type: &str,
        bytes: Bytes,
    ) -> Result<RequestBody, Fault> {
        if let Some(boundary) = multipart::boundary(content_type) {
            return RequestBody::form(bytes, boundary);
        }
        let optional = !Endpoint::DEFAULT.contains(&endpoint);
        if *method != Method::POST || (optional && (bytes.is_empty() || !looks_like_json(content_type, &bytes))) {
            return Ok(RequestBody::opaque(bytes));
        }
        if bytes.len() <= LONG_BODY {
            return RequestBody::json(endpoint, bytes);
        }
        let overloaded = || Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "reading the body failed");
        let _place = self.readers.acquire().await.map_err(|_| overloaded())?;
        tokio::task::spawn_blocking(move || RequestBody::json(endpoint, bytes)).await.map_err(|_| overloaded())?
    }
}

fn looks_like_json(content_type: &str, bytes: &[u8]) -> bool {
    content_type.to_ascii_lowercase().contains("json") || bytes.trim_ascii_start().starts_with(b"{")
}

fn check_method(endpoint: Endpoint, method: &Method) -> Result<(), Fault> {
    if Endpoint::DEFAULT.contains(&endpoint) && *method != Method::POST {
        let message = format!("'{}' is asked for by POST, not {method}", endpoint.name());
        return Err(
            Fault::client(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message).with_code("method_not_allowed")
        );
    }
    Ok(())
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, Fault> {
    let collected = tokio::time::timeout(BODY_TIME, Limited::new(body, limit).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than the {limit} bytes that this gateway takes (limits.body)");
            Err(Fault::client(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message).with_code("body_too_large"))
        }
        Ok(Err(_)) => {
            Err(Fault::client(StatusCode::BAD_REQUEST, "body_cut", "the body ended before its announced length"))
        }
        Err(_) => {
            let message = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
            Err(Fault::client(StatusCode::REQUEST_TIMEOUT, "body_slow", message).with_code("request_timeout"))
        }
    }
}
