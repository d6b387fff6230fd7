//! A response body whose bytes are passed on unread.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{Meter, events, timeouts::StreamTimeouts};
use signalbox_types::Outcome;

/// A body, its meter and its time limits.
pub(super) struct Plain<B> {
    inner: B,
    meter: Meter,
    /// `None` if the body is complete in memory.
    timeouts: Option<StreamTimeouts>,
}

impl<B: Body> Plain<B> {
    pub(super) fn new(inner: B, mut meter: Meter, timeouts: Option<StreamTimeouts>) -> Self {
        if inner.is_end_stream() {
            // An empty body is never polled.
            meter.finish(Outcome::Complete);
        }
        Self { inner, meter, timeouts }
    }

    /// Polls the time limits. Past a limit the body breaks off, because its format has no place for an error.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<BoxError> {
        let Some(timeouts) = &mut self.timeouts else { return Poll::Pending };
        timeouts.poll(cx).map(|fault| {
            self.meter.finish(Outcome::Failed(fault.kind));
            fault.message.into()
        })
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for Plain<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(polled) = Pin::new(&mut self.inner).poll_frame(cx) else {
            return self.poll_time(cx).map(|error| Some(Err(error)));
        };
        self.timeouts.iter_mut().for_each(StreamTimeouts::restart);
        match &polled {
            Some(Err(_)) => self.meter.finish(Outcome::Failed(events::cut("").kind)),
            None => self.meter.finish(Outcome::Complete),
            // hyper drops a body of known length without polling it to `None`.
            Some(Ok(_)) if self.inner.is_end_stream() => self.meter.finish(Outcome::Complete),
            Some(Ok(_)) => {}
        }
        Poll::Ready(polled.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
