//! HTTP client of the exporter: the SDK waits in threads without a runtime, and the HTTP client needs one.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::{runtime::Handle, sync::watch};

use signalbox_config::Proxies;

/// Timeout of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes read of its response.
const LARGEST_ANSWER: usize = 64 << 10;

/// Sends for the exporter, on the gateway's runtime.
pub(super) struct Sender {
    client: reqwest::Client,
    runtime: Handle,
    /// True if the last attempt failed, so that consecutive failures are logged once.
    failing: Arc<AtomicBool>,
    /// True if nothing is sent any more.
    over: watch::Sender<bool>,
}

impl Sender {
    /// Creates a sender. Must be called within the runtime.
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let proxies = Proxies::of_process();
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .proxy(reqwest::Proxy::custom(move |url| proxies.of(url.as_str()).map(str::to_owned)))
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { client, runtime: Handle::current(), failing: Arc::default(), over: watch::Sender::new(false) })
    }

    /// Cancels requests under way after `limit` and fails later ones at once: the SDK would wait for responses longer
    /// than a terminating process can.
    pub(super) fn end_after(&self, limit: Duration) {
        let over = self.over.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(limit).await;
            over.send_replace(true);
        });
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

/// The innermost cause.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, request) = (self.client.clone(), reqwest::Request::try_from(request)?);
        let failing = self.failing.clone();
        let mut over = self.over.subscribe();
        let answered = self.runtime.spawn(async move {
            let answered = async {
                let answer = client.execute(request).await?;
                let (head, body) = http::Response::<reqwest::Body>::from(answer).into_parts();
                let body = http_body_util::Limited::new(body, LARGEST_ANSWER);
                let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(head, body))
            };
            tokio::select! {
                _ = over.wait_for(|over| *over) => Err("cancelled by shutdown".into()),
                answered = answered => answered,
            }
        });
        let answered = answered.await?;
        let problem = match &answered {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("status {}", answer.status())),
            Err(error) => Some(causes(error.as_ref())),
        };
        if failing.swap(problem.is_some(), Relaxed) != problem.is_some() {
            if let Some(problem) = problem {
                tracing::warn!(%problem, "otel: export failed, spans and metrics are lost until the collector accepts them");
            } else {
                tracing::info!("otel: export works again");
            }
        }
        answered
    }
}
