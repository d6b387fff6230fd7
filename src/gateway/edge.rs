//! The edge: a [`tower::Service`] for axum, the request's record from birth to end, and faults turned into HTTP.

use std::{convert::Infallible, sync::Arc, task};

use axum::{body::Body, extract::Request};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tower::Service;

use super::{Desk, Live, Reply, Serving, Step, access, auth, record::Record, stages::Arrival, traced::Traced};
use crate::{
    protocol::error,
    types::{Endpoint, Fault, Outcome},
};

/// The methods that go upstream, as `Allow` lists them. TRACE would show callers the provider's key where an engine reflects it.
const METHODS: &str = "GET, HEAD, POST, DELETE";
/// The kind of a fault that is the method's.
const BAD_METHOD: &str = "bad_method";

/// The walk as axum sees it.
pub struct Edge<S> {
    walk: Arc<S>,
    live: Arc<Live>,
    desk: Arc<Desk>,
}

impl<S> Edge<S> {
    pub(super) fn new(walk: S, live: Arc<Live>, desk: Arc<Desk>) -> Self {
        Self { walk: Arc::new(walk), live, desk }
    }
}

impl<S> Clone for Edge<S> {
    fn clone(&self) -> Self {
        Self { walk: self.walk.clone(), live: self.live.clone(), desk: self.desk.clone() }
    }
}

// === impl Service ===

impl<S: Step<Arrival>> Service<Request> for Edge<S> {
    type Response = Reply;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Reply, Infallible>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let edge = self.clone();
        Box::pin(async move { Ok(edge.answer(request).await) })
    }
}

impl<S: Step<Arrival>> Edge<S> {
    async fn answer(self, request: Request) -> Reply {
        let id = request_id(request.headers());
        let endpoint = match check_method(request.method()).and_then(|()| endpoint(&request)) {
            Ok(endpoint) => endpoint,
            Err(fault) => {
                self.desk.metrics.fault(&fault);
                self.desk.metrics.request(None, None, fault.status, Outcome::Failed(fault.kind));
                return with_methods(reply_to(None, &id, &fault));
            }
        };
        // Errors have the shape that the path's clients expect: Anthropic's batches are batches too.
        let dialect = if request.uri().path().starts_with("/v1/messages") { Endpoint::Messages } else { endpoint };
        let exporter = self.desk.otel.load_full();
        let traced = exporter.map(|exporter| Traced::begin(exporter, request.headers()));
        let record = Record::open(self.desk.clone(), id.clone(), endpoint, None, traced);
        if self.desk.access_log.load().is_some() {
            let asked = access::asked(request.method(), request.uri());
            record.note(|line| line.asked = Some(asked.into()));
        }
        let arrival = Arrival { endpoint, serving: self.live.load(), record: record.clone(), request };
        let mut reply = self.walk.call(arrival).await.unwrap_or_else(|fault| {
            record.fail(&fault);
            reply_to(Some(dialect), &id, &fault)
        });
        if let Some(bill) = record.bill() {
            bill.put(reply.headers_mut(), self.desk.clock.now());
        }
        reply
    }
}

/// The client's request id where it is fit for a header and a log, else one of ours.
pub(super) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    let sound = |id: &&str| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    match given.filter(sound) {
        Some(id) => id.into(),
        None => format!("sb-{:016x}", fastrand::u64(..)).into(),
    }
}

/// Refuses a method that never goes upstream.
fn check_method(method: &Method) -> Result<(), Fault> {
    if [Method::GET, Method::HEAD, Method::POST, Method::DELETE].contains(method) {
        return Ok(());
    }
    Err(bad_method(format!("{method} is not served here: the methods of the API are {METHODS}")))
}

/// The refusal of a method.
pub(super) fn bad_method(message: String) -> Fault {
    Fault::client(StatusCode::METHOD_NOT_ALLOWED, BAD_METHOD, message).with_code("method_not_allowed")
}

/// Adds the methods that are served to the refusal of another one.
pub(super) fn with_methods(mut reply: Reply) -> Reply {
    if reply.status() == StatusCode::METHOD_NOT_ALLOWED {
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    }
    reply
}

/// The answer at a path with methods of its own, which axum adds, to another one.
pub async fn wrong_method(method: Method, headers: HeaderMap) -> Reply {
    reply_to(None, &request_id(&headers), &bad_method(format!("{method} is not served at this path")))
}

/// The endpoint of a request's path.
fn endpoint(request: &Request) -> Result<Endpoint, Fault> {
    if let Some(endpoint) = Endpoint::of_path(request.uri().path()) {
        return Ok(endpoint);
    }
    let message = format!(
        "there is no {} {}: the OpenAI API is served under /v1, for example POST /v1/chat/completions",
        request.method(),
        request.uri().path()
    );
    Err(Fault::client(StatusCode::NOT_FOUND, "unknown_path", message).with_code("unknown_url"))
}

/// A fault as an HTTP answer.
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
    let mut reply = Reply::new(Body::from(body));
    *reply.status_mut() = fault.status;
    *reply.headers_mut() = headers;
    reply
}

/// Puts the request's id on an answer.
pub(super) fn put_id(headers: &mut HeaderMap, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id)
        && !id.is_empty()
    {
        headers.insert("x-request-id", value.clone());
        headers.insert("x-signalbox-id", value);
    }
}

/// The answer to a caller whose `headers` carry no key that is known, where keys are asked for.
pub fn refuse(serving: &Serving, headers: &HeaderMap) -> Option<Reply> {
    let fault = auth::check(serving, headers).err()?;
    Some(reply_to(None, &request_id(headers), &fault))
}
