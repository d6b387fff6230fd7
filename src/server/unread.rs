//! Answers over HTTP/2 that nobody reads. A client that leaves a stream's window at 0 never blocks its connection, and an answer that is not
//! asked for its next part never looks at its own clocks: so somebody else has to look.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use dashmap::DashMap;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;

use crate::measure::lock;

/// How often answers are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// The answers under way.
#[derive(Default)]
pub(super) struct Unread {
    answers: DashMap<u64, Arc<Mutex<Answer>>>,
    numbers: AtomicU64,
}

struct Answer {
    /// `None` once it was given up.
    body: Option<Body>,
    /// Since when its next part could have been asked for; `None` while there is none yet.
    ready: Option<Instant>,
}

/// An answer that is looked after.
struct Watched {
    answer: Arc<Mutex<Answer>>,
    number: u64,
    unread: Arc<Unread>,
}

impl Unread {
    /// Looks after `body` for as long as it lives.
    pub(super) fn watch(self: &Arc<Self>, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let answer = Arc::new(Mutex::new(Answer { body: Some(body), ready: Some(Instant::now()) }));
        let number = self.numbers.fetch_add(1, Relaxed);
        self.answers.insert(number, answer.clone());
        Body::new(Watched { answer, number, unread: self.clone() })
    }

    /// Gives up, for ever, what was not read for `limit`.
    pub(super) async fn tend(&self, limit: Duration) {
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tick.tick().await;
            self.give_up(Instant::now(), limit);
        }
    }

    fn give_up(&self, now: Instant, limit: Duration) {
        let mut stale = Vec::new();
        for answer in &self.answers {
            let mut answer = lock(&answer);
            if answer.ready.is_some_and(|since| now.duration_since(since) >= limit) {
                stale.extend(answer.body.take());
            }
        }
        // What they hold is let go of outside of all locks.
        drop(stale);
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut answer = lock(&self.answer);
        let Some(body) = &mut answer.body else {
            let gone = io::Error::new(io::ErrorKind::TimedOut, "the answer was not read");
            return Poll::Ready(Some(Err(axum::Error::new(gone))));
        };
        let polled = Pin::new(body).poll_frame(cx);
        answer.ready = polled.is_ready().then(Instant::now);
        polled
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.answer).body.as_ref().is_some_and(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.answer).body.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.unread.answers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    const LIMIT: Duration = Duration::from_mins(2);

    /// A body that gives `parts` and then waits; dropping it drops the guard.
    fn body(parts: usize, guard: Arc<()>) -> Body {
        let parts = stream::iter(0..parts).chain(stream::pending()).map(move |_| {
            assert!(Arc::strong_count(&guard) > 0);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x")))
        });
        Body::new(StreamBody::new(parts))
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_is_let_go_of_and_what_has_nothing_to_give_is_not() {
        let unread = Arc::new(Unread::default());
        let (left, waiting) = (Arc::new(()), Arc::new(()));
        let mut unasked = unread.watch(body(2, left.clone()));
        let mut empty = unread.watch(body(1, waiting.clone()));
        assert!(unasked.frame().await.is_some() && empty.frame().await.is_some());
        assert!(empty.frame().now_or_never().is_none());
        tokio::time::advance(LIMIT / 2).await;
        unread.give_up(Instant::now(), LIMIT);
        assert_eq!((Arc::strong_count(&left), Arc::strong_count(&waiting)), (2, 2));
        tokio::time::advance(LIMIT / 2).await;
        unread.give_up(Instant::now(), LIMIT);
        assert_eq!((Arc::strong_count(&left), Arc::strong_count(&waiting)), (1, 2));
        assert!(unasked.frame().await.unwrap().is_err(), "it is broken off, not ended");
        drop((unasked, empty));
        assert!(unread.answers.is_empty());
    }
}
