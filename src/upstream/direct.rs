//! Plain HTTP/1 connections to engines, each driven by the task that waits for its answer.
//!
//! A usual client runs each connection in a task of its own, which hands every piece of an answer to the task that reads
//! it: two task switches for each event of a stream, and a burst of events leaves the gateway one by one. Here the reader
//! of an answer polls the connection itself. So an event costs one wake-up, by the socket, and events that arrive
//! together are read together. Requests over TLS take the usual client (`docs/dev/decisions/063-direct-connections.md`).

use std::{
    collections::HashMap,
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version, header, uri::PathAndQuery};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{
        TrySendError,
        http1::{self, SendRequest},
    },
};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use parking_lot::Mutex;
use tokio::{net::TcpStream, time::Instant};
use tower::Service;

use super::outgoing::{SendError, causes};

/// Connections to all engines, by host and port.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    idle: Arc<Idle>,
    connector: HttpConnector,
    connect: Duration,
}

/// Connections without a request.
#[derive(Debug)]
struct Idle {
    kept: Mutex<Kept>,
    /// Time for which they are kept.
    time: Duration,
}

#[derive(Debug, Default)]
struct Kept {
    /// The latest at the end.
    by_authority: HashMap<Arc<str>, Vec<(Instant, Box<Connection>)>>,
    /// True while a task drops those kept for too long.
    swept: bool,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

/// An engine's place and what is asked of it, if a plain connection can carry that.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) authority: &'a str,
    target: PathAndQuery,
}

impl<'a> Place<'a> {
    /// Reads `url`. `None` for URLs that need TLS or credentials, or that a URL library would write in another way.
    pub(super) fn of(url: &'a str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (authority, target) = rest.split_at(rest.find('/')?);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&()*+,;=:@/%?".contains(&byte);
        let host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(host) || !target.bytes().all(plain) {
            return None;
        }
        Some(Self { authority, target: target.parse().ok()? })
    }
}

impl Direct {
    /// Keeps idle connections for `idle`, and waits `connect` for new ones.
    pub(super) fn new(connect: Duration, idle: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { idle: Arc::new(Idle { kept: Mutex::default(), time: idle }), connector, connect }
    }

    /// Sends `request` to the engine at `place` over an idle connection, unless `fresh`, or else over a new one.
    pub(super) async fn send(
        &self,
        place: &str,
        fresh: bool,
        mut request: Request<Full<Bytes>>,
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
        let (sender, driver) = http1::handshake(stream).await.map_err(|error| no(&error))?;
        Ok(Box::new(Connection { sender, driver }))
    }

    async fn exchange(
        &self,
        authority: Arc<str>,
        mut connection: Box<Connection>,
        request: Request<Full<Bytes>>,
    ) -> Result<Exchange, SendError> {
        let mut answer = pin!(connection.sender.try_send_request(request));
        let mut over = false;
        // The connection goes first: it sends the request and reads the head.
        let driver = &mut connection.driver;
        let answer = poll_fn(|cx| {
            over = over || Pin::new(&mut *driver).poll(cx).is_ready();
            answer.as_mut().poll(cx)
        });
        match answer.await {
            Ok(response) => {
                let whole = Whole { authority, idle: Arc::downgrade(&self.idle) };
                let connection = (!over).then_some(connection);
                Ok(Exchange::Answered(response.map(|body| Answer { body, connection, whole, ended: false })))
            }
            Err(error) => refused(error),
        }
    }
}

enum Exchange {
    Answered(Response<Answer>),
    Unsent(Request<Full<Bytes>>, String),
}

fn refused(mut error: TrySendError<Request<Full<Bytes>>>) -> Result<Exchange, SendError> {
    let request = error.take_message();
    let cause = causes(&error.into_error());
    match request {
        Some(request) => Ok(Exchange::Unsent(request, cause)),
        None => Err(SendError::Lost(cause)),
    }
}

/// The request with these parts for an engine at `place`.
pub(super) fn request(
    place: &Place<'_>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, SendError> {
    let Place { authority, target } = place;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = Uri::from(target.clone());
    *request.headers_mut() = headers;
    let host = HeaderValue::from_str(authority.strip_suffix(":80").unwrap_or(authority));
    let host = host.map_err(|error| SendError::Connect(error.to_string()))?;
    let headers = request.headers_mut();
    headers.entry(header::HOST).or_insert(host);
    headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Ok(request)
}

// === impl Idle ===

impl Idle {
    /// The latest idle connection that is still open.
    fn take(&self, authority: &str) -> Option<(Arc<str>, Box<Connection>)> {
        loop {
            let (authority, mut connection) = {
                let mut kept = self.kept.lock();
                let (name, connections) = kept.by_authority.get_key_value(authority)?;
                let name = name.clone();
                debug_assert!(!connections.is_empty(), "places without connections are removed");
                let connections = kept.by_authority.get_mut(authority)?;
                let (since, connection) = connections.pop()?;
                if connections.is_empty() {
                    kept.by_authority.remove(authority);
                }
                if since.elapsed() > self.time {
                    // Those before it were kept for longer.
                    kept.by_authority.remove(authority);
                    return None;
                }
                (name, connection)
            };
            if connection.is_open() {
                return Some((authority, connection));
            }
        }
    }

    fn keep(self: &Arc<Self>, authority: Arc<str>, connection: Box<Connection>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut kept = self.kept.lock();
        kept.by_authority.entry(authority).or_default().push((Instant::now(), connection));
        if !std::mem::replace(&mut kept.swept, true) {
            runtime.spawn(sweep(Arc::downgrade(self), self.time));
        }
    }
}

/// Drops connections that were kept for `time`, until there are none.
async fn sweep(idle: Weak<Idle>, time: Duration) {
    loop {
        tokio::time::sleep(time / 2).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut kept = idle.kept.lock();
        kept.by_authority.retain(|_, connections| {
            let late = connections.partition_point(|(since, _)| since.elapsed() > time);
            connections.drain(..late);
            !connections.is_empty()
        });
        if kept.by_authority.is_empty() {
            kept.swept = false;
            return;
        }
    }
}

impl Connection {
    /// True if the engine has not closed it and it can take a request.
    fn is_open(&mut self) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        Pin::new(&mut self.driver).poll(&mut nobody).is_pending() && self.sender.is_ready()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// Body of an answer, with the connection that brings it.
#[derive(Debug)]
pub(super) struct Answer {
    body: Incoming,
    /// `None` once it has ended.
    connection: Option<Box<Connection>>,
    whole: Whole,
    ended: bool,
}

/// The way back of a connection that can be used again.
#[derive(Debug)]
struct Whole {
    authority: Arc<str>,
    idle: Weak<Idle>,
}

impl Answer {
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            // Only the connection fills the body, and it is polled below: nobody has to be woken for the body.
            if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop())) {
                self.ended = frame.is_none();
                return Poll::Ready(frame);
            }
            let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
            if Pin::new(&mut connection.driver).poll(cx).is_ready() {
                // Its error, if any, comes through the body.
                self.connection = None;
                continue;
            }
            let frame = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(frame) = frame {
                self.ended = frame.is_none();
                return Poll::Ready(frame);
            }
            return Poll::Pending;
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let (Some(mut connection), Some(idle)) = (self.connection.take(), self.whole.idle.upgrade()) else { return };
        if self.is_end_stream() && connection.is_open() {
            idle.keep(self.whole.authority.clone(), connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::upstream::{AnswerBody, BodyError};

    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n";
    const PART: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart";
    const LAST: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

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

    async fn ask(direct: &Direct, url: &str) -> Result<Response<Answer>, SendError> {
        let (method, headers, body) = (Method::POST, HeaderMap::new(), Bytes::from_static(b"{}"));
        let place = Place::of(url).unwrap();
        direct.send(place.authority, false, request(&place, method, headers, body)?).await
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

    #[test]
    fn plain_urls_alone_are_carried() {
        let place = |url| Place::of(url).map(|place| (place.authority, place.target.to_string()));
        assert_eq!(place("http://a:1/b?c=d"), Some(("a:1", "/b?c=d".to_owned())));
        assert_eq!(place("http://[::1]:1/"), Some(("[::1]:1", "/".to_owned())));
        for other in
            ["https://a/b", "http://a", "http://u:p@a/b", "http://A/b", "http://a/ä", "http://a/'", "http:///b"]
        {
            assert_eq!(place(other), None, "{other}");
        }
    }
}
