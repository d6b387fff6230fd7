//! The listener: accepts connections, sets `TCP_NODELAY`, completes TLS handshakes, bounds the time a client may take over its headers,
//! and drains.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use axum::{Router, body::Body, response::IntoResponse};
use http::{Request, StatusCode};
use hyper::{body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tower::ServiceExt;

use super::{
    tls::Certificate,
    unread_body::{Lingering, UnreadBody},
    write_timeout::WriteTimeout,
};
use signalbox_gateway::{Descriptors, OpenConnection, Reply, SocketSession};
use signalbox_protocol::error;
use signalbox_types::Fault;

/// Time after which a client that reads nothing of its response is disconnected.
pub(super) const WRITE_LIMIT: Duration = Duration::from_mins(2);
/// Pause before the next accept when file descriptors are exhausted.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);
/// Time between two log entries of accepts that fail.
const ACCEPT_LOG: Duration = Duration::from_secs(10);
/// Most bytes that are read from a client that sends plain text to a TLS listener.
const PLAIN_TEXT_LIMIT: u64 = 64 << 10;

/// Tasks of one listener: its connections and their HTTP/2 streams.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().spawn(task);
    }

    /// Releases each task that has ended. Without it the memory of a task would stay as long as the listener.
    async fn release(&self) -> Infallible {
        poll_fn(|cx| {
            let mut tasks = self.0.lock();
            while matches!(tasks.poll_join_next(cx), Poll::Ready(Some(_))) {}
            Poll::Pending
        })
        .await
    }

    /// Aborts the remaining tasks and waits until they are dropped.
    async fn end(&self) {
        let mut tasks = std::mem::take(&mut *self.0.lock());
        tasks.shutdown().await;
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.spawn(async move {
            task.await;
        });
    }
}

/// Answers the requests of a listener.
pub(super) trait App: Clone + Send + Sync + 'static {
    /// Answers one request of the client at `peer`. `hang_up` closes its connection.
    fn answer(self, request: Request<Body>, peer: SocketAddr, hang_up: HangUp) -> impl Future<Output = Reply> + Send;
}

impl App for Router {
    async fn answer(self, mut request: Request<Body>, peer: SocketAddr, _: HangUp) -> Reply {
        request.extensions_mut().insert(Peer(peer));
        self.oneshot(request).await.into_response()
    }
}

/// Address of the client of a request to a [`Router`], as an extension.
#[derive(Copy, Clone, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Bounds on a listener's connections.
#[derive(Clone)]
pub(super) struct Bounds {
    /// Time limit for the TLS handshake, and for the request headers.
    pub(super) header: Duration,
    /// Time that connections may continue once the listener is closed.
    pub(super) drain: Duration,
    /// Open descriptors of the process.
    pub(super) descriptors: Arc<Descriptors>,
}

/// State shared by the connections of a listener.
struct Listener<A> {
    app: A,
    builder: auto::Builder<Tasks>,
    /// Time limit for the TLS handshake, and for the request headers.
    header: Duration,
    stop: watch::Receiver<bool>,
    /// Held by each connection, also when it is a WebSocket.
    open: mpsc::WeakSender<Infallible>,
}

/// Closes the connection of a request.
#[derive(Clone, Default)]
pub(super) struct HangUp(Arc<Notify>);

impl HangUp {
    pub(super) fn now(&self) {
        self.0.notify_one();
    }
}

/// Connections that outlived the drain.
pub(super) struct Leftover {
    tasks: Tasks,
    /// True if no connection was left when serving ended.
    pub(super) drained: bool,
}

impl Leftover {
    /// Aborts them. Here rather than with the process, so that cut requests are still recorded.
    pub(super) async fn end(self) {
        self.tasks.end().await;
    }
}

/// Serves `app` until `stop` turns true. Then lets connections finish for at most the time in `bounds`, and returns the remaining ones. Connections
/// use TLS if `certificate` holds one.
pub(super) async fn serve(
    listener: TcpListener,
    app: impl App,
    certificate: Option<Arc<Certificate>>,
    bounds: Bounds,
    mut stop: watch::Receiver<bool>,
) -> Leftover {
    let Bounds { header, drain, descriptors } = bounds;
    let graceful = GracefulShutdown::new();
    let tasks = Tasks::default();
    let mut builder = auto::Builder::new(tasks.clone());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30)));
    let (open, mut all_closed) = mpsc::channel(1);
    let shared = Arc::new(Listener { app, builder, header, stop: stop.clone(), open: open.downgrade() });
    let (mut failures, mut refused) = (Failures::default(), Failures::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            never = tasks.release() => match never {},
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(open) = descriptors.connection() else {
                    if let Some(count) = refused.note(Instant::now()) {
                        tracing::error!(count, "listener: connections refused: no descriptors left (`ulimit -n`)");
                    }
                    refuse(&stream, certificate.is_some());
                    continue;
                };
                let acceptor = certificate.as_ref().and_then(|certificate| certificate.acceptor());
                tasks.spawn(shared.clone().connection(stream, peer, acceptor, graceful.watcher(), open));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                if let Some(count) = failures.note(Instant::now()) {
                    tracing::error!(%error, count, "listener: accept failed, retrying: file descriptors may be exhausted");
                }
                tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            }
        }
    }
    drop(listener);
    drop(open);
    let all = async {
        graceful.shutdown().await;
        all_closed.recv().await;
    };
    let drained = timeout(drain, all).await.is_ok();
    Leftover { tasks, drained }
}

impl<A: App> Listener<A> {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        acceptor: Option<TlsAcceptor>,
        watcher: Watcher,
        _open: OpenConnection,
    ) {
        // Without it, small events wait up to 40 ms for the client's acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "listener: TCP_NODELAY could not be set");
        }
        match acceptor {
            None => self.serve_stream(WriteTimeout::new(stream, WRITE_LIMIT), peer, watcher).await,
            // Boxed, so that the task of a plain connection is small.
            Some(acceptor) => Box::pin(self.serve_secured(stream, peer, acceptor, watcher)).await,
        }
    }

    /// Completes the TLS handshake, and serves the connection.
    async fn serve_secured(&self, stream: TcpStream, peer: SocketAddr, acceptor: TlsAcceptor, watcher: Watcher) {
        let mut stop = self.stop.clone();
        let secured = tokio::select! {
            secured = timeout(self.header, secured(stream, peer, &acceptor)) => secured,
            // Shutdown does not wait for handshakes.
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match secured {
            Ok(Some(stream)) => self.serve_stream(stream, peer, watcher).await,
            Ok(None) => {}
            Err(_) => tracing::debug!(%peer, "listener: TLS handshake timed out"),
        }
    }

    async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        peer: SocketAddr,
        watcher: Watcher,
    ) {
        // HTTP and WebSocket are watched differently: this is held for both.
        let _open = self.open.upgrade();
        let socket = Arc::new(Mutex::new(None));
        let upgraded = socket.clone();
        let asked = Arc::new(AtomicBool::new(false));
        let ask = asked.clone();
        let hang_up = HangUp::default();
        let left = hang_up.clone();
        let app = self.app.clone();
        let (stream, lingering) = Lingering::of(stream);
        let lingers = lingering.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            ask.store(true, Relaxed);
            let (app, hang_up, upgraded) = (app.clone(), hang_up.clone(), upgraded.clone());
            let (lingers, (request, unread)) = (lingers.clone(), UnreadBody::watch(request));
            // Boxed: hyper keeps the room of a future as long as the connection, also while the answer is streamed.
            Box::pin(async move {
                let mut reply = app.answer(request, peer, hang_up).await;
                if let Some(unread) = unread
                    && unread.settle(&mut reply).await
                {
                    lingers.announced();
                }
                if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
                    *upgraded.lock() = reply.extensions_mut().remove::<SocketSession>();
                }
                Ok::<_, Infallible>(reply)
            })
        });
        // A block, so that the stream is given back after it.
        {
            let connection = self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            let mut serving = pin!(watcher.watch(connection));
            // hyper's header timer starts with the first bytes, which decide HTTP/1 or HTTP/2: a silent connection would stay for ever.
            let ended = match timeout(self.header, serving.as_mut()).await {
                Ok(ended) => ended,
                Err(_) if asked.load(Relaxed) => tokio::select! {
                    ended = serving => ended,
                    () = left.0.notified() => return,
                },
                Err(_) => return,
            };
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "listener: connection failed");
            }
        }
        let mut stop = self.stop.clone();
        tokio::select! {
            () = lingering.end() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        let session = socket.lock().take();
        if let Some(session) = session {
            session.run(self.stop.clone()).await;
        }
    }
}

/// Tells a client of plain HTTP that there is no room, as far as its connection takes that at once.
fn refuse(stream: &TcpStream, secured: bool) {
    let fault =
        Fault::overloaded("this process has no descriptors for more connections (raise its limit, `ulimit -n`)");
    let body = error::body(None, &fault);
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n",
        body.len()
    );
    if !secured {
        let _ = stream.try_write(&[head.as_bytes(), &body].concat());
    }
}

/// First byte of a TLS handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Completes the TLS handshake; `None` if it fails. A client that speaks plain HTTP gets a 400 that names `https`.
async fn secured(
    mut stream: TcpStream,
    peer: SocketAddr,
    acceptor: &TlsAcceptor,
) -> Option<TlsStream<WriteTimeout<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await.is_ok_and(|seen| seen > 0) && first != [HANDSHAKE] {
        let message = "this address is served over TLS: ask it by https://";
        let body = error::body(None, &Fault::client(StatusCode::BAD_REQUEST, "no_tls", message).with_code("no_tls"));
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        // Read what was sent: otherwise the kernel resets the connection and the client loses the answer.
        let _ = tokio::io::copy(&mut stream.take(PLAIN_TEXT_LIMIT), &mut tokio::io::sink()).await;
        return None;
    }
    let handshake = acceptor.accept(WriteTimeout::new(stream, WRITE_LIMIT)).await;
    handshake.inspect_err(|error| tracing::debug!(%peer, %error, "listener: TLS handshake failed")).ok()
}

/// Failed accepts, which are logged with their number once in a while.
#[derive(Default)]
struct Failures {
    unlogged: u64,
    logged: Option<Instant>,
}

impl Failures {
    /// Counts a failure. Returns the number of failures to log now.
    fn note(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        if self.logged.is_some_and(|logged| now.duration_since(logged) < ACCEPT_LOG) {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

/// True if the error concerns one connection and not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Open streams are as many as connections, so each byte counts ten thousand times.
    #[test]
    fn the_task_of_a_connection_is_small() {
        type Connect<F> =
            fn(Arc<Listener<Router>>, TcpStream, SocketAddr, Option<TlsAcceptor>, Watcher, OpenConnection) -> F;
        fn size<F>(_: Connect<F>) -> usize {
            size_of::<F>()
        }
        let size = size(Listener::connection);
        assert!(size <= 3 << 10, "{size} bytes");
    }

    #[tokio::test]
    async fn tasks_that_have_ended_are_released() {
        let tasks = Tasks::default();
        tasks.spawn(async {});
        tasks.spawn(std::future::pending());
        let one_is_left = async {
            while tasks.0.lock().len() > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            never = tasks.release() => match never {},
            released = timeout(Duration::from_secs(10), one_is_left) => released.unwrap(),
        }
    }

    #[test]
    fn failed_accepts_are_logged_every_ten_seconds() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let logged: Vec<_> = (0..=300).filter_map(|tick| failures.note(start + tick * OUT_OF_DESCRIPTORS)).collect();
        assert_eq!(logged, [1, 200]);
    }
}
