//! HTTP target: sends chat requests and reads the answers as they arrive.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::{BodyExt, Limited};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{Answer, Ask, Failure, Target, prompt::prompt};
use signalbox_protocol::{Event, EventReader, Splitter, answer};
use signalbox_types::Endpoint;
use signalbox_upstream::{
    AnswerBody, Client, SendError,
    outgoing::{Outgoing, causes},
};

/// Most bytes of an event and of a whole answer.
const EVENT_BYTES: usize = 16 << 20;
const WHOLE_BYTES: usize = 64 << 20;
/// Most bytes of an error body that are read.
const REFUSAL_BYTES: usize = 64 << 10;

/// Sets the answer length of simulated engines; other servers ignore it.
const OUTPUT_TOKENS: HeaderName = HeaderName::from_static("x-sim-output-tokens");

/// Target of the requests.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// Base URL of the API, such as `http://127.0.0.1:4100/v1`.
    pub base: String,
    /// API key, if any.
    pub key: Option<String>,
    /// Model of the requests.
    pub model: String,
    /// Additional headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Additional or replaced members of the body; `null` removes one.
    pub body: Map<String, Value>,
    /// Seed of the prompts.
    pub seed: u64,
}

/// A server with the chat API.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client,
    url: String,
    model: String,
    headers: HeaderMap,
    body: Map<String, Value>,
    seed: u64,
}

/// The key is not a valid header value.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has characters that a header cannot carry")]
pub struct OddKey;

/// Authentication headers for a key.
pub(super) fn shown(key: Option<&str>) -> Result<HeaderMap, OddKey> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| OddKey)?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

impl Http {
    /// A target for `set_up` over `client`.
    pub fn new(client: Client, set_up: SetUp) -> Result<Self, OddKey> {
        let SetUp { base, key, model, headers: more, body, seed } = set_up;
        let mut headers = shown(key.as_deref())?;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(more);
        Ok(Self { client, url: format!("{base}/chat/completions"), model, headers, body, seed })
    }

    fn outgoing(&self, ask: &Ask) -> Outgoing {
        let mut body = json!({
            "model": self.model,
            "messages": [{ "role": "user", "content": prompt(ask, self.seed) }],
            "max_tokens": ask.output_tokens,
            "stream": !ask.whole,
        });
        if let Value::Object(body) = &mut body {
            if !ask.whole {
                body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
            }
            body.extend(self.body.clone());
            body.retain(|_, value| !value.is_null());
        }
        let mut headers = self.headers.clone();
        headers.insert(OUTPUT_TOKENS, ask.output_tokens.into());
        Outgoing { method: Method::POST, url: self.url.clone(), headers, body: body.to_string().into() }
    }
}

impl Target for Http {
    async fn ask(&self, ask: &Ask) -> Answer {
        let outgoing = self.outgoing(ask);
        let mut answer = Answer::new(Instant::now());
        let (head, body) = match self.client.send(outgoing).await {
            Ok(response) => response.into_parts(),
            Err(SendError::Connect(message)) => return answer.ended(Some(Failure::Connect(message))),
            Err(error @ SendError::NoDescriptor) => return answer.ended(Some(Failure::Connect(error.to_string()))),
            Err(SendError::Lost(message)) => return answer.ended(Some(Failure::Lost(message))),
        };
        if !head.status.is_success() {
            let said = Limited::new(body, REFUSAL_BYTES).collect().await;
            let said = said.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
            return answer.ended(Some(Failure::refusal(head.status.as_u16(), &said)));
        }
        let starts = |name: &str, word: &str| {
            head.headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with(word))
        };
        answer.simulated = starts("x-signalbox-simulated", "true");
        answer.replayed = starts("x-signalbox-cache", "hit") || starts("x-signalbox-cache", "coalesced");
        let failure = if ask.whole { whole(body, &mut answer).await } else { stream(body, &mut answer).await };
        answer.ended(failure.err())
    }
}

async fn whole(body: AnswerBody, answer: &mut Answer) -> Result<(), Failure> {
    let body = Limited::new(body, WHOLE_BYTES).collect().await.map_err(|error| Failure::Cut(causes(&*error)))?;
    let invalid = |_| Failure::Invalid("the answer is not JSON".to_owned());
    answer.usage = answer::read_whole(Endpoint::Chat, &body.to_bytes()).map_err(invalid)?.usage;
    Ok(())
}

/// Reads a stream to the end of its body, also after `[DONE]`: only then has the server recorded it.
async fn stream(mut body: AnswerBody, answer: &mut Answer) -> Result<(), Failure> {
    let mut splitter = Splitter::new(EVENT_BYTES);
    let mut reader = EventReader::new(Endpoint::Chat);
    let mut complete = false;
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(_) if complete => break,
            Err(error) => return Err(Failure::Cut(causes(&error))),
        };
        let Ok(chunk) = frame.into_data() else { continue };
        let now = Instant::now();
        splitter.feed(chunk);
        while let Some(event) = splitter.next_event().map_err(|error| Failure::Invalid(error.to_string()))? {
            complete |= read(&mut reader, &event, answer, now)?;
        }
    }
    if let Some(event) = splitter.rest() {
        complete |= read(&mut reader, &event, answer, Instant::now())?;
    }
    match answer.first {
        _ if !complete => Err(Failure::Cut("the stream ended without `[DONE]` or a finish reason".to_owned())),
        None => Err(Failure::Empty),
        Some(_) => Ok(()),
    }
}

/// Adds an event; true if the answer is complete with it.
fn read(reader: &mut EventReader, event: &Event, answer: &mut Answer, now: Instant) -> Result<bool, Failure> {
    let Some(data) = event.data() else { return Ok(false) };
    let seen = reader.read(&data);
    if let Some(error) = seen.error {
        return Err(Failure::InStream(error.message));
    }
    if seen.broken {
        return Err(Failure::Invalid("an event of the stream is not JSON".to_owned()));
    }
    if seen.token {
        answer.token(now);
    }
    answer.reasoning |= seen.reasoning;
    answer.usage = seen.usage.or(answer.usage);
    Ok(seen.done || seen.finished)
}
