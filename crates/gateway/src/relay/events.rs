//! Reads the events of an upstream answer; inspects each once.

use std::{
    borrow::Cow,
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;

use crate::refusal::reported;
use signalbox_policy::Secret;
use signalbox_protocol::{EngineError, ErrorForm, Event, EventFacts, EventReader, Splitter, error, with_model};
use signalbox_telemetry::BackendMetrics;
use signalbox_translation::AnswerTranslator;
use signalbox_types::{Endpoint, Fault};
use signalbox_upstream::AnswerBody;

/// Largest event, in bytes; an image in base64 fits.
const LARGEST_EVENT: usize = 32 << 20;
/// Most bytes held back before the first token. A longer stream counts as begun.
const MOST_HELD: usize = 256 << 10;

/// The events of an upstream answer.
pub(crate) struct Events {
    upstream: AnswerBody,
    /// Counts the events that are dropped.
    metrics: Arc<BackendMetrics>,
    keys: Arc<[Secret]>,
    splitter: Splitter,
    /// Translates the events to `endpoint`'s API, if the backend speaks another.
    translator: Option<Box<Translator>>,
    reader: EventReader,
    /// Events that were read before the answer was committed.
    held: VecDeque<(Event, EventFacts)>,
    /// Size of the held events, in bytes.
    held_size: usize,
    /// The fault that broke the stream after the held events.
    broken: Option<Box<Fault>>,
    /// The model that the events shall name, if the backend calls it otherwise.
    model: Option<Box<str>>,
    /// True if bytes have arrived that nobody has asked about.
    is_alive: bool,
    over: bool,
}

/// Translates the events of a backend's API.
struct Translator {
    inner: Box<dyn AnswerTranslator>,
    /// Finds errors in events that are none of the backend's API.
    reader: EventReader,
    /// Splits what one event became.
    splitter: Splitter,
}

/// Result of holding one more event.
pub(crate) enum Held {
    /// The event is held.
    One,
    /// The stream has ended.
    End,
    /// The buffer is full.
    Full,
    /// The stream broke, or its engine reported an error.
    Broken(Fault),
}

impl Events {
    /// Reads `begun`, and then `upstream`, whose events `translator` converts from another API to that of `endpoint`.
    /// `keys` are the provider's keys, which are masked in error events.
    pub(crate) fn new(
        (begun, upstream): (Bytes, AnswerBody),
        endpoint: Endpoint,
        translator: Option<(Endpoint, Box<dyn AnswerTranslator>)>,
        metrics: Arc<BackendMetrics>,
        keys: Arc<[Secret]>,
    ) -> Self {
        let mut splitter = Splitter::new(LARGEST_EVENT);
        splitter.feed(begun);
        Self {
            upstream,
            keys,
            metrics,
            splitter,
            translator: translator.map(|(from, inner)| {
                Translator { inner, reader: EventReader::new(from), splitter: Splitter::new(LARGEST_EVENT) }.into()
            }),
            reader: EventReader::new(endpoint),
            held: VecDeque::new(),
            held_size: 0,
            broken: None,
            model: None,
            is_alive: false,
            over: false,
        }
    }

    /// Names this model in the events.
    pub(crate) fn naming(self, model: Option<&str>) -> Self {
        Self { model: model.map(Box::from), ..self }
    }

    /// True if any bytes have arrived since the last call.
    pub(super) fn take_alive(&mut self) -> bool {
        std::mem::take(&mut self.is_alive)
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        self.reader.endpoint()
    }

    /// Reads until the answer has begun: at a token, or at a proper end without one.
    ///
    /// # Errors
    /// The fault of an error event, of a broken stream, or of an end without an answer. The client has received nothing
    /// yet, so another backend may be tried.
    pub(crate) async fn commit(&mut self, mut read: impl FnMut(&EventFacts)) -> Result<(), Fault> {
        let mut has_choice = false;
        while self.held_size < MOST_HELD {
            let Some((event, seen)) = poll_fn(|cx| self.poll_upstream(cx)).await.transpose()? else {
                // A stream that ends without a finish reason is not an answer.
                let finished = self.held.iter().any(|(_, seen)| seen.finished);
                return if finished || !is_generation(self.endpoint()) {
                    Ok(())
                } else {
                    Err(cut("before its first token"))
                };
            };
            if let Some(error) = &seen.error {
                return Err(reported(error));
            }
            read(&seen);
            has_choice |= seen.choices != 0;
            if seen.done && !has_choice && matches!(self.endpoint(), Endpoint::Chat | Endpoint::Completions) {
                return Err(cut("before it said anything"));
            }
            let begun = seen.token || seen.done;
            self.keep(event, seen);
            if begun {
                break;
            }
        }
        Ok(())
    }

    fn keep(&mut self, event: Event, seen: EventFacts) {
        // The facts of a small event can be larger than the event, so they count too.
        self.held_size += event.raw.len() + size_of::<(Event, EventFacts)>();
        self.held.push_back((event, seen));
    }

    /// Holds one more event behind those already held, and shows it to `look`. Nothing is lost:
    /// [`poll_next`](Self::poll_next) returns every held event again, and the end or the break after them.
    pub(crate) async fn hold(&mut self, look: impl FnOnce(&Event, &EventFacts)) -> Held {
        if self.held_size >= MOST_HELD {
            return Held::Full;
        }
        match poll_fn(|cx| self.poll_upstream(cx)).await {
            None => Held::End,
            Some(Ok((event, seen))) => {
                look(&event, &seen);
                let fault = seen.error.as_ref().map(reported);
                self.keep(event, seen);
                fault.map_or(Held::One, Held::Broken)
            }
            Some(Err(fault)) => {
                self.broken = Some(Box::new(fault.clone()));
                Held::Broken(fault)
            }
        }
    }

    /// Returns the held events in order.
    pub(crate) fn held(&self) -> impl Iterator<Item = &(Event, EventFacts)> {
        self.held.iter()
    }

    /// Stops reading and releases the connection to the engine.
    pub(super) fn stop(&mut self) {
        self.upstream = AnswerBody::empty();
    }

    /// True if the next event was read, and measured, before the commit.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Polls for the next event; held events come first.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(Event, EventFacts), Fault>>> {
        match self.held.pop_front() {
            Some(held) => {
                if self.held.is_empty() {
                    // Streams are many, and go on for long.
                    self.held = VecDeque::new();
                }
                Poll::Ready(Some(Ok(held)))
            }
            None => match self.broken.take() {
                Some(fault) => Poll::Ready(Some(Err(*fault))),
                None => self.poll_upstream(cx),
            },
        }
    }

    /// The event with the name of the model that was asked for.
    fn named(&self, event: Event) -> Event {
        let Some(model) = &self.model else { return event };
        let Some(Cow::Borrowed(data)) = event.data() else { return event };
        let Some(named) = with_model(self.reader.endpoint(), data, model) else { return event };
        let start = data.as_ptr().addr() - event.raw.as_ptr().addr();
        let raw = [&event.raw[..start], &named, &event.raw[start + data.len()..]].concat();
        Event { raw: raw.into() }
    }

    /// Reads an event. An error in a form that callers' libraries do not know gets the form that they do.
    fn look(&mut self, event: Event) -> (Event, EventFacts) {
        let mut seen = self.reader.read_event(&event);
        if !seen.token
            && event.is_heartbeat()
            && !matches!(self.reader.endpoint(), Endpoint::Messages | Endpoint::Responses)
        {
            // Libraries of this API read every event with data as a chunk.
            return (Event { raw: Bytes::from_static(b": keep-alive\n\n") }, seen);
        }
        let Some(error) = &mut seen.error else { return (event, seen) };
        if let Some(masked) = Secret::masked(&self.keys, error.message.as_bytes()) {
            error.message = String::from_utf8_lossy(&masked).into_owned();
        }
        let raw = if error.form == ErrorForm::Unusual {
            error_event(self.reader.endpoint(), error)
        } else {
            Secret::masked(&self.keys, &event.raw).map_or(event.raw, Bytes::from)
        };
        (Event { raw }, seen)
    }

    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(Event, EventFacts), Fault>>> {
        loop {
            match self.next_event() {
                Ok(Some(event)) => {
                    let (event, seen) = self.look(self.named(event));
                    if !seen.broken {
                        return Poll::Ready(Some(Ok((event, seen))));
                    }
                    self.metrics.bad_event();
                }
                Ok(None) if self.over => return Poll::Ready(None),
                Ok(None) => {
                    if let Some(last) = ready!(self.poll_chunk(cx)) {
                        return Poll::Ready(Some(last));
                    }
                }
                Err(error) => {
                    let fault = Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", error);
                    return Poll::Ready(Some(Err(fault)));
                }
            }
        }
    }

    /// Returns the next whole event, in the API of `endpoint`.
    fn next_event(&mut self) -> Result<Option<Event>, String> {
        let Some(translator) = &mut self.translator else {
            return self.splitter.next_event().map_err(|error| error.to_string());
        };
        loop {
            if let Some(event) = translator.splitter.next_event().map_err(|error| error.to_string())? {
                return Ok(Some(event));
            }
            let Some(event) = self.splitter.next_event().map_err(|error| error.to_string())? else {
                return Ok(None);
            };
            let Some(data) = event.data().filter(|data| !data.trim_ascii().is_empty()) else {
                return Ok(Some(event));
            };
            let mut out = Vec::with_capacity(data.len() + 64);
            if let Err(malformed) = translator.inner.event(&data, &mut out) {
                let reported = translator.reader.read_event(&event).error.ok_or_else(|| malformed.to_string())?;
                return Ok(Some(Event { raw: error_event(self.reader.endpoint(), &reported) }));
            }
            translator.splitter.feed(out.into());
        }
    }

    /// Reads the next chunk from upstream. Returns the event or the fault that its end adds, if any.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(Event, EventFacts), Fault>>> {
        Poll::Ready(match ready!(Pin::new(&mut self.upstream).poll_frame(cx)) {
            Some(Ok(frame)) => {
                self.is_alive = true;
                frame.into_data().into_iter().for_each(|chunk| self.splitter.feed(chunk));
                None
            }
            Some(Err(_)) => Some(Err(cut("by a broken connection"))),
            None => {
                self.over = true;
                self.unclosed().map(Ok)
            }
        })
    }

    /// Returns the last event if it lacks only its empty line and its data is valid; of a translated answer, the first
    /// event of its end.
    fn unclosed(&mut self) -> Option<(Event, EventFacts)> {
        let rest = self.splitter.rest();
        if let Some(translator) = &mut self.translator {
            let mut out = Vec::new();
            if let Some(data) = rest.as_ref().and_then(Event::data) {
                let before = out.len();
                if translator.inner.event(&data, &mut out).is_err() {
                    out.truncate(before);
                }
            }
            translator.inner.end(&mut out);
            translator.splitter.feed(out.into());
            if let Ok(Some(event)) = translator.splitter.next_event() {
                return Some(self.look(event));
            }
            // Text that is no event at all may say why the stream ends.
            return Some(self.look(rest?)).filter(|(_, seen)| seen.error.is_some());
        }
        let (event, seen) = self.look(rest?);
        (!seen.broken && event.data().is_some()).then(|| (event.closed(), seen))
    }
}

/// The event that reports an error of an engine to callers, in the engine's words.
fn error_event(endpoint: Endpoint, reported: &EngineError) -> Bytes {
    let status = reported.status.and_then(|status| StatusCode::from_u16(status).ok());
    let fault = Fault::upstream(status.unwrap_or(StatusCode::BAD_GATEWAY), "upstream_error", reported.message.clone());
    error::event(endpoint, &fault)
}

/// True if answers of this endpoint mark their end.
pub(crate) fn is_generation(endpoint: Endpoint) -> bool {
    matches!(endpoint, Endpoint::Chat | Endpoint::Completions | Endpoint::Responses | Endpoint::Messages)
}

pub(crate) fn cut(how: &str) -> Fault {
    let message = format!("the backend's stream was cut {how}: the answer is not complete");
    Fault::upstream(StatusCode::BAD_GATEWAY, "stream_cut", message)
}
