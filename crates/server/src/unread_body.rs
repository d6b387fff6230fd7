//! Bodies of requests that are answered before they were read, such as those with a wrong key: the rest is read where it
//! is short, so that the connection serves the next request, and otherwise the answer announces that the connection is
//! closed (RFC 9112, section 9.6).

use std::{
    io::IoSlice,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::{
    io::{self, AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    time::timeout,
};

use signalbox_gateway::Reply;

/// Most bytes of a body that are read for the sake of the connection, and the longest wait for them.
const SHORT: u64 = 256 << 10;
const SOON: Duration = Duration::from_millis(500);
/// Most bytes, and the longest time, for which a closed connection is still read: the kernel would reset one with unread
/// bytes, and the client would lose the answer.
const LINGER_BYTES: u64 = 64 << 20;
const LINGER: Duration = Duration::from_secs(5);

/// The body of a request while it is answered.
pub(super) struct UnreadBody {
    /// The body, once its reader has dropped it before its end.
    left: Arc<Mutex<Option<Incoming>>>,
    /// True if the client waits for a 100 before it sends the body.
    waits: bool,
}

/// A body that is kept where its reader drops it before its end.
struct KeptBody {
    inner: Option<Incoming>,
    left: Arc<Mutex<Option<Incoming>>>,
}

impl UnreadBody {
    /// Watches the body of `request`; `None` where there is none, or where other requests do not depend on it.
    pub(super) fn watch(request: Request<Incoming>) -> (Request<Body>, Option<Self>) {
        if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
            return (request.map(Body::new), None);
        }
        let left = Arc::<Mutex<Option<Incoming>>>::default();
        let waits = request.headers().contains_key(header::EXPECT);
        let kept = left.clone();
        let request = request.map(|body| Body::new(KeptBody { inner: Some(body), left: kept }));
        (request, Some(Self { left, waits }))
    }

    /// Reads what is left of the body before `reply` is sent. Returns true if the connection has to be closed instead,
    /// which the reply then says.
    pub(super) async fn settle(self, reply: &mut Reply) -> bool {
        let Some(body) = self.left.lock().take() else { return false };
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS || !self.waits && drained(body).await {
            return false;
        }
        announce(reply.headers_mut());
        true
    }
}

/// Announces the end of the connection, beside what else the header says.
fn announce(headers: &mut HeaderMap) {
    let is_said = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("close"));
    if !headers.get_all(header::CONNECTION).iter().any(is_said) {
        headers.append(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Reads a short body to its end; false if it is long, slow or broken.
async fn drained(mut body: Incoming) -> bool {
    if body.size_hint().lower() > SHORT {
        return false;
    }
    let read = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > SHORT {
                return false;
            }
        }
        true
    };
    timeout(SOON, read).await.unwrap_or(false)
}

impl http_body::Body for KeptBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map(Incoming::size_hint).unwrap_or_default()
    }
}

impl Drop for KeptBody {
    fn drop(&mut self) {
        *self.left.lock() = self.inner.take().filter(|body| !body.is_end_stream());
    }
}

/// Keeps the stream of a connection whose end was announced, after HTTP is over there.
pub(super) struct Lingering<S> {
    announced: AtomicBool,
    stream: Mutex<Option<S>>,
}

/// A stream that comes back to its [`Lingering`].
pub(super) struct KeptStream<S: Unpin> {
    inner: Option<S>,
    lingering: Arc<Lingering<S>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lingering<S> {
    pub(super) fn of(stream: S) -> (KeptStream<S>, Arc<Self>) {
        let lingering = Arc::new(Self { announced: AtomicBool::new(false), stream: Mutex::new(None) });
        (KeptStream { inner: Some(stream), lingering: lingering.clone() }, lingering)
    }

    /// The end of the connection was announced while the client sends.
    pub(super) fn announced(&self) {
        self.announced.store(true, Relaxed);
    }

    /// Reads what the client still sends, if the end was announced, until it closes the connection.
    pub(super) async fn end(&self) {
        let Some(stream) = self.stream.lock().take() else { return };
        let _ = timeout(LINGER, io::copy(&mut stream.take(LINGER_BYTES), &mut io::sink())).await;
    }
}

impl<S: Unpin> KeptStream<S> {
    fn inner(&mut self) -> io::Result<Pin<&mut S>> {
        self.inner.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: Unpin> Drop for KeptStream<S> {
    fn drop(&mut self) {
        if self.lingering.announced.load(Relaxed) {
            *self.lingering.stream.lock() = self.inner.take();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for KeptStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for KeptStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner()?.poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_shutdown(cx)
    }
}
