//! The listener: accepts connections, sets `TCP_NODELAY`, completes TLS handshakes, bounds the time a client may take over its headers,
//! and drains.

use std::{
    io,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{Router, body::Body};
use http::{Request, StatusCode};
use hyper::{body::Incoming, rt::Executor};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tower::ServiceExt;

use super::{tls::Certificate, write_timeout::WriteTimeout};
use crate::{protocol::error, types::Fault};

/// How long a client may take nothing of what is written to it.
pub(super) const UNREAD: Duration = Duration::from_mins(2);
/// How long to wait when the system has no more descriptors to give.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);
/// How much is read of a client that speaks in the clear where it should not, in bytes.
const LONGEST_READ: u64 = 64 << 10;

/// The tasks of one listener: its connections, and the streams of those that speak HTTP/2.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends those that are left, and waits until they have let go of what they held.
    async fn end(&self) {
        let mut tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
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

/// What all connections of a listener have in common.
struct Listener {
    app: Router,
    builder: auto::Builder<Tasks>,
    /// How long a client may take over its handshake, and over its headers.
    header: Duration,
    stop: watch::Receiver<bool>,
}

/// Ends the connection that a request came on; it is among the request's extensions.
#[derive(Clone, Default)]
pub(super) struct HangUp(Arc<Notify>);

impl HangUp {
    pub(super) fn now(&self) {
        self.0.notify_one();
    }
}

/// What is left of a listener that has closed, and had its time to drain.
pub(super) struct Leftover {
    tasks: Tasks,
    /// Whether nothing was under way any more.
    pub(super) drained: bool,
}

impl Leftover {
    /// Ends it. Here and not with the process, so that what is cut is still noted.
    pub(super) async fn end(self) {
        self.tasks.end().await;
    }
}

/// Serves `app` until `stop` turns true, then lets every connection finish what it is at, for at most `drain`; returns the others.
/// Connections are secured where `certificate` is one.
pub(super) async fn serve(
    listener: TcpListener,
    app: Router,
    certificate: Option<Arc<Certificate>>,
    header: Duration,
    drain: Duration,
    mut stop: watch::Receiver<bool>,
) -> Leftover {
    let graceful = GracefulShutdown::new();
    let tasks = Tasks::default();
    let mut builder = auto::Builder::new(tasks.clone());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30)));
    let listener_state = Arc::new(Listener { app, builder, header, stop: stop.clone() });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let acceptor = certificate.as_ref().and_then(|certificate| certificate.acceptor());
                tasks.spawn(listener_state.clone().connection(stream, acceptor, graceful.watcher()));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            }
        }
    }
    drop(listener);
    let drained = timeout(drain, graceful.shutdown()).await.is_ok();
    Leftover { tasks, drained }
}

impl Listener {
    async fn connection(self: Arc<Self>, stream: TcpStream, acceptor: Option<TlsAcceptor>, watcher: Watcher) {
        // Without it, small events wait for the client's acknowledgement: 40 ms each.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Some(acceptor) = acceptor else { return self.converse(WriteTimeout::new(stream, UNREAD), watcher).await };
        let mut stop = self.stop.clone();
        let secured = tokio::select! {
            secured = timeout(self.header, secured(stream, &acceptor)) => secured,
            // A handshake is nothing that the end waits for.
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match secured {
            Ok(Some(stream)) => self.converse(stream, watcher).await,
            Ok(None) => {}
            Err(_) => tracing::debug!("a client took too long over its handshake"),
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S, watcher: Watcher) {
        let asked = Arc::new(AtomicBool::new(false));
        let ask = asked.clone();
        let hang_up = HangUp::default();
        let left = hang_up.clone();
        let service = self.app.clone().map_request(move |mut request: Request<Incoming>| {
            ask.store(true, Relaxed);
            request.extensions_mut().insert(hang_up.clone());
            request.map(Body::new)
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut conversation = pin!(watcher.watch(connection));
        // hyper's own timer starts only when the first bytes have told HTTP/1 from HTTP/2: silence would last for ever.
        let ended = match timeout(self.header, conversation.as_mut()).await {
            Ok(ended) => ended,
            Err(_) if asked.load(Relaxed) => tokio::select! {
                ended = conversation => ended,
                () = left.0.notified() => return,
            },
            Err(_) => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}

/// The first byte of a handshake's record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// A connection after its handshake; `None` where there was none. Who speaks in the clear is told so.
async fn secured(mut stream: TcpStream, acceptor: &TlsAcceptor) -> Option<TlsStream<WriteTimeout<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await.is_ok_and(|seen| seen > 0) && first != [HANDSHAKE] {
        let message = "this address is served over TLS: ask it by https://";
        let body = error::body(None, &Fault::client(StatusCode::BAD_REQUEST, "no_tls", message).with_code("no_tls"));
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        // What came is read, lest the system answer it with a reset that takes the answer with it.
        let _ = tokio::io::copy(&mut stream.take(LONGEST_READ), &mut tokio::io::sink()).await;
        return None;
    }
    let handshake = acceptor.accept(WriteTimeout::new(stream, UNREAD)).await;
    handshake.inspect_err(|error| tracing::debug!(%error, "a handshake failed")).ok()
}

/// Whether the error is about the one connection and not about the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
