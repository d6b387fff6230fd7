//! Plain HTTP/1 connections to engines, each driven by the task that waits for its answer.
//!
//! A usual client runs each connection in a task of its own, which hands every piece of an answer to the task that reads
//! it: two task switches for each event of a stream, and a burst of events leaves the gateway one by one. Here the reader
//! of an answer polls the connection itself. So an event costs one wake-up, by the socket, and events that arrive
//! together are read together. Requests over TLS take the usual client (`docs/dev/decisions/063-direct-connections.md`,
//! `075-own-client.md`).

mod answer;
mod broken;
mod connection;
mod framing;
mod head;
mod idle;
mod place;

use std::{future::poll_fn, sync::Arc, time::Duration};

use http::{Response, Uri, header};
use hyper_util::client::legacy::connect::HttpConnector;
use tower::Service;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::framing::fuzz_http_answer;
pub(super) use self::{
    answer::Answer,
    broken::Broken,
    place::{Place, Request, request},
};
use self::{answer::Whole, connection::Connection, framing::Framing, head::Head, idle::Idle};
use super::outgoing::{SendError, causes};

/// Connections to all engines, by host and port.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    idle: Arc<Idle>,
    connector: HttpConnector,
    connect: Duration,
}

enum Exchange {
    Answered(Response<Answer>),
    Unsent(Request, String),
}

impl Direct {
    /// Keeps idle connections for `idle`, and waits `connect` for new ones.
    pub(super) fn new(connect: Duration, idle: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { idle: Arc::new(Idle::new(idle)), connector, connect }
    }

    /// Sends `request` to the engine at `place` over an idle connection, unless `fresh`, or else over a new one.
    pub(super) async fn send(
        &self,
        place: &str,
        fresh: bool,
        mut request: Request,
    ) -> Result<Response<Answer>, SendError> {
        while let Some((authority, connection)) = (!fresh).then(|| self.idle.take(place)).flatten() {
            match self.exchange(authority, connection, request).await? {
                Exchange::Answered(answer) => return Ok(answer),
                // The connection ended before anything was sent: another one is as good.
                Exchange::Unsent(again, _) => request = again,
            }
        }
        let connection = self.open(place).await?;
        match self.exchange(place.into(), connection, request).await? {
            Exchange::Answered(answer) => Ok(answer),
            Exchange::Unsent(_, cause) => Err(SendError::Lost(cause)),
        }
    }

    async fn open(&self, authority: &str) -> Result<Box<Connection>, SendError> {
        let no = |error: &(dyn std::error::Error + 'static)| SendError::connect(error);
        let uri = Uri::try_from(format!("http://{authority}/")).map_err(|error| no(&error))?;
        let opened = tokio::time::timeout(self.connect, self.connector.clone().call(uri)).await;
        let stream =
            opened.map_err(|_| SendError::Connect("operation timed out".into()))?.map_err(|error| no(&error))?;
        Ok(Box::new(Connection::new(stream.into_inner())))
    }

    async fn exchange(
        &self,
        authority: Arc<str>,
        mut connection: Box<Connection>,
        request: Request,
    ) -> Result<Exchange, SendError> {
        let head_only = request.head_only;
        connection.ask(request);
        let lost = |broken: &Broken| SendError::Lost(causes(broken));
        let head = match poll_fn(|cx| connection.poll_head(cx)).await {
            Ok(head) => head,
            Err(broken) => {
                let unsent = connection.take_unsent().map(|request| Exchange::Unsent(request, causes(&broken)));
                return unsent.ok_or_else(|| lost(&broken));
            }
        };
        let framing = Framing::of(&head, head_only).map_err(|broken| lost(&broken))?;
        let whole = is_reusable(&head).then(|| Whole { authority, idle: Arc::downgrade(&self.idle) });
        let mut response = Response::new(Answer { framing, connection: Some(connection), whole });
        (*response.status_mut(), *response.version_mut()) = (head.status, head.version);
        *response.headers_mut() = head.headers;
        Ok(Exchange::Answered(response))
    }
}

/// True if the connection can be used again after this answer. One with two lengths may end elsewhere for the engine.
fn is_reusable(head: &Head) -> bool {
    let has = |name| head.headers.contains_key(name);
    head.keeps_alive() && !(has(header::TRANSFER_ENCODING) && has(header::CONTENT_LENGTH))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};
    use http_body_util::BodyExt;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::{AnswerBody, BodyError};

    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n";
    const PART: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart";
    const LAST: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

    const OLD: &str = "HTTP/1.0 200 OK\r\n\r\nold";
    const NOTHING: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\n";
    const SURPLUS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokay";
    const TWO_LENGTHS: &str =
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";

    /// Serves each connection with one of `scripts`: an answer to each request, then the end of the connection. Returns
    /// the requests in order.
    async fn serve(listener: TcpListener, scripts: &'static [&'static [&'static str]]) -> Vec<String> {
        let mut asked = Vec::new();
        for script in scripts {
            let (mut stream, _) = listener.accept().await.unwrap();
            for answer in *script {
                let mut read = vec![0; 4096];
                let size = stream.read(&mut read).await.unwrap();
                asked.push(String::from_utf8_lossy(&read[..size]).into_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        asked
    }

    async fn client() -> (Direct, TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/x?y=z", listener.local_addr().unwrap());
        (Direct::new(Duration::from_secs(5), Duration::from_secs(4)), listener, url)
    }

    /// More than the buffers of both sockets hold.
    const LARGE: usize = 64 << 20;

    async fn ask(direct: &Direct, url: &str) -> Result<Response<Answer>, SendError> {
        ask_with(direct, url, Bytes::from_static(b"{}")).await
    }

    async fn ask_with(direct: &Direct, url: &str, body: Bytes) -> Result<Response<Answer>, SendError> {
        let place = Place::of(url).unwrap();
        direct.send(place.authority, false, request(&place, &Method::POST, HeaderMap::new(), body)?).await
    }

    async fn text(answer: Response<Answer>) -> Result<String, BodyError> {
        let body = AnswerBody::from(answer.into_body());
        Ok(String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned())
    }

    #[tokio::test]
    async fn a_connection_is_used_again_after_a_whole_answer() {
        let (direct, listener, url) = client().await;
        let play = async {
            for expected in ["ok", "ab", "ok"] {
                assert_eq!(text(ask(&direct, &url).await.unwrap()).await.unwrap(), expected);
            }
        };
        let (asked, ()) = tokio::join!(serve(listener, &[&[WHOLE, CHUNKED, LAST]]), play);
        let host = url.split('/').nth(2).unwrap();
        let expected =
            format!("POST /v1/x?y=z HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\ncontent-length: 2\r\n\r\n{{}}");
        assert_eq!(asked, vec![expected; 3]);
    }

    #[tokio::test]
    async fn a_connection_that_the_engine_closed_is_replaced() {
        let (direct, listener, url) = client().await;
        let play = async {
            for _ in 0..3 {
                assert_eq!(text(ask(&direct, &url).await.unwrap()).await.unwrap(), "ok");
            }
        };
        let (asked, ()) = tokio::join!(serve(listener, &[&[WHOLE], &[LAST], &[WHOLE]]), play);
        assert_eq!(asked.len(), 3);
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_to_its_end_closes_its_connection() {
        let (direct, listener, url) = client().await;
        let play = async {
            drop(ask(&direct, &url).await.unwrap());
            assert_eq!(text(ask(&direct, &url).await.unwrap()).await.unwrap(), "ok");
        };
        tokio::join!(serve(listener, &[&[PART], &[WHOLE]]), play);
    }

    #[tokio::test]
    async fn cut_answers_are_errors() {
        let (direct, listener, url) = client().await;
        let play = async {
            assert!(text(ask(&direct, &url).await.unwrap()).await.is_err());
            assert!(matches!(ask(&direct, &url).await, Err(SendError::Lost(_))));
        };
        tokio::join!(serve(listener, &[&[PART], &[""]]), play);
        assert!(matches!(ask(&direct, &url).await, Err(SendError::Connect(_))));
    }

    #[tokio::test]
    async fn an_early_answer_is_read_and_ends_its_connection() {
        let (direct, listener, url) = client().await;
        let play = async {
            let answer = ask_with(&direct, &url, vec![b'x'; LARGE].into()).await;
            assert_eq!(text(answer.unwrap()).await.unwrap(), "ok");
            assert_eq!(text(ask(&direct, &url).await.unwrap()).await.unwrap(), "ok");
        };
        let early = async {
            let (mut first, _) = listener.accept().await.unwrap();
            first.read_exact(&mut [0; 100]).await.unwrap();
            first.write_all(WHOLE.as_bytes()).await.unwrap();
            // The first connection stays open until the second one is there.
            assert_eq!(serve(listener, &[&[WHOLE]]).await.len(), 1);
        };
        tokio::join!(early, play);
    }

    #[tokio::test]
    async fn an_answer_is_read_though_the_request_could_not_be_sent() {
        let (direct, listener, url) = client().await;
        let play = async {
            let answer = ask_with(&direct, &url, vec![b'x'; LARGE].into()).await;
            assert_eq!(text(answer.unwrap()).await.unwrap(), "ok");
        };
        // Closed with bytes that were not read, so that the rest is refused.
        tokio::join!(serve(listener, &[&[LAST]]), play);
    }

    #[tokio::test]
    async fn surplus_bytes_end_their_connection() {
        let (direct, listener, url) = client().await;
        let play = async {
            for _ in 0..3 {
                assert_eq!(text(ask(&direct, &url).await.unwrap()).await.unwrap(), "ok");
            }
        };
        let (asked, ()) = tokio::join!(serve(listener, &[&[SURPLUS], &[TWO_LENGTHS], &[WHOLE]]), play);
        assert_eq!(asked.len(), 3);
    }

    #[tokio::test]
    async fn answers_that_end_with_their_connection_are_whole() {
        let (direct, listener, url) = client().await;
        let play = async {
            assert_eq!(text(ask(&direct, &url).await.unwrap()).await.unwrap(), "old");
            let answer = ask(&direct, &url).await.unwrap();
            assert_eq!(answer.status(), 204);
            assert!(answer.body().is_end_stream());
        };
        tokio::join!(serve(listener, &[&[OLD], &[NOTHING]]), play);
    }
}
