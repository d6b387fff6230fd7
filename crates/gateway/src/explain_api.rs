//! Requests that the gateway answers itself: `POST /v1/route/explain` explains the handling of one request, or of many,
//! without sending any; `POST /v1/feedback` and `POST /v1/cache/feedback` record callers' feedback on answers.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Query, State},
    routing::post,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio::sync::Semaphore;

use super::{
    Explanation, Live, Reply, Serving, auth,
    body_memory::Share,
    explain, feedback,
    parse::collect,
    parts::Parts,
    reply,
    unpack::{self, Room},
};
use signalbox_accounting::CallerReservation;
use signalbox_types::{Endpoint, Fault};

/// Limits explanations to one at a time.
static TURN: Semaphore = Semaphore::const_new(1);
/// Maximum number of requests in one inquiry.
const MAX_REQUESTS: usize = 1000;
/// Maximum size of a feedback body, in bytes.
const MAX_FEEDBACK_BYTES: usize = 16 << 10;

/// Explanations and feedback, as a router to merge into the API.
pub struct ExplainApi;

#[derive(Clone)]
struct Shared {
    live: Arc<Live>,
    parts: Arc<Parts>,
}

impl ExplainApi {
    /// Builds the router. It answers by the live policy.
    pub fn router(live: Arc<Live>, parts: Arc<Parts>) -> Router {
        Router::new()
            .route("/v1/route/explain", post(one_or_many))
            .route("/v1/feedback", post(word))
            .route("/v1/cache/feedback", post(word_on_hit))
            .method_not_allowed_fallback(wrong_method)
            .with_state(Shared { live, parts })
    }
}

/// Body with many requests: a list of [`Labelled`].
#[derive(Deserialize)]
struct Many<'a> {
    #[serde(borrow)]
    requests: &'a RawValue,
}

/// A request, and its expected pool if known.
#[derive(Deserialize)]
struct Labelled<'a> {
    #[serde(borrow)]
    request: &'a RawValue,
    label: Option<String>,
}

#[derive(Serialize)]
struct Answers {
    results: Vec<Answer>,
    summary: Summary,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Explained(Box<Explanation>),
    Refused { error: Value },
}

/// Destinations of many requests, as counts.
#[derive(Default, Serialize)]
struct Summary {
    routes: BTreeMap<String, usize>,
    pools: BTreeMap<String, usize>,
    refused: usize,
    /// Labelled requests, by label and pool.
    confusion: BTreeMap<String, BTreeMap<String, usize>>,
    /// Share of the labelled requests that go to the pool of their label.
    accuracy: Option<f64>,
}

/// Explains one request or many. `?endpoint=responses` sets their endpoint; the default is chat.
async fn one_or_many(
    State(Shared { live, parts }): State<Shared>,
    Query(about): Query<Vec<(String, String)>>,
    request: Request<Body>,
) -> Reply {
    let serving = live.load();
    let (head, body) = request.into_parts();
    let key = match auth::check(&serving, &head.headers) {
        Ok(key) => key,
        Err(fault) => return reply(&head.headers, Err(fault)),
    };
    // Explaining is work too, so it counts as a request of its caller.
    let visit = key.map(|at| Visit(CallerReservation::new(serving.caller(at).clone())));
    let entered = match &visit {
        Some(Visit(reservation)) => reservation.enter(parts.clock.now()).await,
        None => Ok(()),
    };
    let explained = match entered {
        Ok(()) => answer(&serving, &parts, (&about, &head.headers, key), body).await,
        Err(fault) => Err(fault),
    };
    let mut reply = reply(&head.headers, explained);
    if let Some(Visit(reservation)) = &visit {
        reservation.write_headers(reply.headers_mut(), parts.clock.now());
    }
    reply
}

/// A caller's inquiry in flight. Dropping it releases the caller's concurrency slot.
struct Visit(CallerReservation);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.release();
    }
}

async fn word(State(shared): State<Shared>, request: Request<Body>) -> Reply {
    take_feedback(&shared, request, feedback::record_feedback).await
}

async fn word_on_hit(State(shared): State<Shared>, request: Request<Body>) -> Reply {
    take_feedback(&shared, request, feedback::record_hit_feedback).await
}

type Recorder = fn(&Serving, &Parts, &HeaderMap, &Bytes) -> Result<feedback::FeedbackReply, Fault>;

async fn take_feedback(Shared { live, parts }: &Shared, request: Request<Body>, by: Recorder) -> Reply {
    let serving = live.load();
    let (head, body) = request.into_parts();
    let result = async {
        auth::check(&serving, &head.headers)?;
        let body = read(&serving, parts, &head.headers, body, MAX_FEEDBACK_BYTES).await?;
        by(&serving, parts, &head.headers, &body)
    };
    reply(&head.headers, result.await.map(|recorded| json(&recorded)))
}

fn reply(headers: &HeaderMap, answer: Result<Vec<u8>, Fault>) -> Reply {
    let id = reply::request_id(headers);
    match answer {
        Ok(body) => {
            let mut reply = Reply::new(Body::from(body));
            reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            reply::put_id(reply.headers_mut(), &id);
            reply
        }
        Err(fault) => reply::reply_to(None, &id, &fault),
    }
}

async fn read(serving: &Serving, parts: &Parts, headers: &HeaderMap, body: Body, most: usize) -> Result<Bytes, Fault> {
    let limits = &serving.snapshot.policy.limits;
    let encodings = unpack::encodings(headers)?;
    let room = Room { one: limits.body.min(most), all: limits.bodies };
    let body = collect(body, room.one, room.all, Share::new(parts.held.clone())).await?;
    unpack::unpack(encodings, &mut headers.clone(), body, room, &parts.held).await
}

fn endpoint(about: &[(String, String)]) -> Result<Endpoint, Fault> {
    if let Some((odd, _)) = about.iter().find(|(name, _)| name != "endpoint") {
        return Err(Fault::field(odd.clone(), format!("there is no '{odd}' to ask by: only 'endpoint'")));
    }
    let name = match about {
        [] => return Ok(Endpoint::Chat),
        [(_, name)] => name,
        _ => return Err(Fault::field("endpoint", "'endpoint' is given more than once")),
    };
    Endpoint::of_name(name).ok_or_else(|| {
        let known = Endpoint::ALL.map(Endpoint::name).join(", ");
        Fault::field("endpoint", format!("'{name}' is no endpoint; there are {known}"))
    })
}

async fn answer(
    serving: &Arc<Serving>,
    parts: &Arc<Parts>,
    (about, headers, key): (&[(String, String)], &HeaderMap, Option<usize>),
    body: Body,
) -> Result<Vec<u8>, Fault> {
    let endpoint = endpoint(about)?;
    let bytes = read(serving, parts, headers, body, usize::MAX).await?;
    let labels = serving.snapshot.policy.labels.clone();
    // Tokens may have to be counted, which takes milliseconds: that runs on a blocking thread, one explanation at a
    // time.
    let explained = async |body: Bytes| {
        let _turn = TURN.acquire().await;
        let (parts, serving, headers) = (parts.clone(), serving.clone(), headers.clone());
        let aside = tokio::task::spawn_blocking(move || explain(&parts, &serving, endpoint, &headers, key, body));
        let failed = |_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "explaining failed");
        aside.await.map_err(failed)?.map(|explanation| explanation.labelled(&labels))
    };
    // An inquiry about one request is that request itself. One about many is an object with `requests`, which no
    // request has.
    let Ok(Many { requests }) = serde_json::from_slice(&bytes) else { return Ok(json(&explained(bytes).await?)) };
    let many: Vec<Labelled<'_>> = serde_json::from_str(requests.get()).map_err(|error| {
        let form = "'requests' is a list of {\"request\": {…}, \"label\": \"…\"}, the label where it is known";
        Fault::field("requests", format!("{form}: {error}"))
    })?;
    if many.len() > MAX_REQUESTS {
        let message = format!("{} requests at once are more than the {MAX_REQUESTS} that are explained", many.len());
        return Err(Fault::field("requests", message));
    }
    let mut summary = Summary::default();
    let mut results = Vec::with_capacity(many.len());
    for Labelled { request, label } in many {
        let asked = Bytes::copy_from_slice(request.get().as_bytes());
        match explained(asked).await {
            Ok(explanation) => {
                summary.count(&explanation, label);
                results.push(Answer::Explained(Box::new(explanation)));
            }
            Err(fault) => {
                summary.refused += 1;
                if let Some(label) = label {
                    *summary.confusion.entry(label).or_default().entry("refused".to_owned()).or_default() += 1;
                }
                results.push(Answer::Refused { error: shown(&fault) });
            }
        }
    }
    Ok(json(&Answers { results, summary: summary.finished() }))
}

impl Summary {
    fn count(&mut self, explanation: &Explanation, label: Option<String>) {
        let pool = explanation.pools.first().map_or_else(String::new, |pool| pool.pool.to_string());
        *self.routes.entry(explanation.route.to_string()).or_default() += 1;
        if let Some(label) = label {
            *self.confusion.entry(label).or_default().entry(pool.clone()).or_default() += 1;
        }
        *self.pools.entry(pool).or_default() += 1;
    }

    fn finished(mut self) -> Self {
        let labelled: usize = self.confusion.values().flat_map(BTreeMap::values).sum();
        let right: usize = self.confusion.iter().filter_map(|(label, pools)| pools.get(label)).sum();
        self.accuracy = (labelled > 0).then(|| right as f64 / labelled as f64);
        self
    }
}

fn shown(fault: &Fault) -> Value {
    let body = signalbox_protocol::error::body(None, fault);
    let error = serde_json::from_slice::<Value>(&body).ok();
    error.and_then(|mut body| body.get_mut("error").map(Value::take)).unwrap_or_default()
}

async fn wrong_method(method: Method, headers: HeaderMap) -> Reply {
    let fault = reply::bad_method(format!("this is asked by POST, not {method}"));
    reply::reply_to(None, &reply::request_id(&headers), &fault)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Serializing into memory cannot fail. An empty object would still be an answer.
    serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec())
}
