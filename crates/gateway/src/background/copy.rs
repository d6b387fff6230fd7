//! Copies an answer while it passes to the client.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};

/// Longest answer that is copied, in bytes of its body.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// A body that copies the data it passes on and gives the copy to `then` at its end. A body that is dropped before
/// gives nothing.
pub(super) struct Copying<F> {
    inner: Body,
    copy: BytesMut,
    /// `None` after the call, or if the answer broke off or is too long.
    then: Option<F>,
}

impl<F: FnOnce(Bytes) + Unpin> Copying<F> {
    pub(super) fn new(inner: Body, then: F) -> Self {
        let mut copying = Self { inner, copy: BytesMut::new(), then: Some(then) };
        copying.look();
        copying
    }

    /// Ends the copy if the body is complete: hyper drops a body of known length without polling it to its end.
    fn look(&mut self) {
        if self.inner.is_end_stream() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(then) = self.then.take() {
            then(std::mem::take(&mut self.copy).freeze());
        }
    }
}

impl<F: FnOnce(Bytes) + Unpin> http_body::Body for Copying<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &polled {
            None => self.end(),
            Some(Err(_)) => self.then = None,
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref().filter(|_| self.then.is_some()) {
                    if self.copy.len() + data.len() > MAX_ANSWER_BYTES {
                        self.then = None;
                        self.copy = BytesMut::new();
                    } else {
                        self.copy.extend_from_slice(data);
                    }
                }
                self.look();
            }
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
