//! Makes one attempt at one backend: sends the request and waits until its answer has begun or failed. `Job` is the state
//! that all attempts at a request share.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};

use super::{
    answer_form::{AnswerForm, Received},
    call_ids, carried_state, defaults, left_out, openai,
    provider::{ProviderKey, address, payer, provider},
    upstream_api,
    upstream_api::UpstreamApi,
    upstream_fault::{is_absent, of_backend, refusal, subject},
};
use crate::{
    breaker_log,
    placement::{PlacementRequest, Reservation},
    record::millis,
    relay::{Answer, Committed, Decision, Events, Gauges, Meter, is_generation},
    stages::{Call, RequestForm},
};
use signalbox_fleet::{Backend, Pool};
use signalbox_journal::AttemptEntry;
use signalbox_policy::Secret;
use signalbox_protocol::{Edits, EmbeddingsRequest, with_model};
use signalbox_types::{
    AnswerModel, Blame, Clock, Endpoint, Fault, Name, Retry,
    fault::{ABSENT, INEXPRESSIBLE, LOST, MISSING, UNREACHABLE, UNSUPPORTED},
};
use signalbox_upstream::{AnswerBody, Client, SendError, address, headers, outgoing::Outgoing};

/// Largest error body that is passed on, in bytes. A larger one is dropped.
const LARGEST_ERROR: usize = 1 << 20;

/// A request that is being answered.
pub(super) struct Job {
    pub(super) client: Client,
    pub(super) call: Call,
}

/// Position of an attempt's backend.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    /// Index of the target in the route.
    pub(super) target: usize,
    /// Index of the backend in the pool.
    pub(super) backend: usize,
}

impl Job {
    pub(super) fn new(client: Client, call: Call) -> Arc<Self> {
        Self { client, call }.into()
    }

    /// True if the answer is streamed token by token.
    pub(super) fn streams(&self) -> bool {
        self.call.body.stream && is_generation(self.call.endpoint)
    }

    /// True if the request asks for reasoning before the answer.
    pub(super) fn reasons(&self) -> bool {
        self.call.body.asks_to_think()
    }
}

/// State of one attempt at a request.
pub(super) struct Attempt<'a> {
    pub(super) job: &'a Job,
    pub(super) clock: Clock,
    /// The request in the API of the backend.
    form: RequestForm<'a>,
    /// Hash of the conversation's name, if it has one.
    session: Option<u64>,
    /// The model that biases of tokens are for.
    biased: Option<Name>,
    /// The bytes of text that the prompt weighs as much as.
    pub(super) prompt_weight: u64,
    /// No other backend is left to try.
    is_last: bool,
    /// Set once the response head has arrived. From then on the connection is known to work, and a late first token is
    /// the model's failure.
    pub(super) has_head: Arc<AtomicBool>,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt at the request of `job` on a backend of this pool.
    pub(super) fn new(job: &'a Job, asked: &PlacementRequest, pool: usize) -> Self {
        let (form, prompt_weight) = (job.call.form_for(pool), asked.blocks.prompt().weight());
        let (session, biased) = (asked.session, asked.route.biased.clone());
        let (clock, is_last) = (job.call.record.clock(), !asked.has_untried());
        Self { job, clock, form, session, biased, prompt_weight, is_last, has_head: Arc::default() }
    }

    /// Runs the attempt at the backend that was chosen for it. Returns the backend's position and the result. The
    /// permit is held from the start and is released wherever this future is dropped.
    pub(super) async fn run(self, placed: Reservation) -> (Spot, Result<Committed, Fault>) {
        let spot = Spot { target: placed.target, backend: placed.backend };
        (spot, self.at(placed).await)
    }

    async fn at(&self, placed: Reservation) -> Result<Committed, Fault> {
        let Reservation { pool, backend, permit, entry, .. } = placed;
        let serving = &self.job.call.serving;
        let alive = &serving.snapshot.pools[pool];
        let backend_at = &alive.backends[backend].asked_for(self.job.call.body.model.as_deref());
        let engine = &serving.snapshot.policy.engines[backend_at.spec.engine];
        let began_ms = millis(self.clock.now().since(self.job.call.record.arrived()));
        let explain = self.job.call.headers.get("x-signalbox-explain").is_some_and(|asked| asked == "1");
        let decision = Decision {
            pool: alive.spec.name.clone(),
            backend: backend_at.name().clone(),
            model: backend_at.spec.model.clone(),
            reason: entry.reason,
            dropped: Vec::new(),
            predicted_ttft_ms: began_ms + entry.predicted.ttft_ms,
            explained: explain.then(|| entry.cost_header(&serving.snapshot.policy.labels)),
            cascade: None,
        };
        let predicted = entry.predicted;
        let address = self.job.call.record.traced().and_then(|_| address(engine));
        let entry = AttemptEntry { provider: provider(engine, backend_at), address, began_ms, ..entry };
        let number = self.job.call.record.progress().attempt_began(entry);
        let gauges = Gauges {
            record: self.job.call.record.clone(),
            number,
            metrics: serving.meter(pool, backend).clone(),
            pool_metrics: serving.pool_meter(pool).clone(),
            backend: backend_at.clone(),
            pool: alive.learned.clone(),
            caller: self.job.call.caller().cloned(),
            price: alive.spec.price,
            prompt_weight: self.prompt_weight,
            predicted,
        };
        let mut meter = Meter::begin(gauges, permit);
        match self.answer(alive, backend_at, &mut meter).await {
            Ok((head, answer, dropped)) => {
                let decision = Decision { dropped, ..decision };
                if alive.answered(backend, self.form.endpoint) {
                    breaker_log::endpoint_back(backend_at, self.form.endpoint);
                }
                Ok(Committed { head, answer, meter, endpoint: self.form.endpoint, decision })
            }
            Err(fault) => {
                if let MISSING | UNSUPPORTED = fault.kind {
                    let (endpoint, is_bare) = (self.form.endpoint, fault.kind == MISSING);
                    if let Some(pause) = alive.refused(backend, endpoint, is_bare, self.clock.now()) {
                        breaker_log::endpoint_left_out(backend_at, endpoint, fault.status, pause);
                    }
                }
                meter.fail(&fault);
                // A request that must not be executed twice is retried only if it was never sent.
                let again = self.job.call.is_repeatable() || matches!(fault.kind, UNREACHABLE | INEXPRESSIBLE | ABSENT);
                Err(Fault { retry: if again { fault.retry } else { Retry::Never }, ..fault })
            }
        }
    }

    /// Gets the answer, and the names of the hints that were dropped on the way to the backend.
    async fn answer(
        &self,
        pool: &Pool,
        backend: &Backend,
        meter: &mut Meter,
    ) -> Result<(http::response::Parts, Answer, Vec<String>), Fault> {
        let (begun, dropped) = self.sent(pool, backend, meter).await?;
        self.has_head.store(true, Relaxed);
        let mut looked = self.look(backend, begun, meter).await;
        let engine = &self.job.call.serving.snapshot.policy.engines[backend.spec.engine];
        if looked.as_ref().is_err_and(|fault| call_ids::learn(engine, &backend.learned, fault)) {
            let (begun, _) = self.sent(pool, backend, meter).await?;
            looked = self.look(backend, begun, meter).await;
        }
        let (head, answer) = looked?;
        let answer = match answer {
            Answer::Events { events, .. } => {
                Answer::Events { events, hide_usage: self.asks_usage(backend) && !self.job.call.keeps_usage }
            }
            other => other,
        };
        Ok((head, answer, dropped))
    }

    /// True if the gateway asks for a stream's usage: this API reports it, the backend accepts the option and the client
    /// did not ask for it itself.
    fn asks_usage(&self, backend: &Backend) -> bool {
        self.job.call.body.stream
            && matches!(self.form.endpoint, Endpoint::Chat | Endpoint::Completions)
            && !self.form.body.include_usage
            && !backend.spec.drop.iter().any(|drop| drop == "stream_options")
    }

    /// The model that the answer shall name, if the backend knows it by another name.
    fn named_model(&self, backend: &Backend) -> Option<&str> {
        let asked = self.form.body.model.as_deref()?;
        let names_asked = match self.form.endpoint {
            Endpoint::Messages | Endpoint::Responses => true,
            Endpoint::Chat | Endpoint::Completions => {
                self.job.call.serving.snapshot.policy.answer_model == AnswerModel::Asked
            }
            _ => false,
        };
        Some(asked).filter(|_| names_asked && backend.spec.model_for(Some(asked)).is_some_and(|model| model != asked))
    }

    /// Sends with one of the engine's keys, and with another one if the provider refuses it. The number of keys limits
    /// the attempts.
    async fn sent(
        &self,
        pool: &Pool,
        backend: &Backend,
        meter: &Meter,
    ) -> Result<((http::response::Parts, AnswerBody), Vec<String>), Fault> {
        let (engine, clock) = (&self.job.call.serving.snapshot.policy.engines[backend.spec.engine], self.clock);
        let mut left = engine.keys.len();
        loop {
            let key = ProviderKey::next(engine, backend, clock.now());
            let (begun, dropped) = self.begin(pool, backend, key.secret, meter).await?;
            left = left.saturating_sub(1);
            if !key.record_status(begun.0.status, clock.now()) || left == 0 {
                return Ok((begun, dropped));
            }
        }
    }

    /// Awaits upstream work and records its duration as upstream time, not as the gateway's own.
    async fn upstream<T>(&self, work: impl Future<Output = T>) -> T {
        let clock = self.clock;
        let began = clock.now();
        let done = work.await;
        self.job.call.record.wait(clock.now().since(began));
        done
    }

    /// The request to send, and the names of the hints that the backend's API cannot express.
    async fn outgoing(
        &self,
        pool: &Pool,
        backend: &Backend,
        key: Option<&Secret>,
        meter: &Meter,
    ) -> Result<(Outgoing, Vec<String>), Fault> {
        let (call, form) = (&self.job.call, self.form);
        let engine = &call.serving.snapshot.policy.engines[backend.spec.engine];
        let mut headers = headers::forwarded(&call.headers, engine);
        let taken = left_out::of(call, (engine, backend), form.body, self.biased.as_ref(), &mut headers);
        let drop = left_out::with(&backend.spec.drop, &taken);
        self.job.client.loops().mark(&call.headers, &mut headers);
        if let Ok(id) = HeaderValue::from_str(&call.record.id()) {
            headers.insert(HeaderName::from_static("x-request-id"), id);
        }
        if let Some(key) = key {
            address::authorise(&mut headers, engine, key);
        }
        address::put_engine_headers(&mut headers, engine);
        if let Some(traced) = call.record.traced() {
            traced.put(meter.number(), &mut headers);
        }
        let mut defaults = defaults::of(pool, &backend.spec, form.endpoint);
        if let Some(key) = openai::prompt_cache_key(engine, form.endpoint, self.session) {
            defaults.to_mut().push(key);
        }
        let edited = form.body.edited(&Edits {
            model: backend.spec.model_for(form.body.model.as_deref()),
            include_usage: self.asks_usage(backend),
            drop_cache: call.serving.snapshot.policy.caching.is_some(),
            drop: &drop,
            rename: openai::token_limit(engine, form.endpoint),
            replace: None,
            defaults: &defaults,
        });
        let edited = carried_state::in_place(call, form.endpoint, pool, edited).await?;
        let (body, mut dropped) =
            upstream_api::body((engine, &backend.learned), form.endpoint, edited, call.signed_thinking).await?;
        dropped.extend(taken);
        let path = upstream_api::of(engine, form.endpoint).map_or(form.path, |api| api.path());
        let url = address::url(engine, &backend.spec, path, form.query);
        Ok((Outgoing { method: call.method.clone(), url, headers, body }, dropped))
    }

    /// Sends the request and awaits the response head. Returns the names of the hints that were dropped as well.
    ///
    /// A pooled connection may have died unnoticed: if it ends before the first byte of a response, the request is sent
    /// once more on a fresh connection. The retry budget is charged for that, since the backend may have received the
    /// request.
    async fn begin(
        &self,
        pool: &Pool,
        backend: &Backend,
        key: Option<&Secret>,
        meter: &Meter,
    ) -> Result<((http::response::Parts, AnswerBody), Vec<String>), Fault> {
        let (outgoing, dropped) = self.outgoing(pool, backend, key, meter).await?;
        // Boxed, so that it is not moved with each future around it.
        let mut sent = self.upstream(Box::pin(self.job.client.send(outgoing))).await;
        let caller = self.job.call.caller();
        let may_repeat = || self.job.call.is_repeatable() && pool.learned.retries.take(caller);
        if matches!(sent, Err(SendError::Lost(_))) && may_repeat() {
            meter.fresh_connection_retry();
            let (outgoing, _) = self.outgoing(pool, backend, key, meter).await?;
            sent = self.upstream(Box::pin(self.job.client.send_fresh(outgoing))).await;
        }
        let name = self.job.call.serving.snapshot.policy.labels.shown(backend.name());
        match sent {
            Ok(response) => Ok((response.into_parts(), dropped)),
            Err(SendError::Connect(cause)) => {
                let message = format!("the backend '{name}' cannot be reached: {cause}");
                Err(Fault::upstream(StatusCode::SERVICE_UNAVAILABLE, UNREACHABLE, message))
            }
            Err(SendError::NoDescriptor) => {
                Err(Fault::overloaded("this process may open no more connections (raise its limit, `ulimit -n`)"))
            }
            Err(SendError::Lost(cause)) => {
                let message = format!("the backend '{name}' ended the connection before it answered: {cause}");
                Err(Fault::upstream(StatusCode::BAD_GATEWAY, LOST, message))
            }
        }
    }

    /// Reads the answer until it is known to have begun.
    async fn look(
        &self,
        backend: &Backend,
        (head, body): (http::response::Parts, AnswerBody),
        meter: &mut Meter,
    ) -> Result<(http::response::Parts, Answer), Fault> {
        let endpoint = self.form.endpoint;
        let engine = &self.job.call.serving.snapshot.policy.engines[backend.spec.engine];
        let (keys, api) = (&engine.keys, upstream_api::of(engine, endpoint));
        if !head.status.is_success() {
            let body = self.upstream(Limited::new(body, LARGEST_ERROR).collect()).await;
            let body = body.map(http_body_util::Collected::to_bytes).ok();
            let subject = subject(&head, body.as_ref(), self.form, backend);
            let body = body.unwrap_or_default();
            let body = api.map_or(body.clone(), |api| api.error(head.status, &body));
            let fault = refusal(&head, body, keys, || payer(&self.job.call.serving.snapshot, backend));
            if self.job.call.seeks_object && is_absent(&fault) {
                return Err(Fault { kind: ABSENT, blame: Blame::Client, retry: Retry::OtherBackend, ..fault });
            }
            return Err(of_backend(&self.job.call.method, self.form, backend, subject, fault));
        }
        if is_encoded(&head.headers) || self.job.call.method == Method::HEAD {
            // No encoding was requested. An encoded answer cannot be read but can be passed on. An answer to HEAD has
            // no body.
            return Ok((head, Answer::Opaque(body)));
        }
        let spoken = api.map_or(endpoint, UpstreamApi::endpoint);
        let answer = AnswerForm {
            endpoint: spoken,
            creates: self.job.call.method == Method::POST && endpoint.is_root(self.form.path),
            streams: self.job.streams(),
            embeddings: (endpoint == Endpoint::Embeddings).then(|| EmbeddingsRequest::of(self.form.body, self.is_last)),
            keys,
        };
        let named = self.named_model(backend);
        let events = |begun: Bytes, body: AnswerBody| {
            let translator = api.map(|api| (spoken, api.answer(self.form.body.include_usage)));
            Events::new((begun, body), endpoint, translator, meter.metrics(), keys.clone()).naming(named)
        };
        let (mut head, received) = self.upstream(answer.receive((head, body))).await?;
        let mut events = match received {
            Received::Opaque(body) => return Ok((head, Answer::Opaque(body))),
            Received::Stream { begun, body } => events(begun, body),
            Received::Whole { body, .. } if answer.streams && answer.creates => {
                // The engine does not stream. Callers' libraries read nothing but events from here.
                let includes_usage = self.form.body.include_usage || self.asks_usage(backend);
                let begun = answer.streamed(body, includes_usage).await?;
                head.headers.remove(header::CONTENT_LENGTH);
                head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                events(begun, AnswerBody::empty())
            }
            Received::Whole { mut body, usage } => {
                if let Some(api) = api {
                    body = api.whole(&body, keys)?;
                }
                if let Some(renamed) = named.and_then(|model| with_model(endpoint, &body, model)) {
                    head.headers.remove(header::CONTENT_LENGTH);
                    body = renamed.into();
                }
                meter.whole(usage, body.len());
                return Ok((head, Answer::Whole(body)));
            }
        };
        self.upstream(events.commit(|seen| meter.read(seen))).await?;
        Ok((head, Answer::Events { events: Box::new(events), hide_usage: false }))
    }
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity")
}
