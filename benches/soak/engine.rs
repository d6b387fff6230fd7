//! A mock engine that sends the requested number of words at a pace, with optional faults.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

const FIRST: Duration = Duration::from_millis(50);

/// A running engine.
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    /// Open connections.
    pub(crate) connections: Arc<AtomicUsize>,
    /// Requests received.
    pub(crate) requests: Arc<AtomicUsize>,
}

/// Behaviour of an engine.
#[derive(Copy, Clone)]
pub(crate) enum Behaviour {
    /// Sends a word per interval.
    Pace(Duration),
    /// The same, and every n-th request gets no answer.
    Stalls(Duration, usize),
    /// Answers every request with an error.
    Down,
}

/// Starts an engine that runs until the process ends.
pub(crate) async fn start(behaviour: Behaviour) -> io::Result<Engine> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let engine = Engine { address: listener.local_addr()?, connections: Arc::default(), requests: Arc::default() };
    let (connections, requests) = (engine.connections.clone(), engine.requests.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (connections, requests) = (connections.clone(), requests.clone());
            connections.fetch_add(1, Relaxed);
            tokio::spawn(async move {
                serve(stream, behaviour, &requests).await;
                connections.fetch_sub(1, Relaxed);
            });
        }
    });
    Ok(engine)
}

async fn serve(stream: TcpStream, behaviour: Behaviour, requests: &AtomicUsize) {
    stream.set_nodelay(true).ok();
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(request, behaviour, requests).await) });
    // An error means that the other side closed the connection.
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn answer(
    request: Request<Incoming>,
    behaviour: Behaviour,
    requests: &AtomicUsize,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let counted = if request.method() == Method::POST { requests.fetch_add(1, Relaxed) + 1 } else { 0 };
    let pace = match behaviour {
        _ if counted == 0 => Duration::ZERO,
        Behaviour::Pace(pace) => pace,
        Behaviour::Stalls(pace, nth) => {
            if counted.is_multiple_of(nth) {
                std::future::pending::<()>().await;
            }
            pace
        }
        Behaviour::Down => {
            let reply = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
            return reply.body(Full::new(Bytes::new()).boxed_unsync()).expect("the answer is valid");
        }
    };
    let requests = counted > 0;
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let tokens = serde_json::from_slice::<Value>(&body).ok().and_then(|body| body["max_tokens"].as_u64());
    let reply = Response::builder().status(if requests { StatusCode::OK } else { StatusCode::NOT_FOUND });
    let Some(tokens) = tokens.filter(|_| requests) else {
        return reply.body(Full::new(Bytes::new()).boxed_unsync()).expect("the answer is valid");
    };
    let frames = stream::unfold(0, move |at| async move {
        if at > tokens {
            return None;
        }
        tokio::time::sleep(if at == 0 { FIRST } else { pace }).await;
        Some((Ok(Frame::data(event(at, tokens))), at + 1))
    });
    let body = StreamBody::new(Box::pin(frames)).boxed_unsync();
    reply.header(header::CONTENT_TYPE, "text/event-stream").body(body).expect("the answer is valid")
}

fn event(at: u64, tokens: u64) -> Bytes {
    let head = r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":"#;
    let text = if at < tokens {
        format!("{head}[{{\"index\":0,\"delta\":{{\"content\":\" word{at}\"}},\"finish_reason\":null}}]}}\n\n")
    } else {
        format!("{head}[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n")
    };
    text.into()
}
