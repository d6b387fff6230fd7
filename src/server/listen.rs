//! The door: accepts connections, sets `TCP_NODELAY`, bounds how long a client may take over its headers, and drains.

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
use http::Request;
use hyper::{body::Incoming, rt::Executor};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tower::ServiceExt;

use super::patient::Patient;

/// How long a client may take nothing of what is written to it.
const UNREAD: Duration = Duration::from_mins(2);
/// How long to wait when the system has no more descriptors to give.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

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

/// Serves `app` until `stop` turns true, then lets every connection finish what it is at, for at most `drain`, and cuts the
/// others. Returns whether all of them finished.
pub(super) async fn serve(
    listener: TcpListener,
    app: Router,
    header: Duration,
    drain: Duration,
    mut stop: watch::Receiver<bool>,
) -> bool {
    let graceful = GracefulShutdown::new();
    let tasks = Tasks::default();
    let mut builder = auto::Builder::new(tasks.clone());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30)));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, _)) => tasks.spawn(connection(stream, &app, header, &builder, &graceful)),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            }
        }
    }
    drop(listener);
    let drained = tokio::time::timeout(drain, graceful.shutdown()).await.is_ok();
    // Ended here and not with the process, so that what is cut is still noted.
    tasks.end().await;
    drained
}

fn connection(
    stream: TcpStream,
    app: &Router,
    header: Duration,
    builder: &auto::Builder<Tasks>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    // Without it, small events wait for the client's acknowledgement: 40 ms each.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let asked = Arc::new(AtomicBool::new(false));
    let ask = asked.clone();
    let service = app.clone().map_request(move |request: Request<Incoming>| {
        ask.store(true, Relaxed);
        request.map(Body::new)
    });
    let connection =
        builder.serve_connection(TokioIo::new(Patient::new(stream, UNREAD)), TowerToHyperService::new(service));
    let watched = graceful.watch(connection.into_owned());
    async move {
        let mut watched = pin!(watched);
        // hyper's own timer starts only when the first bytes have told HTTP/1 from HTTP/2: silence would last for ever.
        let ended = match tokio::time::timeout(header, watched.as_mut()).await {
            Ok(ended) => ended,
            Err(_) if asked.load(Relaxed) => watched.await,
            Err(_) => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}

/// Whether the error is about the one connection and not about the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
