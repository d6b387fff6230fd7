//! The edge: a [`tower::Service`] for axum that opens the request's record and converts faults to HTTP.

use std::{convert::Infallible, sync::Arc, task};

use arc_swap::ArcSwapOption;
use axum::extract::Request;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use tower::Service;

use super::{
    Live, Reply, Serving, Step, auth,
    record::{Record, Settlement},
    reply::{METHODS, bad_method, request_id, with_methods},
    reply_to,
    stages::Arrival,
    traced::Traced,
};
use crate::{
    journal::access_log,
    otel::Exporter,
    types::{Endpoint, Fault, Outcome},
};

/// The request path as an axum service.
pub struct Edge<S> {
    walk: Arc<S>,
    live: Arc<Live>,
    settlement: Arc<Settlement>,
    otel: Arc<ArcSwapOption<Exporter>>,
}

impl<S> Edge<S> {
    pub(super) fn new(
        walk: S,
        live: Arc<Live>,
        settlement: Arc<Settlement>,
        otel: Arc<ArcSwapOption<Exporter>>,
    ) -> Self {
        Self { walk: Arc::new(walk), live, settlement, otel }
    }
}

impl<S> Clone for Edge<S> {
    fn clone(&self) -> Self {
        Self {
            walk: self.walk.clone(),
            live: self.live.clone(),
            settlement: self.settlement.clone(),
            otel: self.otel.clone(),
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
    async fn answer(self, request: Request) -> Reply {
        let id = request_id(request.headers());
        let endpoint = match check_method(request.method()).and_then(|()| endpoint(&request)) {
            Ok(endpoint) => endpoint,
            Err(fault) => {
                self.settlement.metrics.fault(&fault);
                self.settlement.metrics.request(None, None, fault.status, Outcome::Failed(fault.kind));
                return with_methods(reply_to(None, &id, &fault));
            }
        };
        // Errors take the shape that clients of the path expect. The endpoint alone does not determine it: Anthropic's
        // batches are batches too.
        let dialect = if request.uri().path().starts_with("/v1/messages") { Endpoint::Messages } else { endpoint };
        let exporter = self.otel.load_full();
        let traced = exporter.map(|exporter| Traced::begin(exporter, request.headers()));
        let record = Record::open(self.settlement.clone(), id.clone(), endpoint, None, traced);
        if self.settlement.decisions.access_log.load().is_some() {
            record.progress().arrived(access_log::request_line(request.method(), request.uri()));
        }
        let arrival = Arrival { endpoint, serving: self.live.load(), record: record.clone(), request };
        let mut reply = self.walk.call(arrival).await.unwrap_or_else(|fault| {
            record.fail(&fault);
            reply_to(Some(dialect), &id, &fault)
        });
        if let Some(reservation) = record.caller_reservation() {
            reservation.write_headers(reply.headers_mut(), self.settlement.clock.now());
        }
        reply
    }
}

/// Rejects a method that never goes upstream.
fn check_method(method: &Method) -> Result<(), Fault> {
    if [Method::GET, Method::HEAD, Method::POST, Method::DELETE].contains(method) {
        return Ok(());
    }
    Err(bad_method(format!("{method} is not served here: the methods of the API are {METHODS}")))
}

/// Returns the endpoint of the request's path.
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

/// Returns the rejection of a caller whose `headers` carry no valid key, or `None` if the key is valid or the policy
/// has no keys.
pub fn refuse(serving: &Serving, headers: &HeaderMap) -> Option<Reply> {
    let fault = auth::check(serving, headers).err()?;
    Some(reply_to(None, &request_id(headers), &fault))
}
