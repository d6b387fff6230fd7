//! Signs of life in a stream whose engine is silent.
//!
//! Clients (Claude Code's watchdog) and proxies (nginx after 60 s) take a long silence for a dead connection, wherever in
//! the answer it is: before the first token, while an engine holds a call back, or while it thinks unseen.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{Reply, reply::is_events};
use signalbox_types::Endpoint;

/// Longest silence of a stream.
const SILENCE: Duration = Duration::from_secs(10);
/// A comment, which clients of server-sent events skip (WHATWG HTML, section 9.2.6).
const COMMENT: &[u8] = b": keep-alive\n\n";
/// The event that Anthropic's API sends itself, and its clients know.
const PING: &[u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";

/// Keeps the stream of events in `reply` alive, in the way of the API of `endpoint`. Other replies stay as they are.
pub(super) fn kept_alive(endpoint: Endpoint, reply: Reply) -> Reply {
    if !is_events(reply.headers()) {
        return reply;
    }
    reply.map(|inner| Body::new(KeptAlive::new(inner, endpoint)))
}

/// A stream of events, with a sign of life in every silence.
struct KeptAlive<B> {
    inner: B,
    endpoint: Endpoint,
    /// Time of the last bytes. They do not reset the timer; it reads this value when it fires.
    last: Instant,
    /// Set in the first silence.
    timer: Option<Pin<Box<Sleep>>>,
    /// True between two events: a sign of life within one would break it.
    is_between: bool,
    /// True once an event has passed.
    has_begun: bool,
}

impl<B> KeptAlive<B> {
    fn new(inner: B, endpoint: Endpoint) -> Self {
        Self { inner, endpoint, last: Instant::now(), timer: None, is_between: true, has_begun: false }
    }

    /// Waits until the caller should hear something.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let last = self.last;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(last + SILENCE)));
        loop {
            ready!(timer.as_mut().poll(cx));
            let due = self.last + SILENCE;
            let now = Instant::now();
            if due > now {
                timer.as_mut().reset(due);
                continue;
            }
            self.last = now;
            timer.as_mut().reset(now + SILENCE);
            if self.is_between {
                return Poll::Ready(());
            }
        }
    }

    fn sign_of_life(&self) -> Bytes {
        // Before the message has begun, clients expect no event of it.
        let is_ping = self.endpoint == Endpoint::Messages && self.has_begun;
        Bytes::from_static(if is_ping { PING } else { COMMENT })
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for KeptAlive<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Pending => {
                ready!(self.poll_silence(cx));
                Poll::Ready(Some(Ok(Frame::data(self.sign_of_life()))))
            }
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame
                    && let Some(data) = frame.data_ref().filter(|data| !data.is_empty())
                {
                    self.last = Instant::now();
                    self.is_between = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"].iter().any(|end| data.ends_with(end));
                    self.has_begun |= !data.starts_with(b":");
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Signs of life make a body longer than it says.
        let hint = self.inner.size_hint();
        let mut longer = SizeHint::new();
        longer.set_lower(hint.lower());
        longer
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    /// Text that a caller reads of pieces that come so many seconds after each other.
    async fn read(endpoint: Endpoint, pieces: &[(u64, &'static str)]) -> String {
        let pieces = stream::iter(pieces.to_vec()).then(|(seconds, piece)| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(piece.as_bytes())))
        });
        let body = KeptAlive::new(StreamBody::new(Box::pin(pieces)), endpoint);
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_silence_is_broken_between_events() {
        let quick = [(1, "data: a\n\n"), (9, "data: b\n\n"), (9, "data: c\n\n")];
        assert_eq!(read(Endpoint::Chat, &quick).await, "data: a\n\ndata: b\n\ndata: c\n\n");
        let slow = [(1, "data: a\n\n"), (25, "data: b\n\n")];
        let kept = ": keep-alive\n\n: keep-alive\n\n";
        assert_eq!(read(Endpoint::Responses, &slow).await, format!("data: a\n\n{kept}data: b\n\n"));
        let split = [(1, "data: a"), (25, "\n\n"), (11, "data: b\n\n")];
        assert_eq!(read(Endpoint::Chat, &split).await, "data: a\n\n: keep-alive\n\ndata: b\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn messages_get_the_ping_of_their_api_once_begun() {
        let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
        let pieces = [(11, "event: message_start\ndata: {}\n\n"), (11, "event: message_stop\ndata: {}\n\n")];
        let want = format!(": keep-alive\n\n{}{ping}{}", pieces[0].1, pieces[1].1);
        assert_eq!(read(Endpoint::Messages, &pieces).await, want);
    }
}
