//! Guard against stalled HTTP/2 responses. A client that keeps a stream's window at 0 does not block its connection, and a body that hyper
//! does not poll cannot run a timer of its own. A background task therefore sweeps all response bodies.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;

use axum::body::{Body, Bytes};
use dashmap::DashMap;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;

use super::listen::HangUp;

/// Time between two sweeps.
const LOOK: Duration = Duration::from_secs(10);

/// Largest frame handed to hyper at once, in bytes. The guard cannot observe frames that HTTP/2 already buffers.
const MAX_FRAME_BYTES: usize = 64 << 10;

/// Response bodies in progress.
#[derive(Default)]
pub(super) struct StallGuard {
    answers: DashMap<u64, Arc<Mutex<Answer>>>,
    numbers: AtomicU64,
}

struct Answer {
    /// `None` once it was abandoned.
    body: Option<Body>,
    /// Rest of the last frame, handed out before the next is polled.
    rest: Bytes,
    /// Since when hyper could have polled for more; `None` while the body itself is pending.
    ready: Option<Instant>,
    hang_up: HangUp,
}

/// A response body under guard.
struct Watched {
    answer: Arc<Mutex<Answer>>,
    number: u64,
    guard: Arc<StallGuard>,
}

impl StallGuard {
    /// Guards `body` until it is dropped.
    pub(super) fn watch(self: &Arc<Self>, body: Body, hang_up: HangUp) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let answer = Answer { body: Some(body), rest: Bytes::new(), ready: Some(Instant::now()), hang_up };
        let answer = Arc::new(Mutex::new(answer));
        let number = self.numbers.fetch_add(1, Relaxed);
        self.answers.insert(number, answer.clone());
        Body::new(Watched { answer, number, guard: self.clone() })
    }

    /// Abandons bodies that were not read for `limit`; never returns.
    pub(super) async fn run(&self, limit: Duration) {
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tick.tick().await;
            self.sweep(Instant::now(), limit);
        }
    }

    fn sweep(&self, now: Instant, limit: Duration) {
        let mut stale = Vec::new();
        for answer in &self.answers {
            let mut answer = answer.lock();
            if answer.ready.is_none_or(|since| now.duration_since(since) < limit) {
                continue;
            }
            match answer.body.take() {
                Some(body) => stale.push((body, std::mem::take(&mut answer.rest))),
                // Abandoned in an earlier sweep, and the client still holds the stream: close its connection.
                None => answer.hang_up.now(),
            }
        }
        // Drop the bodies outside of all locks.
        drop(stale);
    }
}

impl Answer {
    /// Takes the next frame, at most `MAX_FRAME_BYTES` bytes, from the rest.
    fn part(&mut self) -> Option<Frame<Bytes>> {
        let size = self.rest.len().min(MAX_FRAME_BYTES);
        (size > 0).then(|| Frame::data(self.rest.split_to(size)))
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut answer = self.answer.lock();
        let answer = &mut *answer;
        let Some(body) = &mut answer.body else {
            let gone = io::Error::new(io::ErrorKind::TimedOut, "the answer was not read");
            return Poll::Ready(Some(Err(axum::Error::new(gone))));
        };
        if answer.rest.is_empty() {
            let polled = Pin::new(body).poll_frame(cx);
            answer.ready = polled.is_ready().then(Instant::now);
            match ready!(polled) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => answer.rest = data,
                    Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        answer.ready = Some(Instant::now());
        Poll::Ready(answer.part().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        let answer = self.answer.lock();
        answer.rest.is_empty() && answer.body.as_ref().is_some_and(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let answer = self.answer.lock();
        let Some(of_body) = answer.body.as_ref().map(http_body::Body::size_hint) else { return SizeHint::default() };
        let rest = answer.rest.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.guard.answers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    const LIMIT: Duration = Duration::from_mins(2);

    /// A body of `parts` frames that stays pending after them; dropping it drops `guard`.
    fn body(parts: usize, guard: Arc<()>) -> Body {
        let parts = stream::iter(0..parts).chain(stream::pending()).map(move |_| {
            assert!(Arc::strong_count(&guard) > 0);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x")))
        });
        Body::new(StreamBody::new(parts))
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_body_is_abandoned_and_a_pending_one_is_not() {
        let guard = Arc::new(StallGuard::default());
        let (left, waiting) = (Arc::new(()), Arc::new(()));
        let mut unasked = guard.watch(body(2, left.clone()), HangUp::default());
        let mut empty = guard.watch(body(1, waiting.clone()), HangUp::default());
        assert!(unasked.frame().await.is_some() && empty.frame().await.is_some());
        assert!(empty.frame().now_or_never().is_none());
        tokio::time::advance(LIMIT / 2).await;
        guard.sweep(Instant::now(), LIMIT);
        assert_eq!((Arc::strong_count(&left), Arc::strong_count(&waiting)), (2, 2));
        tokio::time::advance(LIMIT / 2).await;
        guard.sweep(Instant::now(), LIMIT);
        assert_eq!((Arc::strong_count(&left), Arc::strong_count(&waiting)), (1, 2));
        assert!(unasked.frame().await.unwrap().is_err(), "cut, not ended");
        drop((unasked, empty));
        assert!(guard.answers.is_empty());
    }

    #[tokio::test]
    async fn a_large_frame_is_split() {
        let guard = Arc::new(StallGuard::default());
        let whole = Bytes::from((0..MAX_FRAME_BYTES * 2 + 7).map(|at| at as u8).collect::<Vec<_>>());
        let mut watched = guard.watch(Body::from(whole.clone()), HangUp::default());
        let (mut sizes, mut given) = (Vec::new(), Vec::new());
        while let Some(frame) = watched.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            sizes.push(data.len());
            given.extend_from_slice(&data);
            assert_eq!(watched.size_hint().exact(), Some((whole.len() - given.len()) as u64));
        }
        assert_eq!((sizes, given), (vec![MAX_FRAME_BYTES, MAX_FRAME_BYTES, 7], whole.to_vec()));
    }
}
