//! A body whose bytes are passed on without being read.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{Meter, events};
use crate::types::Outcome;

/// A body and its meter.
pub(super) struct Plain<B> {
    inner: B,
    meter: Meter,
}

impl<B: Body> Plain<B> {
    pub(super) fn new(inner: B, mut meter: Meter) -> Self {
        if inner.is_end_stream() {
            // An empty body is never polled.
            meter.finish(Outcome::Complete);
        }
        Self { inner, meter }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Plain<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &polled {
            Some(Err(_)) => self.meter.finish(Outcome::Failed(events::cut("").kind)),
            None => self.meter.finish(Outcome::Complete),
            // hyper drops a body of known length without polling it to `None`.
            Some(Ok(_)) if self.inner.is_end_stream() => self.meter.finish(Outcome::Complete),
            Some(Ok(_)) => {}
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
