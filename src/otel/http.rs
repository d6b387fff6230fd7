//! The way out of the exporter's threads: the SDK waits in threads that know no runtime, and the HTTP client needs one.

use std::{fmt, time::Duration};

use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

/// Longest that a collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most of its answer that is read, in bytes.
const LARGEST_ANSWER: usize = 64 << 10;

/// Sends for the exporter, on the gateway's runtime.
pub(super) struct Sender {
    client: reqwest::Client,
    runtime: Handle,
}

impl Sender {
    /// To be called within the runtime.
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { client, runtime: Handle::current() })
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, request) = (self.client.clone(), reqwest::Request::try_from(request)?);
        let answered = self.runtime.spawn(async move {
            let answer = client.execute(request).await?;
            let (head, body) = http::Response::<reqwest::Body>::from(answer).into_parts();
            let body = http_body_util::Limited::new(body, LARGEST_ANSWER);
            let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        });
        answered.await?
    }
}
