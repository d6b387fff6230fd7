//! Parsing: reads the body within its limits and parses it in one pass.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::{
    Reply, Step,
    body_fault::too_large,
    body_memory::{BodyMemory, Share},
    record::Parsed,
    reply::bad_method,
    stages::{Arrival, Authed, Call},
    unpack::{self, Room},
};
use signalbox_protocol::{LONG_BODY, RequestBody, multipart};
use signalbox_types::{Clock, Endpoint, Fault, endpoint::decoded};

/// Time limits on receiving a body: in total, and for a pause.
const BODY_TIME: Duration = Duration::from_mins(10);
const BODY_PAUSE: Duration = Duration::from_secs(30);
/// Additional time for each KiB of the body. A client that trickles bytes would otherwise hold shared memory for long.
const SLOWEST: Duration = Duration::from_micros(62_500);
/// Characters of a model's name that records keep.
const SHOWN_MODEL: usize = 256;

/// Mark of UTF-8 at the beginning of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Optional endpoints whose bodies are JSON or empty.
const JSON_ALONE: [Endpoint; 11] = [
    Endpoint::Responses,
    Endpoint::Messages,
    Endpoint::Rerank,
    Endpoint::Score,
    Endpoint::Classify,
    Endpoint::Pooling,
    Endpoint::Tokenize,
    Endpoint::Moderations,
    Endpoint::Batches,
    Endpoint::VectorStores,
    Endpoint::FineTuning,
];

pub(super) struct Parse<S> {
    inner: S,
    clock: Clock,
    held: Arc<BodyMemory>,
    /// Bounds the threads that parse long bodies.
    readers: Arc<Semaphore>,
}

impl<S> Parse<S> {
    pub(super) fn new(inner: S, clock: Clock, held: Arc<BodyMemory>) -> Self {
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { inner, clock, held, readers: Arc::new(Semaphore::new(readers)) }
    }
}

impl<S: Step<Call>> Step<Authed> for Parse<S> {
    async fn call(&self, Authed { arrival, key }: Authed) -> Result<Reply, Fault> {
        let Arrival { endpoint, deployment, serving, record, request } = arrival;
        let (mut head, body) = request.into_parts();
        check_method(endpoint, &head)?;
        let encodings = unpack::encodings(&head.headers)?;
        content_type(&head.headers)?;
        let limits = &serving.snapshot.policy.limits;
        let bytes = collect(body, limits.body, limits.bodies, Share::new(self.held.clone())).await?;
        let room = Room { one: limits.body, all: limits.bodies };
        let bytes = unpack::unpack(encodings, &mut head.headers, bytes, room, &self.held).await?;
        let read_at = self.clock.now();
        let body = self.read(endpoint, &head, bytes, deployment).await?;
        if body.is_json() {
            // The engine, too, must read as JSON and as UTF-8 what was parsed as JSON here.
            say_json(&mut head.headers);
        }
        let model = body.model.as_ref().map(|model| model.chars().take(SHOWN_MODEL).collect());
        record.progress().parsed(Parsed { model, stream: body.stream, prompt_bytes: body.prompt_bytes });
        if let Some(traced) = record.traced() {
            traced.asked(endpoint, &body);
        }
        let path = head.uri.path().to_owned();
        let query = head.uri.query().map(ToOwned::to_owned);
        let (method, headers) = (head.method, head.headers);
        let (original, keeps_usage, signed_thinking) = (None, false, false);
        let call = Call {
            read_at,
            endpoint,
            serving,
            record,
            key,
            method,
            path,
            query,
            headers,
            body,
            original,
            keeps_usage,
            signed_thinking,
            carries_state: false,
            seeks_object: false,
            held: None,
        };
        self.inner.boxed(call).await
    }
}

impl<S> Parse<S> {
    /// Reads a body. The model is that of the `deployment`, if the path named one.
    pub(super) async fn read(
        &self,
        endpoint: Endpoint,
        head: &Parts,
        bytes: Bytes,
        deployment: Option<String>,
    ) -> Result<RequestBody, Fault> {
        let length = bytes.len();
        let optional = !Endpoint::DEFAULT.contains(&endpoint);
        let content_type = content_type(&head.headers)?;
        if head.method != Method::POST {
            return Ok(RequestBody::opaque(bytes));
        }
        match multipart::boundary(content_type)? {
            Some(boundary) if Endpoint::takes_form(head.uri.path()) => {
                let read = move || RequestBody::form_for(bytes, &boundary, deployment.as_deref());
                return self.aside(length, read).await;
            }
            Some(_) => return Err(no_form(head.uri.path())),
            None => {}
        }
        // PowerShell and .NET write it before JSON. Engines differ in whether they read it.
        let bytes = if bytes.starts_with(BYTE_ORDER_MARK) { bytes.slice(BYTE_ORDER_MARK.len()..) } else { bytes };
        let may_be_other = optional && !JSON_ALONE.contains(&endpoint);
        if optional && bytes.is_empty() || may_be_other && !looks_like_json(content_type, &bytes) {
            return Ok(RequestBody::opaque(bytes));
        }
        if is_urlencoded(content_type) && names_model(&bytes) {
            return Err(two_ways());
        }
        self.aside(length, move || RequestBody::json_for(endpoint, bytes, deployment.as_deref())).await
    }

    /// Parses a body of this `length`. A long one is parsed on a blocking thread, since it would stall a worker.
    async fn aside(
        &self,
        length: usize,
        read: impl FnOnce() -> Result<RequestBody, Fault> + Send + 'static,
    ) -> Result<RequestBody, Fault> {
        if length <= LONG_BODY {
            return read();
        }
        let overloaded = || Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "reading the body failed");
        let _place = self.readers.acquire().await.map_err(|_| overloaded())?;
        tokio::task::spawn_blocking(read).await.map_err(|_| overloaded())?
    }
}

fn looks_like_json(content_type: &str, bytes: &[u8]) -> bool {
    content_type.to_ascii_lowercase().contains("json") || bytes.trim_ascii_start().starts_with(b"{")
}

/// Returns the only content type, or an empty string if there is none.
fn content_type(headers: &HeaderMap) -> Result<&str, Fault> {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    let content_type = all.next().map_or(Ok(""), |value| value.to_str());
    if let (Ok(content_type), None) = (content_type, all.next()) {
        return Ok(content_type);
    }
    let message = "the request has several content types, or one that is no text: send one 'Content-Type'";
    Err(Fault::client(StatusCode::BAD_REQUEST, "bad_content_type", message).with_code("invalid_content_type"))
}

fn say_json(headers: &mut HeaderMap) {
    let plain = ["application/json", "application/json; charset=utf-8"];
    let said = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if !plain.iter().any(|plain| said.eq_ignore_ascii_case(plain.as_bytes())) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(plain[0]));
    }
}

fn is_urlencoded(content_type: &str) -> bool {
    let name = b"x-www-form-urlencoded";
    content_type.as_bytes().windows(name.len()).any(|at| at.eq_ignore_ascii_case(name))
}

/// True if a parser of URL-encoded forms would find a field `model` in the body.
fn names_model(bytes: &[u8]) -> bool {
    let mut names =
        bytes.split(|byte| matches!(byte, b'&' | b';')).filter_map(|field| field.split(|byte| *byte == b'=').next());
    names.any(|name| {
        let name = decoded(&String::from_utf8_lossy(name).replace('+', " ")).to_lowercase();
        name.trim().split('[').next() == Some("model")
    })
}

fn two_ways() -> Fault {
    let message =
        "the body names one model as JSON and another as a form: send it with 'Content-Type: application/json'";
    Fault::client(StatusCode::BAD_REQUEST, "bad_content_type", message).with_code("invalid_content_type")
}

fn no_form(path: &str) -> Fault {
    let message = format!("'{path}' takes no form: send a JSON object with the content type application/json");
    Fault::client(StatusCode::BAD_REQUEST, "bad_json", message).with_code("invalid_json")
}

fn check_method(endpoint: Endpoint, head: &Parts) -> Result<(), Fault> {
    // Clients send `HEAD` to see if the address is right, which is nothing for an engine.
    let is_check = head.method == Method::HEAD && endpoint.generates() && endpoint.is_root(head.uri.path());
    if is_check || Endpoint::DEFAULT.contains(&endpoint) && head.method != Method::POST {
        return Err(bad_method(format!("'{}' is asked for by POST, not {}", endpoint.name(), head.method)));
    }
    Ok(())
}

/// Reads a body of at most `limit` bytes, while all held bodies together stay within `most` bytes.
pub(super) async fn collect(body: Body, limit: usize, most: usize, mut share: Share) -> Result<Bytes, Fault> {
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large(limit));
    }
    let mut body = Limited::new(body, limit);
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let began = Instant::now();
    let read = async {
        while let Some(frame) = timeout(BODY_PAUSE, body.frame()).await.map_err(|_| too_slow())? {
            let Ok(chunk) = frame.map_err(|error| broken(&*error, limit))?.into_data() else { continue };
            share.grow(chunk.len(), most)?;
            if began.elapsed() > BODY_PAUSE + SLOWEST.saturating_mul((share.bytes() >> 10) as u32) {
                return Err(too_slow());
            }
            // A body of one chunk, the usual case, is not copied.
            if first.is_empty() && whole.is_empty() {
                first = chunk;
                continue;
            }
            if whole.is_empty() {
                whole.reserve(announced as usize);
                whole.extend_from_slice(&std::mem::take(&mut first));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(())
    };
    timeout(BODY_TIME, read).await.map_err(|_| too_slow())??;
    Ok(share.of(if whole.is_empty() { first } else { whole.freeze() }))
}

fn broken(error: &(dyn std::error::Error + 'static), limit: usize) -> Fault {
    if error.is::<LengthLimitError>() {
        return too_large(limit);
    }
    Fault::client(StatusCode::BAD_REQUEST, "body_cut", "the body ended before its announced length")
}

fn too_slow() -> Fault {
    let message = format!("the body paused for {} s, or took too long", BODY_PAUSE.as_secs());
    Fault::client(StatusCode::REQUEST_TIMEOUT, "body_slow", message).with_code("request_timeout")
}
