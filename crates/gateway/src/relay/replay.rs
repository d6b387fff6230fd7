//! Streams a cached answer, at once or with its original pauses.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::record::Record;
use signalbox_types::Outcome;

/// Longest pause between two events, so that an engine's stall is not replayed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The body of a cached answer. Settles the request's record when the last part is written.
pub(crate) struct Replay {
    /// The remaining parts, each with the pause before it.
    parts: VecDeque<(Duration, Bytes)>,
    left: u64,
    pause: Option<Pin<Box<Sleep>>>,
    record: Arc<Record>,
    begun: bool,
}

impl Replay {
    pub(crate) fn new(parts: Vec<(Duration, Bytes)>, record: Arc<Record>) -> Self {
        let left = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        Self { parts: parts.into(), left, pause: None, record, begun: false }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            let ttft = self.record.clock().now().since(self.record.arrived());
            self.record.progress().first_token(ttft);
        }
    }
}

impl Body for Replay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some((pause, _)) = self.parts.front() else { return Poll::Ready(None) };
        let pause = (*pause).min(LONGEST_PAUSE);
        if !pause.is_zero() {
            let timer = self.pause.get_or_insert_with(|| Box::pin(sleep(pause)));
            ready!(timer.as_mut().poll(cx));
            self.pause = None;
        }
        let Some((_, bytes)) = self.parts.pop_front() else { return Poll::Ready(None) };
        self.begin();
        self.left -= bytes.len() as u64;
        if self.parts.is_empty() {
            // hyper drops a body of known length without polling it to its end.
            self.record.settle(Outcome::Complete);
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
