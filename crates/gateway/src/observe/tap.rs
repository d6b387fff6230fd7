//! Body of an observed answer. It is measured in passing and always forwarded unchanged.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{header, response::Parts};
use http_body::{Body, Frame, SizeHint};

use crate::{
    relay::{Meter, is_generation},
    reply::is_events,
};
use signalbox_protocol::{EventFacts, EventReader, Splitter, answer};
use signalbox_types::{Endpoint, Outcome};
use signalbox_upstream::{AnswerBody, BodyError};

/// Largest event that is parsed, in bytes.
const LARGEST_EVENT: usize = 4 << 20;
/// Longest whole answer that is parsed, in bytes. Parsing takes time on a worker.
const LARGEST_ANSWER: usize = 256 << 10;

/// A response body with its meter.
pub(super) struct Tap {
    inner: AnswerBody,
    meter: Meter,
    endpoint: Endpoint,
    looking: Looking,
    /// Failure kind of an error status.
    refused: Option<&'static str>,
    /// Error that broke the body. It is returned one poll later, since hyper discards data that it has not sent by
    /// then.
    broken: Option<BodyError>,
}

/// Parser for the kind of body.
enum Looking {
    /// Events, and whether they marked the answer's end.
    Events { splitter: Splitter, reader: EventReader, complete: bool },
    /// A whole answer, as far as received.
    Whole(BytesMut),
    /// The body is not parsed.
    Nothing,
}

impl Tap {
    pub(super) fn new(endpoint: Endpoint, head: &Parts, inner: AnswerBody, mut meter: Meter) -> Self {
        let packed = head.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
        let looking = if packed || !head.status.is_success() {
            Looking::Nothing
        } else if is_events(&head.headers) {
            Looking::Events {
                splitter: Splitter::new(LARGEST_EVENT),
                reader: EventReader::new(endpoint),
                complete: !is_generation(endpoint),
            }
        } else {
            Looking::Whole(BytesMut::new())
        };
        let refused = match head.status.as_u16() {
            408 => Some("upstream_timeout"),
            429 => Some("upstream_rate_limited"),
            400..=499 => {
                // The client's own key and request are at fault, not the engine.
                meter.refuse();
                Some("upstream_refused")
            }
            500..=599 => Some("upstream_error"),
            _ => None,
        };
        if inner.is_end_stream() {
            // An empty body is never polled.
            meter.finish(refused.map_or(Outcome::Complete, Outcome::Failed));
        }
        Self { inner, meter, endpoint, looking, refused, broken: None }
    }

    fn look(&mut self, chunk: &Bytes) {
        match &mut self.looking {
            Looking::Events { splitter, .. } => {
                splitter.feed(chunk.clone());
                self.look_at_events();
            }
            Looking::Whole(read) if read.len() + chunk.len() <= LARGEST_ANSWER => read.extend_from_slice(chunk),
            Looking::Whole(_) => self.looking = Looking::Nothing,
            Looking::Nothing => {}
        }
    }

    fn look_at_events(&mut self) {
        while let Looking::Events { splitter, reader, complete } = &mut self.looking {
            let event = match splitter.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => {
                    // Too long to be parsed. The events after it cannot be separated.
                    self.looking = Looking::Nothing;
                    break;
                }
            };
            let seen = match event.data() {
                Some(data) if !data.is_empty() => reader.read(&data),
                _ => EventFacts::default(),
            };
            *complete |= seen.done || seen.finished;
            self.meter.read(&seen);
            if seen.token {
                self.meter.hand();
            }
        }
    }

    /// Records the outcome at the end of the body.
    fn end(&mut self) {
        let outcome = match (&self.looking, self.refused) {
            (_, Some(kind)) => Outcome::Failed(kind),
            (Looking::Events { complete: false, .. }, None) => Outcome::Failed("stream_cut"),
            (Looking::Whole(read), None) => {
                self.meter.whole(answer::read_whole(self.endpoint, read).ok().and_then(|whole| whole.usage), 0);
                Outcome::Complete
            }
            _ => Outcome::Complete,
        };
        self.meter.finish(outcome);
    }
}

impl Body for Tap {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match polled {
            Some(Ok(frame)) => {
                if let Some(chunk) = frame.data_ref() {
                    self.look(chunk);
                }
                // hyper drops a body of known length without polling it to its end.
                if self.inner.is_end_stream() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                self.meter.finish(Outcome::Failed("stream_cut"));
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
