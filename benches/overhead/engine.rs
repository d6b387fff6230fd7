//! A mock engine with minimal cost: three kinds of answers on three ports, served by one thread.

use std::{convert::Infallible, net::SocketAddr, sync::mpsc, thread, time::Duration};

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
use tokio::net::{TcpListener, TcpStream};

/// Tokens of an answer that is sent at once.
pub(crate) const BURST: usize = 64;
/// Tokens of an answer that is paced.
pub(crate) const PACED: usize = 12;
const FIRST_TOKEN: Duration = Duration::from_millis(20);
const NEXT_TOKEN: Duration = Duration::from_millis(5);

/// Kinds of answers; each is a model of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One JSON document, at once.
    Plain,
    /// [`BURST`] tokens as events, at once.
    Burst,
    /// [`PACED`] tokens as events: the first after 20 ms, each other one 5 ms after the one before.
    Paced,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Burst, Self::Paced];

    /// Name of the model.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Burst => "burst",
            Self::Paced => "paced",
        }
    }

    pub(crate) fn streams(self) -> bool {
        self != Self::Plain
    }

    /// Number of tokens sent as events.
    pub(crate) fn tokens(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Burst => BURST,
            Self::Paced => PACED,
        }
    }
}

/// Starts one engine per kind in [`Kind::ALL`]. They run until the process ends.
pub(crate) fn start() -> [SocketAddr; 3] {
    let (send, received) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            for kind in Kind::ALL {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                send.send(listener.local_addr().expect("its address")).expect("the starting thread waits for it");
                tokio::spawn(accept(kind, listener));
            }
            std::future::pending::<()>().await;
        });
    });
    std::array::from_fn(|_| received.recv().expect("the engine's thread lives"))
}

async fn accept(kind: Kind, listener: TcpListener) {
    let events = events(kind);
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(kind, events.clone(), stream));
    }
}

async fn serve(kind: Kind, events: Vec<Bytes>, stream: TcpStream) {
    stream.set_nodelay(true).ok();
    let service = service_fn(move |request| {
        let events = events.clone();
        async move { Ok::<_, Infallible>(answer(kind, events, request).await) }
    });
    // An error means that the other side closed the connection.
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn answer(kind: Kind, events: Vec<Bytes>, request: Request<Incoming>) -> Response<Body> {
    let is_completion = request.method() == Method::POST;
    let is_health = request.uri().path() == "/health";
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    // Requests for metrics or models get 404; some peers wait until an engine is healthy.
    if !is_completion {
        let status = if is_health { StatusCode::OK } else { StatusCode::NOT_FOUND };
        return reply(status, "text/plain", Full::new(Bytes::new()).boxed_unsync());
    }
    let body = match kind {
        Kind::Plain => return reply(StatusCode::OK, "application/json", Full::from(PLAIN).boxed_unsync()),
        Kind::Burst => {
            let frames = events.into_iter().map(|event| Ok(Frame::data(event)));
            StreamBody::new(stream::iter(frames)).boxed_unsync()
        }
        Kind::Paced => {
            let frames = stream::unfold((events.into_iter(), FIRST_TOKEN), async |(mut events, wait)| {
                let event = events.next()?;
                tokio::time::sleep(wait).await;
                Some((Ok(Frame::data(event)), (events, NEXT_TOKEN)))
            });
            // Boxed in place: a frame is built while the previous one is being sent.
            StreamBody::new(Box::pin(frames)).boxed_unsync()
        }
    };
    reply(StatusCode::OK, "text/event-stream", body)
}

fn reply(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let builder = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    builder.body(body).expect("the answer is valid")
}

const PLAIN: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1750000000,"model":"plain","choices":[{"index":0,"message":{"role":"assistant","content":"The signal is green: the line is clear as far as the next box, and the train may go on at the speed that the board allows. Watch for the distant signal beyond the bridge."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":256,"completion_tokens":40,"total_tokens":296},"system_fingerprint":"fp_1"}"#;

/// One chunk per token; finish reason, usage and `[DONE]` are sent with the last one.
fn events(kind: Kind) -> Vec<Bytes> {
    let head = format!(
        r#"data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1750000000,"model":"{}","system_fingerprint":"fp_1","choices":"#,
        kind.model()
    );
    let count = kind.tokens();
    let token = |at: usize| {
        format!("{head}[{{\"index\":0,\"delta\":{{\"content\":\" word{at}\"}},\"finish_reason\":null}}]}}\n\n")
    };
    let usage = format!(r#"{{"prompt_tokens":256,"completion_tokens":{count},"total_tokens":{}}}"#, 256 + count);
    let end = format!(
        "{head}[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n{head}[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
    );
    let event = |at: usize| if at + 1 == count { token(at) + &end } else { token(at) };
    (0..count).map(|at| event(at).into()).collect()
}
