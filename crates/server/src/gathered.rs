//! A body whose frames leave together if they are ready together: events that an engine sent in one go become one chunk
//! in place of one each. None waits for another, and the first is sent before the next is read.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

/// Size in bytes from which no more frames are added.
const ENOUGH: usize = 16 << 10;

/// The end of gathered frames.
enum Next {
    Frame(Result<Frame<Bytes>, axum::Error>),
    End,
}

/// A body that gathers its frames.
pub(super) struct Gathered {
    inner: Body,
    /// Came after gathered frames and cannot be joined with them.
    next: Option<Next>,
    /// The task that the inner body will wake, if it had no more frames just now.
    waits: Option<Waker>,
    first: First,
}

/// Progress of the first frame.
enum First {
    Expected,
    /// It was handed on, and is sent once the body pauses.
    Handed,
    Sent,
}

impl Gathered {
    pub(super) fn new(inner: Body) -> Self {
        Self { inner, next: None, waits: None, first: First::Expected }
    }
}

impl http_body::Body for Gathered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.next.take() {
            Some(Next::Frame(frame)) => return Poll::Ready(Some(frame)),
            Some(Next::End) => return Poll::Ready(None),
            None => {}
        }
        // hyper drops what it has not sent when a body fails: the pause before an error must reach it.
        if self.waits.take().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        if matches!(self.first, First::Handed) {
            self.first = First::Sent;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let first = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            },
            other => return Poll::Ready(other),
        };
        if matches!(self.first, First::Expected) && !self.inner.is_end_stream() {
            self.first = First::Handed;
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let (mut size, mut joined) = (first.len(), BytesMut::new());
        while size < ENOUGH && !self.inner.is_end_stream() {
            let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
                self.waits = Some(cx.waker().clone());
                break;
            };
            let data = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(trailers) => {
                        self.next = Some(Next::Frame(Ok(trailers)));
                        break;
                    }
                },
                other => {
                    self.next = Some(other.map_or(Next::End, Next::Frame));
                    break;
                }
            };
            if joined.is_empty() {
                joined.reserve(ENOUGH.min(4 * (first.len() + data.len())));
                joined.extend_from_slice(&first);
            }
            size += data.len();
            joined.extend_from_slice(&data);
        }
        let bytes = if joined.is_empty() { first } else { joined.freeze() };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.next {
            None => self.inner.is_end_stream(),
            Some(next) => matches!(next, Next::End),
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.next.is_none() { self.inner.size_hint() } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};
    use http_body::Body as _;

    use super::*;

    /// The pieces that a reader gets of a body with these parts; `None` is a pause.
    fn pieces(parts: Vec<Option<Result<&'static str, &'static str>>>) -> Vec<Result<String, String>> {
        let mut parts = parts.into_iter();
        let parts = stream::poll_fn(move |cx| match parts.next() {
            Some(Some(part)) => Poll::Ready(Some(part.map(Bytes::from).map_err(std::io::Error::other))),
            Some(None) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        });
        let mut body = Gathered::new(Body::from_stream(parts.fuse()));
        let (mut read, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
        loop {
            match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Pending => {}
                Poll::Ready(None) => return read,
                Poll::Ready(Some(Ok(frame))) => {
                    read.push(Ok(String::from_utf8_lossy(&frame.into_data().unwrap_or_default()).into_owned()));
                }
                Poll::Ready(Some(Err(error))) => read.push(Err(error.to_string())),
            }
        }
    }

    #[test]
    fn what_is_ready_leaves_together_and_nothing_waits() {
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(pieces(vec![Some(Ok("a")), Some(Ok("b")), None, Some(Ok("c"))]), [ok("a"), ok("b"), ok("c")]);
        assert_eq!(
            pieces(vec![Some(Ok("a")), Some(Ok("b")), Some(Ok("c")), None, Some(Ok("d"))]),
            [ok("a"), ok("bc"), ok("d")]
        );
        assert_eq!(pieces(vec![None, Some(Ok("a")), None]), [ok("a")]);
        assert_eq!(
            pieces(vec![Some(Ok("a")), Some(Ok("b")), Some(Ok("c")), Some(Err("cut"))]),
            [ok("a"), ok("bc"), Err("cut".to_owned())]
        );
        assert_eq!(pieces(vec![]), []);
    }

    #[test]
    fn pieces_are_bounded() {
        let part: &'static str = Box::leak("x".repeat(10 << 10).into_boxed_str());
        let sizes: Vec<_> =
            pieces(vec![Some(Ok(part)); 5]).into_iter().map(|piece| piece.map(|text| text.len())).collect();
        assert_eq!(sizes, [Ok(10 << 10), Ok(20 << 10), Ok(20 << 10)]);
    }
}
