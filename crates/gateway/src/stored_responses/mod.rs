//! Stored responses and conversations: the state of the Responses API, held by the gateway for callers before backends
//! that speak only chat.
//!
//! | part | file |
//! |---|---|
//! | the step, and which requests it answers | this file |
//! | items in place of what a request refers to | `resolve` |
//! | storage of answers | `capture` |
//! | retrieval and deletion of responses | `objects` |
//! | conversations | `conversations` |
//! | requests for stored state | `state_request` |
//! | ids | `new_id` |
//! | errors | `faults` |
//!
//! The step stands before the estimate and the route, which so see the whole prompt. Ids of the gateway have a form of
//! their own; an id of another form belongs to a provider and passes, if a backend speaks the API. A request with an id
//! of the gateway becomes one that needs no state, which backends of either kind take. The response of a backend that
//! speaks the API is stored there, not here; a conversation of the gateway gets its items in any case.

mod capture;
mod conversations;
mod faults;
mod new_id;
mod objects;
mod resolve;
mod state_request;

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Method, StatusCode, header};

pub(super) use self::new_id::new_state_root;
use self::{
    capture::{Capture, Turn},
    resolve::{Resolved, Resolver},
    state_request::{Held, Place},
};
use super::{
    Reply, Step,
    body_memory::BodyMemory,
    record::Parsed,
    reply::{is_events, put_id},
    stages::Call,
};
use signalbox_answers::Answers;
use signalbox_protocol::LONG_BODY;
use signalbox_types::{Clock, Endpoint, Fault, Outcome};

/// Characters of a model's name that records keep.
const SHOWN_MODEL: usize = 256;

pub(super) struct StoredResponses<S> {
    inner: S,
    clock: Clock,
    answers: Arc<Answers>,
    memory: Arc<BodyMemory>,
}

impl<S> StoredResponses<S> {
    pub(super) fn new(inner: S, clock: Clock, answers: Arc<Answers>, memory: Arc<BodyMemory>) -> Self {
        Self { inner, clock, answers, memory }
    }
}

impl<S: Step<Call>> Step<Call> for StoredResponses<S> {
    async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let is_on = call.serving.snapshot.policy.responses.memory > 0;
        if call.endpoint != Endpoint::Responses || !is_on {
            return self.inner.boxed(call).await;
        }
        let is_new = call.method == Method::POST && call.creates();
        if is_new {
            return Box::pin(self.create(call)).await;
        }
        let held = Held { answers: self.answers.clone(), owner: call.caller().cloned(), now: self.clock.now(), call };
        if !held.is_held_here() {
            return self.inner.boxed(held.call).await;
        }
        // A response may have thousands of items.
        let task = tokio::task::spawn_blocking(move || (answer(&held), held.call));
        let failed =
            |_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "reading the stored responses failed");
        let (answer, call) = task.await.map_err(failed)?;
        Ok(reply(&call, answer?))
    }
}

impl<S: Step<Call>> StoredResponses<S> {
    /// Resolves what a request for a response refers to, and stores its answer.
    async fn create(&self, mut call: Call) -> Result<Reply, Fault> {
        let pools = &call.serving.snapshot.pools;
        let policy = &call.serving.snapshot.policy;
        let resolver = Resolver {
            answers: self.answers.clone(),
            owner: call.caller().cloned(),
            now: self.clock.now(),
            is_alone: !pools.iter().any(|pool| pool.speaks(Endpoint::Responses)),
            memory: self.memory.clone(),
            most: policy.limits.body,
            most_of_all: policy.limits.bodies,
            capacity: policy.responses.memory,
            captures: !call.counts_tokens() && !pools.iter().all(|pool| pool.speaks(Endpoint::Responses)),
        };
        let Resolved { body, input, earlier, held } = resolve(resolver, &call).await?;
        if let Some(body) = body {
            let model = body.model.as_ref().map(|model| model.chars().take(SHOWN_MODEL).collect());
            let parsed = Parsed { model, stream: body.stream, prompt_bytes: body.prompt_bytes };
            call.record.progress().parsed(parsed);
            call.body = body;
        }
        let turn = Turn {
            answers: self.answers.clone(),
            clock: self.clock,
            record: call.record.clone(),
            owner: call.caller().cloned(),
            stores: held.stores,
            conversation: held.conversation.clone(),
            input,
            earlier,
        };
        let counts = call.counts_tokens();
        call.held = Some(held.into());
        let reply = self.inner.boxed(call).await?;
        let is_translated = reply.headers().contains_key("x-signalbox-translated");
        let is_wanted = turn.stores && is_translated || turn.conversation.is_some();
        if counts || !is_wanted || reply.status() != StatusCode::OK {
            return Ok(reply);
        }
        let is_events = is_events(reply.headers());
        Ok(reply.map(|inner| Body::new(Capture::new(inner, turn, is_events, is_translated))))
    }
}

/// Resolves a request. One with a long body, or with a history, is resolved on a blocking thread.
async fn resolve(resolver: Resolver, call: &Call) -> Result<Resolved, Fault> {
    let has_history = ["previous_response_id", "conversation"].iter().any(|name| call.body.member(name).is_some());
    if call.body.bytes().len() <= LONG_BODY && !has_history {
        return resolver.resolve(&call.body);
    }
    let body = call.body.clone();
    let failed =
        |_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "reading the stored responses failed");
    tokio::task::spawn_blocking(move || resolver.resolve(&body)).await.map_err(failed)?
}

/// The answer to a request for stored state.
fn answer(held: &Held) -> Result<String, Fault> {
    match Place::of(&held.call.path) {
        Some(Place::Response(id, below)) => objects::answer(held, id, below),
        Some(Place::Conversations) => conversations::create(held),
        Some(Place::Conversation(id, below)) => conversations::answer(held, id, below),
        None => Err(faults::unknown_path(&held.call.method, &held.call.path)),
    }
}

/// Answers a request without a backend, and settles it.
fn reply(call: &Call, body: String) -> Reply {
    let mut reply = Reply::new(Body::from(body));
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    put_id(reply.headers_mut(), &call.record.id());
    call.record.progress().head(StatusCode::OK);
    call.record.settle(Outcome::Complete);
    reply
}
