//! Observe mode: passes everything to an existing gateway unchanged, measures it, and records what this gateway would
//! have done.
//!
//! It is a trial without risk: no key is required, and nothing is refused, retried, cached or added.

mod counterfactual;
mod read;
mod tap;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, sync::Arc, task};

use axum::{body::Body, extract::Request};
use futures_util::future::BoxFuture;
use http::StatusCode;
use tower::Service;

use self::{read::Read, tap::Tap};
use super::{
    Live, Reply,
    estimate::compare,
    estimator::Estimate,
    parse::Parse,
    parts::Parts,
    placement::{PlacementRequest, Reservation, Tries},
    record::{Parsed, Record, millis},
    relay::{Gauges, Meter},
    reply::{bad_method, reply_to, request_id, with_methods},
    route::counter,
    stages::Call,
    unpack::{self, Room},
};
use signalbox_journal::AttemptEntry;
use signalbox_policy::{Limits, Route, Target};
use signalbox_protocol::RequestBody;
use signalbox_types::{Endpoint, Fault};
use signalbox_upstream::{
    AnswerBody, Client, address, headers,
    outgoing::{Outgoing, SendError},
};

/// Service that replaces the request pipeline if the policy observes another gateway.
#[derive(Clone)]
pub struct Observer {
    live: Arc<Live>,
    parts: Arc<Parts>,
    client: Client,
    parse: Arc<Parse<()>>,
}

/// A request to be measured.
struct Measured {
    call: Call,
    estimate: Estimate,
    /// Reason why this gateway could not have read the request, if any.
    unreadable: Option<&'static str>,
    /// Index of the observed gateway's pool in the policy.
    pool: usize,
}

impl Observer {
    /// Creates an observer of the gateway that the policy names.
    pub fn new(live: Arc<Live>, parts: Arc<Parts>, client: Client) -> Self {
        let parse = Arc::new(Parse::new((), parts.clock, parts.held.clone()));
        Self { live, parts, client, parse }
    }

    async fn pass(self, request: Request) -> Reply {
        let (head, body) = request.into_parts();
        let serving = self.live.load();
        let Some(pool) = serving.snapshot.policy.observed else {
            let fault = Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "internal", "there is nothing to observe");
            return reply_to(None, "", &fault);
        };
        // All other methods are left to the observed gateway.
        if ["TRACE", "TRACK", "CONNECT"].contains(&head.method.as_str()) {
            let message = format!("{} is not passed on to the gateway that is observed", head.method);
            return with_methods(reply_to(None, &request_id(&head.headers), &bad_method(message)));
        }
        let endpoint = Endpoint::of_path(head.uri.path());
        let read = match endpoint {
            Some(_) => Read::of(body, &serving.snapshot.policy.limits, &self.parts.held).await,
            None if http_body::Body::is_end_stream(&body) => Read::Whole(bytes::Bytes::new()),
            None => Read::Streamed(body),
        };
        let backend = &serving.snapshot.pools[pool].backends[0];
        let engine = &serving.snapshot.policy.engines[backend.spec.engine];
        let url = address::url(engine, &backend.spec, head.uri.path(), head.uri.query());
        let mut headers = headers::unchanged(&head.headers);
        self.client.loops().mark(&head.headers, &mut headers);
        let (method, path) = (head.method.clone(), head.uri.path().to_owned());
        match (endpoint, read) {
            (Some(endpoint), Read::Whole(bytes)) => {
                let body = self.read(endpoint, &head, bytes.clone(), &serving.snapshot.policy.limits).await;
                let unreadable = body.as_ref().err().map(|fault| fault.kind);
                let body = body.unwrap_or_else(|_| RequestBody::opaque(bytes.clone()));
                let record =
                    Record::open(self.parts.settlement.clone(), request_id(&head.headers), endpoint, None, None);
                let estimate = self.parts.estimator.estimate(&head.headers, &body, counter(&serving, &body));
                let (model, stream, prompt_bytes) = (body.model.clone(), body.stream, body.prompt_bytes);
                record.progress().parsed(Parsed { model, stream, prompt_bytes });
                record.progress().estimated(estimate.tokens.expected);
                let call = Call {
                    read_at: self.parts.clock.now(),
                    endpoint,
                    serving: serving.clone(),
                    record,
                    key: None,
                    method: method.clone(),
                    path,
                    query: None,
                    headers: head.headers,
                    body,
                    original: None,
                    keeps_usage: false,
                    signed_thinking: false,
                    carries_state: false,
                    seeks_object: false,
                    held: None,
                };
                let outgoing = Outgoing { method, url, headers, body: bytes };
                compare(&self.parts.accounting, &call, &estimate);
                self.measured(Measured { call, estimate, unreadable, pool }, outgoing).await
            }
            (_, read) => {
                let sent = self.client.stream(Outgoing { method, url, headers, body: () }, read.into_body()).await;
                sent.map_or_else(|error| unreachable(endpoint, error).1, |answer| plain(answer.map(Body::new)))
            }
        }
    }

    /// Reads the body as this gateway would. What is passed on stays as it came.
    async fn read(
        &self,
        endpoint: Endpoint,
        head: &http::request::Parts,
        bytes: bytes::Bytes,
        limits: &Limits,
    ) -> Result<RequestBody, Fault> {
        let encodings = unpack::encodings(&head.headers)?;
        let room = Room { one: limits.body, all: limits.bodies };
        let bytes = unpack::unpack(encodings, &mut head.headers.clone(), bytes, room, &self.parts.held).await?;
        self.parse.read(endpoint, head, bytes, None).await
    }

    async fn measured(&self, measured: Measured, outgoing: Outgoing) -> Reply {
        let Measured { call, estimate, unreadable, pool } = &measured;
        let (record, endpoint) = (&call.record, call.endpoint);
        let Some(meter) = self.meter(call, estimate, *pool) else {
            let fault = Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request has no place");
            record.fail(&fault);
            return reply_to(Some(endpoint), &record.id(), &fault);
        };
        let began = self.parts.clock.now();
        // Sends the request first and computes the counterfactual while it is being answered.
        let (sent, ()) = tokio::join!(
            self.sent(call, outgoing),
            counterfactual::note(&self.parts.routing, call, estimate, *unreadable)
        );
        record.wait(self.parts.clock.now().since(began));
        match sent {
            Ok(answer) => Self::reply(call, meter, answer),
            Err(error) => {
                let (fault, reply) = unreachable(Some(endpoint), error);
                meter.fail(&fault);
                record.fail(&fault);
                reply
            }
        }
    }

    /// Sends the request, and a repeatable one once more on a fresh connection if the first was lost. A pooled
    /// connection may have died unnoticed, which a direct client of the observed gateway would not have met.
    async fn sent(&self, call: &Call, outgoing: Outgoing) -> Result<http::Response<AnswerBody>, SendError> {
        if !call.is_repeatable() {
            return self.client.send(outgoing).await;
        }
        match self.client.send(outgoing.clone()).await {
            Err(SendError::Lost(_)) => self.client.send_fresh(outgoing).await,
            sent => sent,
        }
    }

    fn reply(call: &Call, mut meter: Meter, answer: http::Response<AnswerBody>) -> Reply {
        meter.commit(call.read_at);
        call.record.progress().head(answer.status());
        let (head, body) = answer.into_parts();
        let tap = Tap::new(call.endpoint, &head, body, meter);
        plain(http::Response::from_parts(head, Body::new(tap)))
    }

    /// Creates the meter for the observed gateway's answer.
    fn meter(&self, call: &Call, estimate: &Estimate, pool: usize) -> Option<Meter> {
        let serving = &call.serving;
        let alive = &serving.snapshot.pools[pool];
        let target = Target::whole(pool);
        let name = alive.spec.name.clone();
        let tries = vec![Tries::none(serving, &target, &name)];
        let asked = PlacementRequest {
            state: self.parts.placement.clone(),
            serving: serving.clone(),
            route: Route::new(name, vec![target], serving.snapshot.policy.timeouts).into(),
            blocks: estimate.blocks.clone(),
            session: estimate.session,
            conversation: None,
            priority: 0,
            max_tokens: call.body.max_tokens,
            whole: !call.body.stream || call.body.asks_to_think(),
            arrived: call.record.arrived(),
            caller: None,
            model: None,
            escalates: false,
            tries,
        };
        let Reservation { backend, permit, entry, .. } = asked.place(self.parts.clock.now())?;
        let began_ms = millis(self.parts.clock.now().since(call.record.arrived()));
        let predicted = entry.predicted;
        let number = call.record.progress().attempt_began(AttemptEntry { began_ms, ..entry });
        let gauges = Gauges {
            pool: alive.learned.clone(),
            caller: None,
            record: call.record.clone(),
            number,
            metrics: serving.meter(pool, backend).clone(),
            pool_metrics: serving.pool_meter(pool).clone(),
            backend: alive.backends[backend].clone(),
            price: alive.spec.price,
            prompt_weight: estimate.blocks.prompt().weight(),
            predicted,
        };
        Some(Meter::begin(gauges, permit))
    }
}

// === impl Service ===

impl Service<Request> for Observer {
    type Response = Reply;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Reply, Infallible>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let observer = self.clone();
        Box::pin(async move { Ok(observer.pass(request).await) })
    }
}

/// Returns an answer unchanged, except for the headers of its connection.
fn plain(answer: http::Response<Body>) -> Reply {
    let (head, body) = answer.into_parts();
    let mut reply = Reply::new(body);
    *reply.status_mut() = head.status;
    *reply.headers_mut() = headers::unchanged(&head.headers);
    reply
}

/// Returns the fault and the reply for an observed gateway that cannot be reached. A direct client of that gateway
/// would not get this reply.
fn unreachable(endpoint: Option<Endpoint>, error: SendError) -> (Fault, Reply) {
    let (kind, cause) = match error {
        SendError::Connect(cause) => ("upstream_unreachable", cause),
        SendError::NoDescriptor => ("overloaded", error.to_string()),
        SendError::Lost(cause) => ("connection_lost", cause),
    };
    let message = format!("the gateway that is observed cannot be reached: {cause}");
    let fault = Fault::upstream(StatusCode::BAD_GATEWAY, kind, message);
    let reply = reply_to(endpoint, "", &fault);
    (fault, reply)
}
