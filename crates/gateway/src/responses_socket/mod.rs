//! The Responses API over a WebSocket (OpenAI's "WebSocket mode"), which Codex uses by default.
//!
//! | part | file |
//! |---|---|
//! | the upgrade | this file |
//! | the connection: frames in and out, lanes of turns | `session` |
//! | a frame of the client as a request | `create` |
//! | one turn: the request through the walk, its events as frames | `turn` |
//! | responses of the connection that are stored nowhere else | `history` |
//! | frames that the gateway writes itself | `frame` |
//!
//! A connection carries turns, one after another or, by `stream_id`, side by side. Each turn is a request that takes the
//! whole walk, as if it had come by `POST` with the headers of the upgrade: keys, limits, routes and metrics hold for it,
//! and each may go to another backend.

mod create;
mod frame;
mod history;
mod session;
mod turn;

use std::{fmt, sync::Arc};

use axum::{body::Body, extract::Request};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{Reply, Serving, auth, body_memory::BodyMemory, route::check_endpoint};
use session::Session;
use signalbox_types::{Endpoint, Fault};
pub(super) use turn::{PATH, Walk};

type Run = Box<dyn FnOnce(watch::Receiver<bool>) -> BoxFuture<'static, ()> + Send>;

/// The session of a connection that was upgraded to a WebSocket: an extension of the reply, for the listener to run once
/// that reply is sent.
#[derive(Clone)]
pub struct SocketSession(Arc<Mutex<Option<Run>>>);

impl SocketSession {
    fn new(run: Run) -> Self {
        Self(Arc::new(Mutex::new(Some(run))))
    }

    /// Runs the session until either side closes it, or soon after `stop` turns true.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let run = self.0.lock().take();
        if let Some(run) = run {
            run(stop).await;
        }
    }
}

impl fmt::Debug for SocketSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SocketSession")
    }
}

/// Memory that connections share.
#[derive(Clone)]
pub(super) struct SocketMemory {
    /// That of request bodies.
    pub(super) bodies: Arc<BodyMemory>,
    /// That of the histories of connections.
    pub(super) histories: Arc<BodyMemory>,
}

/// True if the request asks for a WebSocket.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let wanted = headers.get(header::UPGRADE).map(HeaderValue::as_bytes);
    wanted.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// Accepts an upgrade. The reply has the session as its extension.
///
/// # Errors
/// If the caller's key is not valid for responses, or the handshake is none of RFC 6455, section 4.2.1.
pub(super) fn accept(
    request: &mut Request,
    serving: &Serving,
    walk: Walk,
    SocketMemory { bodies, histories }: SocketMemory,
) -> Result<Reply, Fault> {
    let policy = &serving.snapshot.policy;
    if let Some(key) = auth::check(serving, request.headers())? {
        check_endpoint(&policy.keys[key], Endpoint::Responses)?;
    }
    if request.method() != Method::GET {
        return Err(bad_handshake("is asked for by GET"));
    }
    let headers = request.headers();
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(bad_handshake("needs 'Sec-WebSocket-Version: 13'"));
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
        return Err(bad_handshake("needs a 'Sec-WebSocket-Key'"));
    };
    let accept = derive_accept_key(key.as_bytes());
    let head = turn_headers(headers);
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(bad_handshake("needs a connection of HTTP/1.1"));
    };
    let session =
        Session { walk, head, bodies, histories, most: policy.limits.body, most_of_all: policy.limits.bodies };
    let mut reply = Reply::new(Body::empty());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = reply.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    let run: Run = Box::new(move |stop| Box::pin(session.run(upgrade, stop)));
    reply.extensions_mut().insert(SocketSession::new(run));
    Ok(reply)
}

/// The headers of each turn: those of the upgrade, without what is about the connection or one request.
fn turn_headers(upgrade: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(upgrade.len());
    let is_left_out = |name: &HeaderName| {
        name.as_str().starts_with("sec-websocket-")
            || [header::UPGRADE, header::CONNECTION, header::CONTENT_LENGTH, header::CONTENT_ENCODING].contains(name)
            || [header::TRANSFER_ENCODING, header::ACCEPT].contains(name)
            || ["x-request-id", "idempotency-key"].contains(&name.as_str())
    };
    for (name, value) in upgrade.iter().filter(|(name, _)| !is_left_out(name)) {
        headers.append(name, value.clone());
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

fn bad_handshake(why: &str) -> Fault {
    let message = format!("a WebSocket {why}: send the same request as a POST over HTTP, with `stream: true`");
    Fault::client(StatusCode::UPGRADE_REQUIRED, "no_websocket", message).with_code("websocket_unsupported")
}
