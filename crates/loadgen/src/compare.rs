//! Compares the client's measurements with the gateway's own, read from its `/metrics` before and after the run.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::Answer;
use signalbox_engines::samples;
use signalbox_upstream::{Client, EngineAccess};

/// Sum and count of latencies.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Sum, in seconds.
    pub sum: f64,
    /// Count.
    pub count: u64,
}

impl Seen {
    /// Adds a latency of `seconds`.
    pub fn add(&mut self, seconds: f64) {
        self.sum += seconds;
        self.count += 1;
    }

    /// Mean in seconds; `None` without samples.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn with(self, more: Self) -> Self {
        Self { sum: self.sum + more.sum, count: self.count + more.count }
    }

    fn since(self, before: Self) -> Self {
        Self { sum: self.sum - before.sum, count: self.count.saturating_sub(before.count) }
    }
}

/// Latencies of a run as one side of the connection measured them. Sums and counts are exact on both sides, not sampled.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// From request to first token.
    pub ttft: Seen,
    /// From request to the end of a complete answer.
    pub e2e: Seen,
}

impl Counted {
    /// Adds an answer, over the same intervals as a gateway measures. An answer from a cache has no first token of an engine.
    pub(super) fn add(&mut self, answer: &Answer) {
        if answer.replayed {
            return;
        }
        if let Some(first) = answer.first {
            self.ttft.add(first.duration_since(answer.sent).as_secs_f64());
        }
        if answer.failure.is_none() {
            self.e2e.add(answer.end.duration_since(answer.sent).as_secs_f64());
        }
    }
}

/// Names of the gateway's two histograms, without `_sum` and `_count`.
const TTFT: &str = "signalbox_ttft_seconds";
const E2E: &str = "signalbox_e2e_seconds";

/// Limits of a scrape: time and size; and number of round trips that are tried.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_SCRAPE_BYTES: usize = 64 << 20;
const ROUND_TRIPS: usize = 5;
/// Number of retries while the gateway has not recorded its last answers, and the pause between them.
const SCRAPE_RETRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// A gateway with readable metrics.
#[derive(Clone, Debug)]
pub struct Gateway {
    client: Client,
    root: String,
    access: EngineAccess,
    before: Counted,
    /// Network round trip, in seconds: the minimum over a few `GET /health`.
    pub round_trip: f64,
}

impl Gateway {
    /// Reads the metrics at `root` (scheme and authority) before a run, with the API key. `None` if the server is not a Signalbox gateway or does
    /// not show its metrics.
    pub async fn find(client: &Client, root: &str, key: Option<String>) -> Option<Self> {
        let (client, root) = (client.clone(), root.to_owned());
        let access = EngineAccess::with_key(key.as_deref());
        let mut gateway = Self { client, root, access, before: Counted::default(), round_trip: f64::NAN };
        gateway.before = gateway.read().await?;
        let mut trips = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            gateway.fetch("/health").await?;
            trips.push(asked.elapsed().as_secs_f64());
        }
        gateway.round_trip = trips.into_iter().fold(f64::INFINITY, f64::min);
        Some(gateway)
    }

    /// Difference of the counters since then. Retries for a moment while they lag behind the client's, since the last answers are recorded just
    /// after they end.
    pub async fn since(&self, client: &Counted) -> Option<Counted> {
        let mut counted = Counted::default();
        for _ in 0..SCRAPE_RETRIES {
            let now = self.read().await?;
            counted = Counted { ttft: now.ttft.since(self.before.ttft), e2e: now.e2e.since(self.before.e2e) };
            if counted.ttft.count >= client.ttft.count && counted.e2e.count >= client.e2e.count {
                break;
            }
            sleep(PAUSE).await;
        }
        Some(counted)
    }

    /// Excludes the answers that this client has counted so far: a trial.
    pub async fn leave_out(&mut self, client: &Counted) {
        if let Some(counted) = self.since(client).await {
            self.before.ttft = self.before.ttft.with(counted.ttft);
            self.before.e2e = self.before.e2e.with(counted.e2e);
        }
    }

    async fn read(&self) -> Option<Counted> {
        read(std::str::from_utf8(&self.fetch("/metrics").await?).ok()?)
    }

    async fn fetch(&self, path: &str) -> Option<Bytes> {
        let url = format!("{}{path}", self.root);
        Some(self.client.fetch(&url, &self.access, SCRAPE_TIMEOUT, MAX_SCRAPE_BYTES).await.ok()?.body)
    }
}

/// Sums over all series; `None` if the page is not that of a Signalbox gateway.
fn read(page: &str) -> Option<Counted> {
    let mut counted = Counted::default();
    let mut ours = false;
    for sample in samples(page) {
        ours |= sample.name.starts_with("signalbox_");
        for (stem, seen) in [(TTFT, &mut counted.ttft), (E2E, &mut counted.e2e)] {
            match sample.name.strip_prefix(stem) {
                Some("_sum") => seen.sum += sample.value,
                Some("_count") => seen.count += sample.value as u64,
                _ => {}
            }
        }
    }
    ours.then_some(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_all_series() {
        let page = "# TYPE signalbox_ttft_seconds histogram\n\
                    signalbox_ttft_seconds_sum{pool=\"a\"} 1.5\nsignalbox_ttft_seconds_count{pool=\"a\"} 3\n\
                    signalbox_ttft_seconds_bucket{pool=\"a\",le=\"1\"} 3\n\
                    signalbox_ttft_seconds_sum{pool=\"b\"} 0.5\nsignalbox_ttft_seconds_count{pool=\"b\"} 1\n\
                    signalbox_e2e_seconds_sum{pool=\"a\"} 9\nsignalbox_e2e_seconds_count{pool=\"a\"} 2\n";
        let counted = read(page).unwrap();
        assert_eq!((counted.ttft, counted.e2e), (Seen { sum: 2.0, count: 4 }, Seen { sum: 9.0, count: 2 }));
        assert_eq!(counted.ttft.mean(), Some(0.5));
        assert_eq!(counted.ttft.since(Seen { sum: 1.5, count: 3 }), Seen { sum: 0.5, count: 1 });
        assert_eq!(read("signalbox_in_flight 0\n"), Some(Counted::default()), "no measurements yet");
        assert_eq!(read("vllm:num_requests_running 1\n"), None);
    }
}
