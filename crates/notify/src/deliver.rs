//! Delivery of events to a webhook: signed after Standard Webhooks (standardwebhooks.com), retried, in order, and without blocking whoever
//! reports them.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use ring::hmac;
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use super::event::Event;
use signalbox_policy::{Receiver, Secret};
use signalbox_telemetry::Metrics;
use signalbox_types::wall_clock;
use signalbox_upstream::{Client, outgoing::Outgoing};

/// Time limit of an attempt.
const ATTEMPT: Duration = Duration::from_secs(10);
/// First pause before another attempt; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, also where the receiver asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Time after which an event is given up.
const GIVE_UP: Duration = Duration::from_hours(1);
/// Events that wait for a receiver.
const QUEUE: usize = 64;

/// The event was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The receiver answered with another status than 2xx.
    #[error("it answered {0}")]
    Status(StatusCode, Option<Duration>),
    /// The receiver was not reached or did not answer.
    #[error("{0}")]
    Unreachable(String),
}

impl DeliveryError {
    /// True if another attempt may succeed.
    fn is_temporary(&self) -> bool {
        match self {
            Self::Status(status, _) => {
                status.is_server_error()
                    || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(status)
            }
            Self::Unreachable(_) => true,
        }
    }
}

/// The receivers of a policy, each with its queue. Dropping it ends the delivery of queued events.
pub struct Sender {
    queues: Vec<Queue>,
    metrics: Metrics,
}

struct Queue {
    receiver: Receiver,
    events: mpsc::Sender<Event>,
    task: AbortHandle,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sender {
    /// Starts a task for each receiver.
    pub fn start(receivers: &[Receiver], client: &Client, metrics: &Metrics) -> Self {
        Self { queues: Vec::new(), metrics: metrics.clone() }.with(receivers, client)
    }

    /// The same for other `receivers`. Those that stay keep their queues; to those that are gone nothing more is sent.
    #[must_use]
    pub fn with(mut self, receivers: &[Receiver], client: &Client) -> Self {
        let metrics = self.metrics.clone();
        let mut before = std::mem::take(&mut self.queues);
        let queue = |receiver: &Receiver| {
            let same = |queue: &Queue| queue.receiver == *receiver;
            let known = before.iter().position(same).map(|at| before.swap_remove(at));
            known.unwrap_or_else(|| {
                let (events, queued) = mpsc::channel(QUEUE);
                let task = tokio::spawn(run(receiver.clone(), client.clone(), metrics.clone(), queued)).abort_handle();
                Queue { receiver: receiver.clone(), events, task }
            })
        };
        self.queues = receivers.iter().map(queue).collect();
        self
    }

    /// Queues `event` for the receivers of its topic.
    pub fn send(&self, event: &Event) {
        let wants = |receiver: &Receiver| event.topic().is_none_or(|topic| receiver.topics.contains(&topic));
        for Queue { receiver, events, .. } in self.queues.iter().filter(|queue| wants(&queue.receiver)) {
            if events.try_send(event.clone()).is_err() {
                self.metrics.notification("dropped");
                tracing::error!(
                    host = receiver.host(),
                    "notifications: {QUEUE} events wait for this receiver already, one is dropped: {}",
                    event.text()
                );
            }
        }
    }
}

async fn run(receiver: Receiver, client: Client, metrics: Metrics, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        let result = deliver_repeatedly(&receiver, &client, &event).await;
        metrics.notification(if result.is_ok() { "sent" } else { "failed" });
        if let Err(error) = result {
            let (host, text) = (receiver.host(), event.text());
            tracing::error!(host, "notifications: an event could not be delivered ({error}): {text}");
        }
    }
}

async fn deliver_repeatedly(receiver: &Receiver, client: &Client, event: &Event) -> Result<(), DeliveryError> {
    let (started, unix) = (Instant::now(), wall_clock::seconds());
    let (id, body) = (event.id(unix), Bytes::from(event.body(receiver.format, unix).to_string()));
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match attempt(receiver, client, &id, &body).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if !error.is_temporary() || started.elapsed() + pause > GIVE_UP {
            return Err(error);
        }
        tracing::warn!(host = receiver.host(), "notifications: not delivered yet, will be retried: {error}");
        let asked = match error {
            DeliveryError::Status(_, after) => after.unwrap_or_default(),
            DeliveryError::Unreachable(_) => Duration::ZERO,
        };
        // Up to a quarter more, so that several gateways do not come back at once.
        sleep(pause.max(asked.min(LONGEST_PAUSE)).mul_f64(1.0 + fastrand::f64() / 4.0)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Delivers `event` with one attempt.
///
/// # Errors
/// [`DeliveryError`] if the receiver does not accept it.
pub async fn deliver(receiver: &Receiver, client: &Client, event: &Event) -> Result<(), DeliveryError> {
    let unix = wall_clock::seconds();
    let body = Bytes::from(event.body(receiver.format, unix).to_string());
    attempt(receiver, client, &event.id(unix), &body).await
}

async fn attempt(receiver: &Receiver, client: &Client, id: &str, body: &Bytes) -> Result<(), DeliveryError> {
    let unreachable = |error: &dyn std::fmt::Display| DeliveryError::Unreachable(hide(receiver, &error.to_string()));
    let headers = headers(receiver.secret.as_ref(), id, wall_clock::seconds(), body).map_err(|e| unreachable(&e))?;
    let url = receiver.url.expose().to_owned();
    let request = Outgoing { method: Method::POST, url, headers, body: body.clone() };
    let response = timeout(ATTEMPT, client.send(request)).await;
    let response = response.map_err(|_| unreachable(&"it did not answer in time"))?.map_err(|e| unreachable(&e))?;
    if response.status().is_success() {
        return Ok(());
    }
    let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Err(DeliveryError::Status(response.status(), after.map(Duration::from_secs)))
}

/// `text` without the receiver's URL, which may be a secret.
fn hide(receiver: &Receiver, text: &str) -> String {
    text.replace(receiver.url.expose(), receiver.host())
}

fn headers(
    secret: Option<&Secret>,
    id: &str,
    unix: i64,
    body: &[u8],
) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("signalbox/", env!("CARGO_PKG_VERSION"))));
    headers.insert(HeaderName::from_static("webhook-id"), HeaderValue::try_from(id)?);
    headers.insert(HeaderName::from_static("webhook-timestamp"), unix.into());
    if let Some(secret) = secret {
        let signature = HeaderValue::try_from(signature(secret, id, unix, body))?;
        headers.insert(HeaderName::from_static("webhook-signature"), signature);
    }
    Ok(headers)
}

/// The signature of Standard Webhooks: HMAC-SHA256 over id, timestamp and body. A secret with the prefix `whsec_` is Base64, another is taken as
/// it is.
fn signature(secret: &Secret, id: &str, unix: i64, body: &[u8]) -> String {
    let text = secret.expose();
    let decoded = text.strip_prefix("whsec_").and_then(|encoded| STANDARD.decode(encoded).ok());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &decoded.unwrap_or_else(|| text.as_bytes().to_vec()));
    let mut context = hmac::Context::with_key(&key);
    for part in [id.as_bytes(), b".", unix.to_string().as_bytes(), b".", body] {
        context.update(part);
    }
    format!("v1,{}", STANDARD.encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_policy::Format;

    #[tokio::test]
    async fn a_receiver_that_is_gone_gets_nothing_more() {
        let client = Client::new(Duration::from_secs(1)).unwrap();
        let receiver = |path: &str| Receiver {
            url: Secret(format!("http://127.0.0.1:9/{path}").into()),
            format: Format::Json,
            secret: None,
            topics: Vec::new(),
        };
        let sender = Sender::start(&[receiver("a"), receiver("b")], &client, &Metrics::new());
        let [stays, goes] = [0, 1].map(|at| sender.queues[at].task.clone());
        let sender = sender.with(&[receiver("c"), receiver("a")], &client);
        while !goes.is_finished() {
            tokio::task::yield_now().await;
        }
        assert!(!stays.is_finished() && sender.queues.len() == 2 && sender.queues[1].task.id() == stays.id());
    }

    /// The test vector of the reference libraries of Standard Webhooks.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let secret = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into());
        let body = b"{\"test\": 2432232314}";
        assert_eq!(
            signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }
}
