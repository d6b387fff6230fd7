//! HTTP client of the exporter: the SDK waits in threads without a runtime, and the HTTP client needs one. What the
//! collector does not accept for the moment is sent again, with growing pauses.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, sleep},
};

use super::settings::Destination;
use signalbox_config::Proxies;

/// Most bytes read of the collector's response.
const LARGEST_ANSWER: usize = 64 << 10;
/// The first pause before a request is sent again, and the longest that the collector did not ask for.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Sends for the exporter, on the gateway's runtime.
pub(super) struct Sender {
    to: Arc<Collector>,
    runtime: Handle,
    /// True if nothing is sent any more.
    over: watch::Sender<bool>,
}

/// The collector of one signal.
struct Collector {
    /// Name of the signal, for the log.
    what: &'static str,
    client: reqwest::Client,
    headers: HeaderMap,
    /// Time within which a request is sent again.
    patience: Duration,
    /// True if the last attempt failed, so that consecutive failures are logged once.
    failing: AtomicBool,
    /// True if it rejected the last request for good.
    rejected: AtomicBool,
}

type Answered = Result<Response<Bytes>, HttpError>;

impl Sender {
    /// Creates a sender of `what`. Must be called within the runtime.
    pub(super) fn new(what: &'static str, to: &Destination, patience: Duration) -> Result<Self, reqwest::Error> {
        let proxies = Proxies::of_process();
        let client = reqwest::Client::builder()
            .timeout(to.timeout)
            .proxy(reqwest::Proxy::custom(move |url| proxies.of(url.as_str()).map(str::to_owned)))
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let to = Collector {
            what,
            client,
            headers: to.headers.clone(),
            patience,
            failing: AtomicBool::new(false),
            rejected: AtomicBool::new(false),
        };
        Ok(Self { to: to.into(), runtime: Handle::current(), over: watch::Sender::new(false) })
    }

    /// Cancels requests under way after `limit` and fails later ones at once: the SDK would wait for responses longer
    /// than a terminating process can.
    pub(super) fn end_after(&self, limit: Duration) {
        let over = self.over.clone();
        self.runtime.spawn(async move {
            sleep(limit).await;
            over.send_replace(true);
        });
    }

    /// True if the collector rejected the last request for good.
    pub(super) fn was_rejected(&self) -> bool {
        self.to.rejected.load(Relaxed)
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl Collector {
    /// Sends a request until it is accepted, rejected for good, or late.
    async fn send(&self, mut request: Request<Bytes>) -> Answered {
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let answered = self.attempt(request.clone()).await;
            self.log(&answered);
            self.rejected.store(answered.as_ref().is_ok_and(|answer| !may_pass(answer.status())), Relaxed);
            let wait = match &answered {
                Ok(answer) if !may_pass(answer.status()) => return answered,
                Ok(answer) => retry_after(answer.headers()).unwrap_or(pause),
                Err(_) => pause,
            };
            // Gateways of a group must not come back to the collector all at once.
            let wait = wait.mul_f64(1.0 + fastrand::f64() / 4.0);
            if began.elapsed() + wait > self.patience {
                return answered;
            }
            sleep(wait).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self, request: Request<Bytes>) -> Answered {
        let answer = self.client.execute(reqwest::Request::try_from(request)?).await?;
        let (head, body) = http::Response::<reqwest::Body>::from(answer).into_parts();
        let body = http_body_util::Limited::new(body, LARGEST_ANSWER);
        let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    fn log(&self, answered: &Answered) {
        let problem = match answered {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("status {}", answer.status())),
            Err(error) => Some(causes(error.as_ref())),
        };
        if self.failing.swap(problem.is_some(), Relaxed) == problem.is_some() {
            return;
        }
        match problem {
            None => tracing::info!("otel: the collector accepts {} again", self.what),
            Some(problem) => tracing::warn!(
                %problem,
                "otel: the collector does not accept {}; what waits is sent again, and what is lost is counted",
                self.what
            ),
        }
    }
}

/// True for the statuses that the specification asks to retry.
fn may_pass(status: StatusCode) -> bool {
    use StatusCode as Is;
    matches!(
        status,
        Is::TOO_MANY_REQUESTS | Is::BAD_GATEWAY | Is::SERVICE_UNAVAILABLE | Is::GATEWAY_TIMEOUT | Is::REQUEST_TIMEOUT
    )
}

/// The pause that the collector asks for: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let until = || httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok();
    text.parse().ok().map(Duration::from_secs).or_else(until)
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
        let to = self.to.clone();
        let mut over = self.over.subscribe();
        let answered = self.runtime.spawn(async move {
            tokio::select! {
                _ = over.wait_for(|over| *over) => Err("cancelled by shutdown".into()),
                answered = to.send(request) => answered,
            }
        });
        answered.await?
    }
}
