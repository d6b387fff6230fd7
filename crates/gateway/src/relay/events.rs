//! Reads the events of an upstream answer; inspects each once.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::StatusCode;
use http_body::Body as _;

use signalbox_policy::Secret;
use signalbox_protocol::{Event, EventFacts, EventReader, Splitter, StreamError};
use signalbox_telemetry::BackendMetrics;
use signalbox_translation::AnswerTranslator;
use signalbox_types::{Endpoint, Fault, fault::UNSUPPORTED};
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
    over: bool,
}

/// Translates the events of a backend's API.
struct Translator {
    inner: Box<dyn AnswerTranslator>,
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
    /// Reads `upstream`, whose events `translator` converts to the API of `endpoint`. `keys` are the provider's keys,
    /// which are masked in error events.
    pub(crate) fn new(
        upstream: AnswerBody,
        endpoint: Endpoint,
        translator: Option<Box<dyn AnswerTranslator>>,
        metrics: Arc<BackendMetrics>,
        keys: Arc<[Secret]>,
    ) -> Self {
        Self {
            upstream,
            keys,
            metrics,
            splitter: Splitter::new(LARGEST_EVENT),
            translator: translator.map(|inner| Translator { inner, splitter: Splitter::new(LARGEST_EVENT) }.into()),
            reader: EventReader::new(endpoint),
            held: VecDeque::new(),
            held_size: 0,
            broken: None,
            over: false,
        }
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

    fn look(&mut self, event: Event) -> (Event, EventFacts) {
        let seen = look(&mut self.reader, &event);
        if seen.error.is_none() {
            return (event, seen);
        }
        match Secret::masked(&self.keys, &event.raw) {
            Some(raw) => {
                let event = Event { raw: raw.into() };
                let seen = look(&mut self.reader, &event);
                (event, seen)
            }
            None => (event, seen),
        }
    }

    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(Event, EventFacts), Fault>>> {
        loop {
            match self.next_event() {
                Ok(Some(event)) => {
                    let (event, seen) = self.look(event);
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
            match event.data() {
                Some(data) => {
                    let mut out = Vec::with_capacity(data.len() + 64);
                    translator.inner.event(&data, &mut out).map_err(|error| error.to_string())?;
                    translator.splitter.feed(out.into());
                }
                None => return Ok(Some(event)),
            }
        }
    }

    /// Reads the next chunk from upstream. Returns the event or the fault that its end adds, if any.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(Event, EventFacts), Fault>>> {
        Poll::Ready(match ready!(Pin::new(&mut self.upstream).poll_frame(cx)) {
            Some(Ok(frame)) => {
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

    /// Returns the last event if it lacks only its empty line and its data is valid.
    fn unclosed(&mut self) -> Option<(Event, EventFacts)> {
        if self.translator.is_some() {
            return None;
        }
        let rest = self.splitter.rest()?;
        let (event, seen) = self.look(rest);
        (!seen.broken && event.data().is_some()).then(|| (event.closed(), seen))
    }
}

fn look(reader: &mut EventReader, event: &Event) -> EventFacts {
    match event.data() {
        Some(data) if !data.is_empty() => reader.read(&data),
        _ => EventFacts::default(),
    }
}

/// True if answers of this endpoint mark their end.
pub(crate) fn is_generation(endpoint: Endpoint) -> bool {
    matches!(endpoint, Endpoint::Chat | Endpoint::Completions | Endpoint::Responses | Endpoint::Messages)
}

/// Converts an error event to a fault. Some engines refuse bad requests in the stream and give the status as its code.
pub(super) fn reported(error: &StreamError) -> Fault {
    let message = format!("the backend reported an error in its stream: {}", error.message);
    match error.status.and_then(|status| StatusCode::from_u16(status).ok()) {
        Some(status) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
            Fault::client(status, "upstream_refused", message)
        }
        Some(status @ StatusCode::NOT_IMPLEMENTED) => Fault::upstream(status, UNSUPPORTED, message),
        _ => Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_error", message),
    }
}

pub(crate) fn cut(how: &str) -> Fault {
    let message = format!("the backend's stream was cut {how}: the answer is not complete");
    Fault::upstream(StatusCode::BAD_GATEWAY, "stream_cut", message)
}
