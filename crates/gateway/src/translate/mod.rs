//! Translation: a request of another API is converted to the internal one, chat completions, and its answer back.
//!
//! Between the two, every step sees a chat request, so that each feature exists once and works for every API. A request
//! whose pools all speak the caller's API is not translated, and its bytes pass through unchanged. Where only some of
//! them do, the original request goes along, and a backend that speaks its API gets it.

mod body;
mod count;
mod state_store;

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};

use self::{body::TranslatedBody, state_store::StateStore};
use super::{
    Reply, Step,
    reply::{is_events, put_dropped},
    stages::{Call, OriginalRequest, Routed, Translated},
    stored_responses::new_state_root,
};
use signalbox_policy::{Route, Target};
use signalbox_protocol::{LONG_BODY, RequestBody};
use signalbox_translation::{AnswerContext, CallerApi, ChatRequest, Unsupported, messages::ThinkingDisplay};
use signalbox_types::{Endpoint, Fault, wall_clock};

/// Path of the internal API.
const CHAT_PATH: &str = "/v1/chat/completions";
/// Largest whole answer that is translated, in bytes. Larger ones are rejected before, by dispatch.
const MAX_ANSWER: usize = 64 << 20;

pub(super) struct Translation<S> {
    inner: S,
    states: Arc<StateStore>,
}

impl<S> Translation<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, states: Arc::default() }
    }
}

impl<S: Step<Translated>> Step<Routed> for Translation<S> {
    async fn call(&self, routed: Routed) -> Result<Reply, Fault> {
        match CallerApi::of(routed.call.endpoint).filter(|_| is_needed(&routed)) {
            None => self.inner.boxed(Translated(routed)).await,
            Some(api) if routed.call.counts_tokens() => count::reply(api, routed).await,
            // Boxed, so that the futures of requests in the internal API stay small.
            Some(api) => Box::pin(self.translate(api, routed)).await,
        }
    }
}

impl<S: Step<Translated>> Translation<S> {
    async fn translate(&self, api: CallerApi, mut routed: Routed) -> Result<Reply, Fault> {
        let record = routed.call.record.clone();
        let began = record.clock().now();
        let context = AnswerContext {
            prompt_tokens: routed.explained.prompt_tokens[1],
            model: routed.call.body.model.clone(),
            states: self.states.of(routed.call.caller()),
            thinking: ThinkingDisplay::of(routed.call.body.member("thinking")),
            id: new_state_root(),
            held: routed.call.held.clone(),
            now: || wall_clock::seconds().unsigned_abs(),
        };
        let translated = read(api, &routed.call.body, context).await;
        if translated.is_err() && keep_speaking(&mut routed) {
            return self.inner.boxed(Translated(routed)).await;
        }
        let (body, ChatRequest { dropped, signed, carries_state, answer: mut translator, .. }) = translated?;
        routed.call.signed_thinking = signed;
        routed.call.carries_state = carries_state;
        let keeps_original = targets(&routed).any(|target| speaks(&routed.call, target));
        to_chat(&mut routed.call, body, keeps_original);
        record.took("translate", began);
        let settling = record.hold();
        let mut reply = self.inner.boxed(Translated(routed)).await.map_err(|fault| in_api(api, fault))?;
        let headers = reply.headers_mut();
        headers.insert("x-signalbox-translated", HeaderValue::from_static(api.endpoint().name()));
        put_dropped(headers, &dropped);
        if is_events(reply.headers()) {
            reply.headers_mut().remove(header::CONTENT_LENGTH);
            let native = keeps_original.then_some(api.endpoint());
            return Ok(reply.map(|inner| Body::new(TranslatedBody::new(inner, translator, (record, settling), native))));
        }
        let is_native = record.served().is_some_and(|served| served.endpoint == api.endpoint());
        if is_native || !reply.status().is_success() {
            return Ok(reply);
        }
        let (mut head, body) = reply.into_parts();
        let unreadable = |cause: &str| {
            let fault = unreadable(cause);
            record.progress().head(fault.status);
            settling.break_off(&fault);
            fault
        };
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| unreadable(&error.to_string()))?;
        if let Some(served) = record.served() {
            translator.served_by(&served.pool);
        }
        let body = translator.whole(&body.to_bytes()).map_err(|error| unreadable(&error.to_string()))?;
        settling.translated();
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Reply::from_parts(head, Body::from(body)))
    }
}

/// True if a request creates an answer and a pool that may serve it does not speak its API.
fn is_needed(routed: &Routed) -> bool {
    let call = &routed.call;
    call.creates() && targets(routed).any(|target| !speaks(call, target))
}

/// The targets that may serve a request, the larger one of a cascade included.
fn targets(routed: &Routed) -> impl Iterator<Item = &Target> {
    routed.route.targets.iter().chain(routed.route.cascade.as_ref().map(|cascade| &cascade.to))
}

fn speaks(call: &Call, target: &Target) -> bool {
    call.serving.snapshot.pools[target.pool].speaks(call.endpoint)
}

/// Leaves out the targets that do not speak the API of the request, which theirs cannot express. Returns false if that would
/// leave none.
fn keep_speaking(routed: &mut Routed) -> bool {
    let mut route = Route::clone(&routed.route);
    route.targets.retain(|target| speaks(&routed.call, target));
    route.cascade = route.cascade.filter(|cascade| speaks(&routed.call, &cascade.to));
    let is_any = !route.targets.is_empty();
    if is_any {
        routed.route = Arc::new(route);
    }
    is_any
}

/// Converts the body. A long one is converted on a blocking thread, since it would hold up a worker.
async fn read(api: CallerApi, body: &RequestBody, context: AnswerContext) -> Result<(RequestBody, ChatRequest), Fault> {
    let bytes = body.bytes().clone();
    let convert = move || {
        let mut chat = api.to_chat(&bytes, &context).map_err(|unsupported| refused(api, &unsupported))?;
        Ok((RequestBody::json(Endpoint::Chat, std::mem::take(&mut chat.body).into())?, chat))
    };
    if body.bytes().len() <= LONG_BODY {
        return convert();
    }
    let failed = |_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "translating the body failed");
    tokio::task::spawn_blocking(convert).await.map_err(failed)?
}

/// Turns the call into one of the internal API.
fn to_chat(call: &mut Call, body: RequestBody, keeps_original: bool) {
    let body = std::mem::replace(&mut call.body, body);
    let path = std::mem::replace(&mut call.path, CHAT_PATH.to_owned());
    let endpoint = std::mem::replace(&mut call.endpoint, Endpoint::Chat);
    let query = call.query.take();
    if keeps_original {
        call.original = Some(OriginalRequest { endpoint, path, query, body }.into());
    }
}

fn refused(api: CallerApi, unsupported: &Unsupported) -> Fault {
    let message = format!("{} ('{}' is translated for these backends)", unsupported.message, api.endpoint().name());
    let fault = Fault::field(unsupported.param.clone(), message);
    match &*unsupported.param {
        "thread" => fault.with_code("thread_unsupported_request"),
        "previous_response_id" => fault.with_code("previous_response_not_found"),
        _ => fault.with_code("unsupported_parameter"),
    }
}

/// Converts the error of a backend that is passed on as it came.
fn in_api(api: CallerApi, mut fault: Fault) -> Fault {
    if let Some(unmasked) = &mut fault.unmasked {
        unmasked.body = api.error(fault.status.as_u16(), &unmasked.body).into();
        unmasked.headers.remove(header::CONTENT_LENGTH);
        unmasked.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    fault
}

fn unreadable(cause: &str) -> Fault {
    Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", format!("the backend's answer is not usable: {cause}"))
}
