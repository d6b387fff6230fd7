//! One reader of a shared answer, with a pace and a record of its own.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::BoxError;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body::{Body, Frame};

use crate::{
    record::{AnswerEnd, Record},
    reply::is_events,
};
use signalbox_answers::Head;
use signalbox_cache::single_flight::{End, Entry, Next, Reader};
use signalbox_protocol::error;
use signalbox_types::{Endpoint, Fault, Name, Outcome, Price, Usage};

/// A reader's view of a shared answer, and the record it is written to.
pub(crate) struct Share {
    /// True if the usage chunk is hidden from the client, which did not ask for it.
    pub(crate) hide_usage: bool,
    /// True if the reader settles its record here. The meter settles that of the request that was sent.
    pub(crate) own: bool,
    /// Pool that answers, and the price of its tokens, if known.
    pub(crate) pool: Name,
    pub(crate) price: Option<Price>,
    pub(crate) record: Arc<Record>,
}

/// Builds the body of a shared answer: a stream of events, or an unstreamed answer collected whole.
///
/// # Errors
/// A fault if an unstreamed answer broke off, or was read too slowly.
pub(crate) async fn subscribe(
    reader: Reader<Head>,
    share: Share,
    headers: &HeaderMap,
) -> Result<axum::body::Body, Fault> {
    let events = is_events(headers);
    let mut tail = Subscriber { reader, share, events, usage: None, begun: false, over: false };
    // Encoded bodies are passed on as they arrive; the gateway does not decode them.
    if tail.events || headers.contains_key(header::CONTENT_ENCODING) {
        return Ok(axum::body::Body::new(tail));
    }
    let mut whole = Whole::None;
    loop {
        match poll_fn(|cx| tail.reader.poll_next(cx)).await {
            Next::Entry(entry) => {
                tail.note(&entry);
                whole.push(entry.bytes);
            }
            Next::End(End::Complete) => {
                tail.finish(Outcome::Complete);
                return Ok(whole.bytes().into());
            }
            Next::End(End::Broken(kind)) => return Err(broken(kind)),
            Next::TooSlow => return Err(too_slow()),
        }
    }
}

/// An unstreamed answer, usually in one part.
enum Whole {
    None,
    One(Bytes),
    Many(BytesMut),
}

impl Whole {
    fn push(&mut self, bytes: Bytes) {
        *self = match std::mem::replace(self, Self::None) {
            Self::None => Self::One(bytes),
            Self::One(first) => {
                let mut all = BytesMut::from(&*first);
                all.extend_from_slice(&bytes);
                Self::Many(all)
            }
            Self::Many(mut all) => {
                all.extend_from_slice(&bytes);
                Self::Many(all)
            }
        };
    }

    fn bytes(self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes.freeze(),
        }
    }
}

/// A shared answer as one reader sees it.
struct Subscriber {
    reader: Reader<Head>,
    share: Share,
    events: bool,
    usage: Option<Usage>,
    begun: bool,
    over: bool,
}

impl Subscriber {
    fn note(&mut self, entry: &Entry) {
        self.usage = entry.usage.or(self.usage);
        if entry.token && self.share.own && !std::mem::replace(&mut self.begun, true) {
            let ttft = self.share.record.clock().now().since(self.share.record.arrived());
            self.share.record.progress().first_token(ttft);
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        self.over = true;
        if !self.share.own {
            return;
        }
        let usage = self.usage;
        if outcome == Outcome::Complete {
            let cost = usage.and_then(|usage| Some(self.share.price?.cost(&usage)));
            self.share.record.metrics().cache().save("coalesced", &self.share.pool, usage.as_ref(), cost, 0.0);
        }
        self.share.record.progress().answered(AnswerEnd { usage, ..AnswerEnd::default() });
        self.share.record.settle(outcome);
    }
}

impl Body for Subscriber {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over {
            return Poll::Ready(None);
        }
        loop {
            match ready!(self.reader.poll_next(cx)) {
                Next::Entry(entry) => {
                    self.note(&entry);
                    if !(entry.only_usage && self.share.hide_usage) {
                        return Poll::Ready(Some(Ok(Frame::data(entry.bytes))));
                    }
                }
                Next::End(End::Complete) => {
                    self.finish(Outcome::Complete);
                    return Poll::Ready(None);
                }
                Next::End(End::Broken(kind)) => {
                    self.finish(Outcome::Failed(kind));
                    // The events already contain the error.
                    let event = self.events.then_some(Poll::Ready(None));
                    return event.unwrap_or_else(|| Poll::Ready(Some(Err(broken(kind).message.into()))));
                }
                Next::TooSlow => {
                    let fault = too_slow();
                    self.finish(Outcome::Failed(fault.kind));
                    let event = self.events.then(|| Frame::data(error::event(Endpoint::Chat, &fault)));
                    return Poll::Ready(Some(event.ok_or_else(|| fault.message.into())));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

fn broken(kind: &'static str) -> Fault {
    Fault::upstream(StatusCode::BAD_GATEWAY, kind, "the backend's answer broke off before its end")
}

fn too_slow() -> Fault {
    let message = "this answer was shared with others, who would have had to wait: it was not read as fast as it came";
    Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "too_slow", message)
}
