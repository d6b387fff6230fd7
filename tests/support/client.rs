//! A streaming client that reads an answer as received: by chunk, by event, or by byte.

use std::{net::SocketAddr, sync::Once};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::within;

/// Returns a new HTTP client. Each test needs its own, because connections belong to the test's runtime.
pub fn http() -> reqwest::Client {
    builder().build().expect("a plain client can be built")
}

/// Returns a client that uses HTTP/2 with prior knowledge.
pub fn h2c() -> reqwest::Client {
    builder().http2_prior_knowledge().build().expect("an HTTP/2 client can be built")
}

/// Returns a client that trusts only this root (PEM) and presents `identity`, a certificate and its key, if given.
pub fn trusting(root: &str, identity: Option<&str>) -> reqwest::ClientBuilder {
    let root = reqwest::Certificate::from_pem(root.as_bytes()).expect("a root");
    let client = builder().tls_certs_only([root]);
    match identity {
        Some(identity) => client.identity(reqwest::Identity::from_pem(identity.as_bytes()).expect("an identity")),
        None => client,
    }
}

fn builder() -> reqwest::ClientBuilder {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only if another test helper has installed a provider, which is fine.
        rustls::crypto::ring::default_provider().install_default().ok();
    });
    // Without the system's certificates, which take longer to load than most tests to run.
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Parses the body as JSON; fails the test if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value, or "".
    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }
}

/// Sends `GET url` and reads the whole answer.
pub async fn get(url: &str) -> Answer {
    answer(http().get(url)).await
}

/// Sends `POST url` with a JSON body and reads the whole answer.
pub async fn post(url: &str, body: &Value) -> Answer {
    answer(json(http().post(url), body)).await
}

/// Sends a request, for tests that need headers of their own, and reads the whole answer.
pub async fn answer(request: reqwest::RequestBuilder) -> Answer {
    within("an answer", async {
        let response = request.send().await.expect("an answer's head");
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: response.bytes().await.expect("the whole answer") }
    })
    .await
}

/// Adds a JSON body to a request (reqwest's `json` feature is off).
pub fn json(request: reqwest::RequestBuilder, body: &Value) -> reqwest::RequestBuilder {
    request.header("content-type", "application/json").body(body.to_string())
}

/// A streamed answer, read as slowly as the test wants. Dropping it leaves: the connection is closed.
pub struct Sse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    response: reqwest::Response,
    /// Received bytes that are not a whole event yet.
    pending: BytesMut,
    /// End of the stream, returned after the remaining bytes.
    ended: Option<End>,
}

/// End of a stream.
#[derive(Debug)]
pub enum End {
    /// Complete, by HTTP's framing.
    Clean,
    /// The connection broke before the answer was complete.
    Broken(String),
}

impl Sse {
    /// Sends `POST url` with a JSON body; returns at the answer's head.
    pub async fn post(url: &str, body: &Value) -> Self {
        Self::send(json(http().post(url), body)).await
    }

    /// Sends a request; returns at the answer's head.
    pub async fn send(request: reqwest::RequestBuilder) -> Self {
        let response = within("an answer's head", request.send()).await.expect("an answer's head");
        Self {
            status: response.status(),
            headers: response.headers().clone(),
            response,
            pending: BytesMut::new(),
            ended: None,
        }
    }

    /// A header's value, or "".
    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    /// Returns the next chunk exactly as received; not to be mixed with [`event`](Self::event).
    pub async fn chunk(&mut self) -> Result<Bytes, End> {
        match within("a chunk", self.response.chunk()).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(End::Clean),
            Err(error) => Err(End::Broken(error.to_string())),
        }
    }

    /// Returns the bytes of the next event with its blank line; at the end the remaining bytes, if any.
    pub async fn event(&mut self) -> Result<Bytes, End> {
        loop {
            if let Some(end) = event_end(&self.pending) {
                return Ok(self.pending.split_to(end).freeze());
            }
            if let Some(end) = self.ended.take() {
                return Err(end);
            }
            match self.chunk().await {
                Ok(bytes) => self.pending.extend_from_slice(&bytes),
                Err(end) if self.pending.is_empty() => return Err(end),
                Err(end) => {
                    self.ended = Some(end);
                    return Ok(self.pending.split().freeze());
                }
            }
        }
    }

    /// Returns the next event's data as text, without `data: `; skips comments.
    pub async fn data(&mut self) -> Result<String, End> {
        loop {
            if let Some(data) = data(&self.event().await?) {
                return Ok(data);
            }
        }
    }

    /// Reads all remaining events and the end of the stream.
    pub async fn rest(&mut self) -> (Vec<Bytes>, End) {
        let mut events = Vec::new();
        loop {
            match self.event().await {
                Ok(event) => events.push(event),
                Err(end) => return (events, end),
            }
        }
    }

    /// Reads the text of all remaining content deltas and the end of the stream.
    pub async fn text(&mut self) -> (String, End) {
        let (events, end) = self.rest().await;
        let deltas = events.iter().filter_map(|event| {
            let event: Value = serde_json::from_str(&data(event)?).ok()?;
            event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
        });
        (deltas.collect(), end)
    }
}

/// Returns an event's data, with its lines joined; `None` for a comment.
pub fn data(event: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(event);
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| data.strip_prefix(' ').unwrap_or(data))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Sends bytes exactly as they are over a connection of their own and reads until the other side closes it.
pub async fn raw(addr: SocketAddr, request: &[u8]) -> String {
    within("a raw answer", async {
        let mut stream = TcpStream::connect(addr).await.expect("a connection");
        stream.write_all(request).await.expect("the request is taken");
        let mut answer = Vec::new();
        // A reset after the answer is a normal end.
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8_lossy(&answer).into_owned()
    })
    .await
}

fn event_end(bytes: &[u8]) -> Option<usize> {
    let lf = memchr::memmem::find(bytes, b"\n\n").map(|at| at + 2);
    let crlf = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4);
    lf.into_iter().chain(crlf).min()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
