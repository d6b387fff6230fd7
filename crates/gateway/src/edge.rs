//! The edge: a [`tower::Service`] for axum that opens the request's record and converts faults to HTTP.

use std::{convert::Infallible, sync::Arc, task};

use arc_swap::ArcSwapOption;
use axum::extract::Request;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use tower::Service;

use super::{
    Live, Reply, Serving, Step, auth,
    body_memory::BodyMemory,
    keep_alive::kept_alive,
    record::{Record, Settlement},
    relay::is_generation,
    reply::{METHODS, bad_method, request_id, with_methods},
    reply_to,
    responses_socket::{self, SocketMemory},
    stages::Arrival,
    traced::Traced,
    watched_answer::AnswerWatch,
};
use signalbox_journal::access_log;
use signalbox_otel::Exporter;
use signalbox_types::{
    Endpoint, Fault, Outcome,
    base_path::{self, Corrected},
};

/// The request path as an axum service.
pub struct Edge<S> {
    walk: Arc<S>,
    live: Arc<Live>,
    settlement: Arc<Settlement>,
    otel: Arc<ArcSwapOption<Exporter>>,
    sockets: SocketMemory,
}

impl<S> Edge<S> {
    pub(super) fn new(
        walk: S,
        live: Arc<Live>,
        settlement: Arc<Settlement>,
        otel: Arc<ArcSwapOption<Exporter>>,
        bodies: Arc<BodyMemory>,
    ) -> Self {
        let sockets = SocketMemory { bodies, histories: Arc::default() };
        Self { walk: Arc::new(walk), live, settlement, otel, sockets }
    }
}

impl<S> Clone for Edge<S> {
    fn clone(&self) -> Self {
        Self {
            walk: self.walk.clone(),
            live: self.live.clone(),
            settlement: self.settlement.clone(),
            otel: self.otel.clone(),
            sockets: self.sockets.clone(),
        }
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
    async fn answer(self, mut request: Request) -> Reply {
        let id = request_id(request.headers());
        let found = check_method(request.method()).and_then(|()| endpoint(&request));
        let (endpoint, corrected) = match found {
            Ok((_, corrected)) if responses_socket::is_upgrade(request.headers()) => {
                return self.upgraded(request, corrected.as_ref(), &id);
            }
            Ok(found) => found,
            Err(fault) => return self.refused(&id, &fault),
        };
        let request_line = self
            .settlement
            .decisions
            .access_log
            .load()
            .is_some()
            .then(|| access_log::request_line(request.method(), request.uri()));
        // From here on the path is canonical: it is what key scopes are checked on and what is forwarded.
        let deployment = corrected.and_then(|corrected| {
            put_path(&mut request, &corrected);
            corrected.deployment
        });
        // Errors take the shape that clients of the path expect. The endpoint alone does not determine it: Anthropic's
        // batches are batches too.
        let dialect = if request.uri().path().starts_with("/v1/messages") { Endpoint::Messages } else { endpoint };
        let exporter = self.otel.load_full();
        let traced = exporter.map(|exporter| Traced::begin(exporter, request.headers()));
        let record = Record::open(self.settlement.clone(), id.clone(), endpoint, None, traced);
        if let Some(line) = request_line {
            record.progress().arrived(line);
        }
        let answer_watch = is_generation(dialect).then(|| AnswerWatch::begin(&record)).flatten();
        let arrival = Arrival { endpoint, deployment, serving: self.live.load(), record: record.clone(), request };
        let mut reply = self.walk.call(arrival).await.unwrap_or_else(|fault| {
            record.fail(&fault);
            reply_to(Some(dialect), &id, &fault)
        });
        if let Some(reservation) = record.caller_reservation() {
            reservation.write_headers(reply.headers_mut(), self.settlement.clock.now());
        }
        let reply = match answer_watch {
            Some(answer_watch) => answer_watch.watch(reply),
            None => reply,
        };
        if is_generation(dialect) { kept_alive(dialect, reply) } else { reply }
    }

    /// Answers a request for a WebSocket.
    fn upgraded(&self, mut request: Request, corrected: Option<&Corrected>, id: &str) -> Reply {
        let path = corrected.map_or(request.uri().path(), |corrected| &corrected.path);
        if path != responses_socket::PATH {
            return self.refused(id, &no_socket());
        }
        let edge = self.clone();
        let walk: responses_socket::Walk = Arc::new(move |request| Box::pin(edge.clone().answer(request)));
        let (serving, sockets) = (self.live.load(), self.sockets.clone());
        responses_socket::accept(&mut request, &serving, walk, sockets).unwrap_or_else(|fault| self.refused(id, &fault))
    }

    /// Answers a request that does not reach the walk.
    fn refused(&self, id: &str, fault: &Fault) -> Reply {
        self.settlement.metrics.fault(fault);
        self.settlement.metrics.request(None, None, fault.status, Outcome::Failed(fault.kind));
        with_upgrade(with_methods(reply_to(None, id, fault)))
    }
}

/// Rejects a method that never goes upstream.
fn check_method(method: &Method) -> Result<(), Fault> {
    if [Method::GET, Method::HEAD, Method::POST, Method::DELETE].contains(method) {
        return Ok(());
    }
    Err(bad_method(format!("{method} is not served here: the methods of the API are {METHODS}")))
}

/// Returns the endpoint of the request's path, and the canonical path if it came in another spelling.
fn endpoint(request: &Request) -> Result<(Endpoint, Option<Corrected>), Fault> {
    let path = request.uri().path();
    if let Some(endpoint) = Endpoint::of_path(path) {
        return Ok((endpoint, None));
    }
    if let Some(corrected) = base_path::canonical(path)
        && let Some(endpoint) = Endpoint::of_path(&corrected.path)
    {
        return Ok((endpoint, Some(corrected)));
    }
    let message = format!(
        "there is no {} {}: the OpenAI API is served under /v1, for example POST /v1/chat/completions",
        request.method(),
        path
    );
    Err(Fault::client(StatusCode::NOT_FOUND, "unknown_path", message).with_code("unknown_url"))
}

/// Replaces the path of the request. The query stays, but for an Azure client's `api-version`, which is about its path.
fn put_path(request: &mut Request, Corrected { path, is_azure, .. }: &Corrected) {
    let is_kept = |parameter: &&str| !is_azure || parameter.split('=').next() != Some("api-version");
    let query: Vec<_> = request.uri().query().unwrap_or_default().split('&').filter(is_kept).collect();
    let query = query.join("&");
    let query = if query.is_empty() { query } else { format!("?{query}") };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = format!("{path}{query}").parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// The rejection of a WebSocket at a path without one. Clients that try one first fall back to HTTP at once on a 426, some
/// only after seconds on a 404 or 405, and not at all on a 400.
fn no_socket() -> Fault {
    let message = format!(
        "there is no WebSocket here, only at {}: send the same request as a POST over HTTP, with `stream: true`",
        responses_socket::PATH
    );
    Fault::client(StatusCode::UPGRADE_REQUIRED, "no_websocket", message).with_code("websocket_unsupported")
}

/// Sets the headers of a 426 reply: the protocol to use instead, and the end of the connection.
fn with_upgrade(mut reply: Reply) -> Reply {
    if reply.status() == StatusCode::UPGRADE_REQUIRED {
        reply.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade, close"));
    }
    reply
}

/// Returns the rejection of a caller whose `headers` carry no valid key, or `None` if the key is valid or the policy
/// has no keys.
pub fn refuse(serving: &Serving, headers: &HeaderMap) -> Option<Reply> {
    let fault = auth::check(serving, headers).err()?;
    Some(reply_to(None, &request_id(headers), &fault))
}
