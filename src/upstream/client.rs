//! The HTTP client, behind one file: pooled connections, and fresh ones for the one retry that a dead pooled one deserves.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

/// How long an idle connection is kept. Common engine servers close theirs after 5 s without a word.
const IDLE: Duration = Duration::from_secs(4);

/// Sends requests upstream. It follows no redirects, uses no proxy and never retries by itself, so that every attempt is counted.
#[derive(Clone, Debug)]
pub struct Client {
    pooled: reqwest::Client,
    fresh: reqwest::Client,
}

/// A request on its way upstream.
#[derive(Clone, Debug)]
pub struct Outgoing<B = Bytes> {
    /// Its method.
    pub method: Method,
    /// Its full address.
    pub url: String,
    /// Its headers, without framing.
    pub headers: HeaderMap,
    /// Its body.
    pub body: B,
}

/// No answer came.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No connection came about.
    #[error("no connection: {0}")]
    Connect(String),
    /// The connection ended before the first byte of an answer.
    #[error("the connection ended before an answer: {0}")]
    Lost(String),
}

/// The client could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct SetUpError(#[from] reqwest::Error);

impl Client {
    /// A client that gives up connecting after `connect`.
    pub fn new(connect: Duration) -> Result<Self, SetUpError> {
        // A second installation is refused and harmless: the first one serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let build = |idle_per_host: usize| {
            reqwest::Client::builder()
                .connect_timeout(connect)
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(idle_per_host)
                .tcp_nodelay(true)
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .build()
        };
        Ok(Self { pooled: build(usize::MAX)?, fresh: build(0)? })
    }

    /// Sends over a pooled connection where there is one.
    pub async fn send(&self, outgoing: Outgoing) -> Result<http::Response<reqwest::Body>, SendError> {
        send(&self.pooled, outgoing).await
    }

    /// Sends over a connection made for this request.
    pub async fn send_fresh(&self, outgoing: Outgoing) -> Result<http::Response<reqwest::Body>, SendError> {
        send(&self.fresh, outgoing).await
    }

    /// Sends `outgoing` with a body that comes as it is read, over a pooled connection where there is one.
    pub async fn stream(
        &self,
        outgoing: Outgoing<()>,
        body: reqwest::Body,
    ) -> Result<http::Response<reqwest::Body>, SendError> {
        let Outgoing { method, url, headers, body: () } = outgoing;
        send(&self.pooled, Outgoing { method, url, headers, body }).await
    }

    /// Fetches a small document, such as `/metrics`, within `limit` and `most` bytes.
    pub async fn fetch(
        &self,
        url: &str,
        key: Option<&str>,
        limit: Duration,
        most: usize,
    ) -> Result<Fetched, FetchError> {
        let mut request = self.pooled.get(url).timeout(limit);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        let response = request.send().await.map_err(|_| FetchError::Unreachable)?;
        if !response.status().is_success() {
            return Err(FetchError::Refused(response.status()));
        }
        let (head, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        let body = http_body_util::BodyExt::collect(http_body_util::Limited::new(body, most)).await;
        Ok(Fetched { headers: head.headers, body: body.map_err(|_| FetchError::Broken)?.to_bytes() })
    }
}

/// A small document that was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// A document could not be fetched.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FetchError {
    /// Nobody answered in time.
    #[error("nobody answers there")]
    Unreachable,
    /// The answer was no success.
    #[error("it answers {0}")]
    Refused(http::StatusCode),
    /// The answer broke off, took too long or was too large.
    #[error("its answer broke off or is too large")]
    Broken,
}

async fn send(
    client: &reqwest::Client,
    outgoing: Outgoing<impl Into<reqwest::Body>>,
) -> Result<http::Response<reqwest::Body>, SendError> {
    let Outgoing { method, url, headers, body } = outgoing;
    let request = client.request(method, url).headers(headers).body(body);
    match request.send().await {
        Ok(response) => Ok(response.into()),
        Err(error) if error.is_connect() || error.is_builder() => Err(SendError::Connect(causes(&error))),
        Err(error) => Err(SendError::Lost(causes(&error))),
    }
}

/// The innermost cause, without the address: callers see names of backends, never where they are.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let cause = innermost.to_string();
    // A certificate for another name is told with both names.
    match cause.split_once(" for name ") {
        Some((what, _)) => {
            tracing::debug!(%error, "{cause}");
            what.to_owned()
        }
        None => cause,
    }
}
