//! The steps of the gateway before scripted engines, in memory and on paused time.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    Live, Parts, Reply, Serving, Step,
    admit::Admit,
    dispatch::Dispatch,
    estimate::Estimation,
    limit::Limit,
    parse::Parse,
    record::Record,
    route::Routing,
    stages::{Admitted, Arrival, Authed, Missed, Routed},
};
use signalbox_config::Config;
use signalbox_fleet::{Registry, Snapshot};
use signalbox_journal::JournalEntry;
use signalbox_policy::{Policy, compile};
use signalbox_prompt::tokens::TokenizerSlot;
use signalbox_types::{Clock, Endpoint, Fault};
use signalbox_upstream::{AnswerBody, Client, SendError, outgoing::Outgoing};

/// Pause between two events of a scripted stream.
pub(super) const PACE: Duration = Duration::from_millis(10);

/// Host of answers that any engine without its own gives.
pub(super) const ANY: &str = "*";

/// Scripted answer of an engine.
#[derive(Clone)]
pub(super) struct Answer {
    /// Time until the head.
    after: Duration,
    head: Head,
    /// Parts of the body, each with the pause before it.
    parts: Vec<(Duration, String)>,
    end: End,
}

#[derive(Clone)]
enum Head {
    Status(StatusCode, Vec<(&'static str, &'static str)>),
    Unreachable,
    Lost,
}

#[derive(Copy, Clone)]
enum End {
    Complete,
    /// The connection breaks.
    Cut,
    /// Nothing follows.
    Silence,
}

impl Answer {
    /// Streams a chat of these tokens, of which the first comes after this time.
    pub(super) fn stream(after: Duration, tokens: &[&str]) -> Self {
        let mut parts: Vec<_> = tokens.iter().map(|token| (PACE, chunk(&json!({ "content": token }), None))).collect();
        parts.push((PACE, chunk(&json!({}), Some("stop"))));
        parts.push((Duration::ZERO, "data: [DONE]\n\n".to_owned()));
        parts[0].0 = after;
        Self::of(&[("content-type", "text/event-stream")], parts)
    }

    /// Answers with one chat completion of this text.
    pub(super) fn whole(after: Duration, text: &str) -> Self {
        let choice =
            json!({ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" });
        let usage = json!({ "prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12 });
        let body = json!({ "id": "w", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage });
        Self { after, ..Self::of(&[("content-type", "application/json")], vec![(Duration::ZERO, body.to_string())]) }
    }

    /// Answers with an error of this status.
    pub(super) fn status(status: u16, headers: &[(&'static str, &'static str)]) -> Self {
        let body = json!({ "error": { "message": format!("scripted {status}") } });
        let status = StatusCode::from_u16(status).unwrap();
        Self { head: Head::Status(status, headers.to_vec()), ..Self::of(&[], vec![(Duration::ZERO, body.to_string())]) }
    }

    /// Answers with this error body.
    pub(super) fn refusal(status: u16, body: &str) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        let head = Head::Status(status, vec![("content-type", "application/json")]);
        Self { head, ..Self::of(&[], vec![(Duration::ZERO, body.to_owned())]) }
    }

    /// Accepts no connection.
    pub(super) fn unreachable() -> Self {
        Self { head: Head::Unreachable, ..Self::of(&[], Vec::new()) }
    }

    /// Ends the connection before an answer.
    pub(super) fn lost() -> Self {
        Self { head: Head::Lost, ..Self::of(&[], Vec::new()) }
    }

    /// Sends the head and nothing else.
    pub(super) fn silent() -> Self {
        Self { end: End::Silence, ..Self::of(&[("content-type", "text/event-stream")], Vec::new()) }
    }

    /// Takes this time until the head.
    pub(super) fn later(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// Breaks off after so many parts.
    pub(super) fn cut(mut self, parts: usize) -> Self {
        self.parts.truncate(parts);
        Self { end: End::Cut, ..self }
    }

    fn of(headers: &[(&'static str, &'static str)], parts: Vec<(Duration, String)>) -> Self {
        let head = Head::Status(StatusCode::OK, headers.to_vec());
        Self { after: Duration::ZERO, head, parts, end: End::Complete }
    }

    async fn play(self) -> Result<http::Response<AnswerBody>, SendError> {
        sleep(self.after).await;
        let (status, headers) = match self.head {
            Head::Unreachable => return Err(SendError::Connect("scripted".into())),
            Head::Lost => return Err(SendError::Lost("scripted".into())),
            Head::Status(status, headers) => (status, headers),
        };
        let parts = stream::iter(self.parts).then(|(pause, part)| async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            Ok::<_, std::io::Error>(Bytes::from(part))
        });
        let end = match self.end {
            End::Complete => stream::empty().boxed(),
            End::Cut => stream::iter([Err(std::io::Error::other("scripted"))]).boxed(),
            End::Silence => stream::pending().boxed(),
        };
        let mut response = http::Response::new(AnswerBody::from(reqwest::Body::wrap_stream(parts.chain(end))));
        *response.status_mut() = status;
        for (name, value) in headers {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        Ok(response)
    }
}

/// An event of a streamed chat.
pub(super) fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    let chunk =
        json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
    format!("data: {chunk}\n\n")
}

/// A chat request for the model `m`.
pub(super) fn chat(stream: bool) -> Value {
    json!({ "model": "m", "stream": stream, "temperature": 0, "messages": [{ "role": "user", "content": "hi" }] })
}

/// A request as an engine got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) host: String,
    /// Time since the gateway's start.
    pub(super) at: Duration,
    pub(super) body: Bytes,
}

/// The parts of a gateway before scripted engines.
pub(super) struct TestGateway {
    pub(super) parts: Arc<Parts>,
    pub(super) live: Arc<Live>,
    pub(super) client: Client,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl TestGateway {
    /// Starts with the policy in `text`. An engine with the host in its URL gives its answers in order, and the last one
    /// again and again.
    pub(super) fn new(text: &str, engines: &[(&str, &[Answer])]) -> Self {
        Self::with(compile(&text.parse::<Config>().unwrap()).unwrap(), engines)
    }

    pub(super) fn with(policy: Policy, engines: &[(&str, &[Answer])]) -> Self {
        // Random choices are the same in every run.
        fastrand::seed(0);
        let parts = Arc::new(Parts::new(Clock::start()));
        parts.apply_policy(&policy);
        let serving: Serving =
            parts.serving(Snapshot::new(policy, &Registry::default()), |_| Arc::new(TokenizerSlot::learned()));
        let answers = engines.iter().map(|(host, answers)| ((*host).to_owned(), answers.iter().cloned().collect()));
        let answers: Mutex<HashMap<String, VecDeque<Answer>>> = Mutex::new(answers.collect());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, began) = (asked.clone(), Instant::now());
        let client = Client::scripted(move |Outgoing { url, body, .. }| {
            let host = url.split('/').nth(2).unwrap_or_default().to_owned();
            let body = Bytes::copy_from_slice(body.as_bytes().unwrap_or_default());
            let mut answers = answers.lock();
            let script = if answers.contains_key(&host) { &*host } else { ANY };
            let left = answers.get_mut(script).unwrap();
            let answer = if left.len() > 1 { left.pop_front() } else { left.front().cloned() };
            log.lock().push(Asked { host, at: began.elapsed(), body });
            answer.unwrap().play()
        });
        Self { parts, live: Arc::new(Live::new(serving)), client, asked }
    }

    /// The requests that engines got.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    /// Hosts of the requests that engines got, with the milliseconds since the gateway's start.
    pub(super) fn hosts(&self) -> Vec<(String, u128)> {
        self.asked().into_iter().map(|asked| (asked.host, asked.at.as_millis())).collect()
    }

    /// Passes a chat through the steps before the lookup.
    pub(super) async fn routed(&self, body: &Value, headers: &[(&'static str, &'static str)]) -> Routed {
        let Parts { clock, accounting, estimator, held, routing, settlement, .. } = &*self.parts;
        let routed = Capture::default();
        let steps = Routing::new(routed.clone(), routing.clone());
        let steps = Estimation::new(steps, *clock, estimator.clone(), accounting.clone());
        let steps = Parse::new(steps, *clock, held.clone());
        let mut request = http::Request::post("/v1/chat/completions").header(header::CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let record = Record::open(settlement.clone(), "id".into(), Endpoint::Chat, None, None);
        let request = request.body(Body::from(body.to_string())).unwrap();
        let arrival =
            Arrival { endpoint: Endpoint::Chat, deployment: None, serving: self.live.load(), record, request };
        steps.call(Authed { arrival, key: None }).await.unwrap();
        routed.take()
    }

    /// Passes a chat through the steps before dispatch.
    pub(super) async fn admitted(&self, body: &Value) -> Admitted {
        let Parts { clock, placement, .. } = &*self.parts;
        let admitted = Capture::default();
        let steps = Limit::new(Admit::new(admitted.clone(), placement.clone(), Arc::default()), *clock);
        steps.call(Missed(self.routed(body, &[]).await)).await.unwrap();
        admitted.take()
    }

    /// Dispatches a chat, and settles it if it fails.
    pub(super) async fn dispatched(&self, body: &Value) -> Result<Reply, Fault> {
        let admitted = self.admitted(body).await;
        let record = admitted.call.record.clone();
        let dispatch = Dispatch::new(self.client.clone());
        dispatch.call(admitted).await.inspect_err(|fault| record.fail(fault))
    }

    /// Entry of the request that was settled last.
    pub(super) fn entry(&self) -> Arc<JournalEntry> {
        self.parts.decisions.last(1).remove(0)
    }
}

/// A last step that keeps the request.
struct Capture<T>(Arc<Mutex<Option<T>>>);

impl<T> Capture<T> {
    fn take(&self) -> T {
        self.0.lock().take().unwrap()
    }
}

impl<T> Default for Capture<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Capture<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static> Step<T> for Capture<T> {
    async fn call(&self, request: T) -> Result<Reply, Fault> {
        *self.0.lock() = Some(request);
        Ok(Reply::default())
    }
}

/// Reads the body of a reply to its end.
pub(super) async fn text(reply: Reply) -> String {
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Text of a header; empty if it is missing.
pub(super) fn header_of<'a>(reply: &'a Reply, name: &str) -> &'a str {
    reply.headers().get(name).map_or("", |value| value.to_str().unwrap())
}
