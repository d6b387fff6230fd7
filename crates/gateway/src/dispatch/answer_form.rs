//! Receives an answer with a success status, and tells what it is: a stream, a document, or neither.
//!
//! The head does not tell it. Engines and relays label streams as JSON or text, answer a request for a stream with a
//! document or the reverse, and report errors with the status 200. Callers' libraries look at none of that, so each such
//! answer would fail there, with a healthy backend beside it.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header, response::Parts};
use http_body_util::{BodyExt, Limited};

use super::upstream_fault::garbage;
use crate::{
    refusal::reported,
    relay::{cut, is_generation},
    reply::is_events,
};
use signalbox_policy::Secret;
use signalbox_protocol::{
    EmbeddingsRequest, Event, LONG_BODY,
    answer::{self, WholeAnswer, WholeFailure},
    events_of_whole, whole_of_events,
};
use signalbox_types::{Endpoint, Fault, Usage};
use signalbox_upstream::AnswerBody;

/// Largest whole answer that is buffered to be checked, in bytes.
const LARGEST_ANSWER: usize = 64 << 20;
/// Most bytes in which the beginning of a stream is looked for.
const MOST_LOOKED_AT: usize = 4 << 10;

/// The form in which an answer is wanted.
pub(super) struct AnswerForm<'a> {
    /// The API that the backend speaks.
    pub(super) endpoint: Endpoint,
    /// The request creates an answer, rather than reads or lists something.
    pub(super) creates: bool,
    /// It asks for a stream.
    pub(super) streams: bool,
    /// The request, if it asks for embeddings.
    pub(super) embeddings: Option<EmbeddingsRequest>,
    /// The provider's keys, which callers never see.
    pub(super) keys: &'a [Secret],
}

/// An answer that was received, or has begun to be.
pub(super) enum Received {
    /// Events, the first bytes of which may have arrived.
    Stream { begun: Bytes, body: AnswerBody },
    /// A document, which is an answer.
    Whole { body: Bytes, usage: Option<Usage> },
    /// Bytes that are passed on unread.
    Opaque(AnswerBody),
}

impl AnswerForm<'_> {
    /// Receives the answer as far as its form shows. The head is corrected to say that form.
    ///
    /// # Errors
    /// The fault of the backend, if the answer is an error, empty or unreadable.
    pub(super) async fn receive(&self, (mut head, body): (Parts, AnswerBody)) -> Result<(Parts, Received), Fault> {
        let generates = self.creates && is_generation(self.endpoint);
        let is_labelled = is_events(&head.headers);
        if is_labelled && !generates {
            return Ok((head, Received::Stream { begun: Bytes::new(), body }));
        }
        if is_labelled && !self.streams {
            let stream = collect(Bytes::new(), body).await?;
            let document = self.document(stream).await?;
            label(&mut head, "application/json");
            return Ok((head, self.checked(document).await?));
        }
        let mut begun = Bytes::new();
        let mut body = body;
        if generates && self.streams {
            let form;
            (begun, form) = self.beginning(&mut body, is_labelled).await?;
            match form {
                Form::Stream => {
                    if !is_labelled {
                        label(&mut head, "text/event-stream");
                    }
                    return Ok((head, Received::Stream { begun, body }));
                }
                Form::WholeEvent(document) => {
                    label(&mut head, "application/json");
                    return Ok((head, self.checked(document).await?));
                }
                Form::Document => label(&mut head, "application/json"),
            }
        } else if !is_whole(self.endpoint, &head.headers) {
            return Ok((head, Received::Opaque(body)));
        }
        let mut document = collect(begun, body).await?;
        if generates && Event::begins_stream(&document) == Some(true) {
            document = self.document(document).await?;
            label(&mut head, "application/json");
        } else if generates && !kind(&head.headers).contains("json") {
            // Libraries read what has another label, or none, as text.
            label(&mut head, "application/json");
        }
        Ok((head, self.checked(document).await?))
    }

    /// The events of a document, for a caller who asked for a stream.
    ///
    /// # Errors
    /// The fault of the backend, if it is no answer.
    pub(super) async fn streamed(&self, document: Bytes, includes_usage: bool) -> Result<Bytes, Fault> {
        let (endpoint, shown) = (self.endpoint, document.clone());
        let convert = move || events_of_whole(endpoint, &document, includes_usage);
        off_worker(shown.len(), convert).await.flatten().ok_or_else(|| garbage(&shown, self.keys))
    }

    /// The document of a stream, for a caller who did not ask for one.
    async fn document(&self, stream: Bytes) -> Result<Bytes, Fault> {
        let (endpoint, shown) = (self.endpoint, stream.clone());
        let convert = move || whole_of_events(endpoint, &stream);
        if let Some(document) = off_worker(shown.len(), convert).await.flatten() {
            return Ok(document);
        }
        // The stream may end in an error.
        let mut reader = signalbox_protocol::EventReader::new(endpoint);
        let mut splitter = signalbox_protocol::Splitter::new(LARGEST_ANSWER);
        splitter.feed(shown.clone());
        while let Ok(Some(event)) = splitter.next_event() {
            if let Some(error) = reader.read_event(&event).error {
                return Err(self.masked(reported(&error)));
            }
        }
        Err(garbage(&shown, self.keys))
    }

    /// The document, if it is an answer.
    async fn checked(&self, body: Bytes) -> Result<Received, Fault> {
        let (endpoint, read) = (self.endpoint, body.clone());
        let asked = self.embeddings.clone().filter(|_| self.creates);
        let bytes = body.len() + asked.as_ref().map_or(0, EmbeddingsRequest::input_bytes);
        let read = move || {
            let whole = answer::read_whole(endpoint, &read)?;
            let asked = asked.filter(|_| whole.failure.is_none());
            Ok::<_, answer::NotJson>((whole, asked.and_then(|asked| asked.fault(&read))))
        };
        let whole = off_worker(bytes, read).await;
        let Some(Ok((WholeAnswer { usage, failure }, mismatch))) = whole else { return Err(garbage(&body, self.keys)) };
        if let Some(mismatch) = mismatch {
            let message = format!("the backend answered with {mismatch}");
            return Err(Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", message));
        }
        match failure.filter(|_| self.creates) {
            None => Ok(Received::Whole { body, usage }),
            Some(WholeFailure::Error(error)) => Err(self.masked(reported(&error))),
            Some(WholeFailure::Empty) => {
                let message = "the backend answered with the status 200 and no answer in it";
                Err(Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", message))
            }
        }
    }

    /// The first bytes of a body, and the form that they show. `is_labelled`: its head says that it is a stream.
    async fn beginning(&self, body: &mut AnswerBody, is_labelled: bool) -> Result<(Bytes, Form), Fault> {
        let mut begun = BytesMut::new();
        loop {
            let is_over = begun.len() > MOST_LOOKED_AT;
            let form = match Event::begins_stream(&begun) {
                Some(true) => match self.first_event(&begun) {
                    Some(form) => Some(form),
                    None => is_over.then_some(Form::Stream),
                },
                // Text under this label is the end of a stream that said nothing.
                Some(false) if is_labelled && !begins_document(&begun) => Some(Form::Stream),
                Some(false) => Some(Form::Document),
                None => is_over.then_some(if is_labelled { Form::Stream } else { Form::Document }),
            };
            if let Some(form) = form {
                return Ok((begun.freeze(), form));
            }
            match body.frame().await {
                Some(Ok(frame)) => frame.into_data().into_iter().for_each(|data| begun.extend_from_slice(&data)),
                Some(Err(_)) if is_labelled => return Err(cut("by a broken connection")),
                Some(Err(error)) => return Err(broke_off(&error)),
                None => {
                    let is_stream = is_labelled || Event::begins_stream(&begun) == Some(true);
                    return Ok((begun.freeze(), if is_stream { Form::Stream } else { Form::Document }));
                }
            }
        }
    }

    /// The form that the first event with data shows; `None` if it has not arrived.
    fn first_event(&self, begun: &[u8]) -> Option<Form> {
        if self.endpoint != Endpoint::Chat {
            return Some(Form::Stream);
        }
        let mut splitter = signalbox_protocol::Splitter::new(LARGEST_ANSWER);
        splitter.feed(Bytes::copy_from_slice(begun));
        while let Ok(Some(event)) = splitter.next_event() {
            if let Some(data) = event.data().filter(|data| !data.trim_ascii().is_empty()) {
                let whole = answer::is_whole_chat(&data).then(|| Form::WholeEvent(data.into_owned().into()));
                return Some(whole.unwrap_or(Form::Stream));
            }
        }
        None
    }

    fn masked(&self, fault: Fault) -> Fault {
        match Secret::masked(self.keys, fault.message.as_bytes()) {
            Some(masked) => Fault { message: String::from_utf8_lossy(&masked).into_owned().into(), ..fault },
            None => fault,
        }
    }
}

/// The form of an answer to a request for a stream, by its first bytes.
enum Form {
    Stream,
    /// A whole answer in the first event of a stream.
    WholeEvent(Bytes),
    Document,
}

async fn collect(begun: Bytes, body: AnswerBody) -> Result<Bytes, Fault> {
    let rest = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|error| broke_off(&error))?.to_bytes();
    Ok(if begun.is_empty() { rest } else { [begun, rest].concat().into() })
}

fn broke_off(error: &dyn std::fmt::Display) -> Fault {
    Fault::upstream(StatusCode::BAD_GATEWAY, "answer_cut", format!("the backend's answer broke off: {error}"))
}

/// Runs `work` on `bytes` bytes: here, or on a blocking thread if it would hold up a worker.
pub(super) async fn off_worker<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if bytes <= LONG_BODY { Some(work()) } else { tokio::task::spawn_blocking(work).await.ok() }
}

/// True if text begins as a JSON document does.
fn begins_document(begun: &[u8]) -> bool {
    let text = begun.strip_prefix("\u{feff}".as_bytes()).unwrap_or(begun).trim_ascii_start();
    text.starts_with(b"{") || text.starts_with(b"[")
}

fn label(head: &mut Parts, content_type: &'static str) {
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
}

/// True if the answer is one JSON document, which is checked before it is passed on.
fn is_whole(endpoint: Endpoint, headers: &HeaderMap) -> bool {
    Endpoint::DEFAULT.contains(&endpoint)
        || (!matches!(endpoint, Endpoint::Images | Endpoint::Audio)
            // An object may have an error of its own, such as a video that could not be made.
            && !endpoint.keeps_objects()
            && kind(headers).contains("json"))
}

/// The media type of an answer; empty if it has none.
fn kind(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("")
}
