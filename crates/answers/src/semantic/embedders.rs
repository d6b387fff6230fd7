//! The two embedders of a lookup: a fast table that recalls candidates, and the embedder that decides, which is built in, a server over HTTP
//! or a model on this machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::cost::Cost;
use signalbox_cache::{Embedder, confidence::Prior};
use signalbox_embed::{Worker, WorkerError};
use signalbox_fleet::{Breaker, Failure};
use signalbox_telemetry::CacheMetrics;
use signalbox_types::{Clock, Moment};

/// Timeout of vectors for background work.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum interval between log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Of so many lookups that are skipped because the wait would outweigh the gain, one is made anyway, to measure the wait.
const MEASURED: u32 = 32;

/// The two embedders of a lookup.
#[derive(Debug)]
pub(crate) struct Embedders {
    pub(crate) recall: Arc<dyn Embedder>,
    /// Ids of both, since vectors of different embedders are not comparable.
    pub(crate) id: String,
    /// Probability of the same meaning, by similarity, for the deciding embedder.
    pub(crate) prior: &'static Prior,
    decider: DecidingEmbedder,
    /// Set once the deciding embedder is warmed up.
    warm: OnceCell<()>,
    /// Recent wait of lookups for the deciding embedder.
    cost: Cost,
    /// [`Moment`] of the last log line about a failure, in nanoseconds; 0 for none.
    logged: AtomicU64,
}

/// The embedder that decides.
#[derive(Debug)]
pub(crate) struct DecidingEmbedder {
    /// Its name in policies and metrics.
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) worker: Arc<Worker>,
    /// Timeout of a lookup. A later vector would cost more time than a hit saves.
    pub(crate) timeout: Duration,
    /// The breaker of a remote embedder, so that lookups do not wait for one that fails.
    pub(crate) breaker: Option<Breaker>,
}

impl Embedders {
    pub(crate) fn new(recall: Arc<dyn Embedder>, decider: DecidingEmbedder) -> Self {
        let id = format!("{}+{}", recall.id(), decider.id);
        let prior = Prior::of(&decider.id);
        Self { recall, id, prior, decider, warm: OnceCell::new(), cost: Cost::default(), logged: AtomicU64::new(0) }
    }

    /// Name and revision of the deciding embedder.
    pub(crate) fn decider(&self) -> &str {
        &self.decider.id
    }

    /// True if the wait for the deciding vector is longer than the generation of an answer, which takes `answer` seconds, so that no hit is
    /// worth it. Occasionally false nevertheless, to measure the wait.
    pub(crate) fn outlasts(&self, answer: impl FnOnce() -> Option<f64>) -> bool {
        let Some(cost) = self.cost.seconds() else { return false };
        answer().is_some_and(|answer| answer < cost) && fastrand::u32(..MEASURED) != 0
    }

    /// Returns the deciding vector for a lookup, or the reason why there is none.
    pub(crate) async fn decide(
        &self,
        text: &str,
        clock: Clock,
        metrics: &CacheMetrics,
    ) -> Result<Box<[f32]>, &'static str> {
        let DecidingEmbedder { worker, timeout, breaker, .. } = &self.decider;
        let began = clock.now();
        if breaker.as_ref().is_some_and(|breaker| breaker.is_open(began)) {
            metrics.embedded(self.decider.kind, "resting");
            return Err("embedder_resting");
        }
        let result = worker.embed(text, Instant::now() + *timeout).await;
        let now = clock.now();
        if !matches!(result, Err(WorkerError::Full)) {
            self.cost.record(now.since(began));
        }
        match (breaker, &result) {
            (Some(breaker), Ok(_)) => _ = breaker.succeeded(began),
            (Some(breaker), Err(WorkerError::Late | WorkerError::Failed(_))) => {
                _ = breaker.failed(now, Failure::Error);
            }
            _ => {}
        }
        self.count(&result, now, metrics);
        result.map(Vec::into_boxed_slice).map_err(|error| match error {
            WorkerError::Full => "embedder_full",
            WorkerError::Late => "embedder_late",
            WorkerError::Failed(_) => "embedder_failed",
        })
    }

    /// Returns the deciding vector for background work.
    pub(crate) async fn embed(
        &self,
        text: &str,
        clock: Clock,
        metrics: &CacheMetrics,
    ) -> Result<Box<[f32]>, WorkerError> {
        let result = self.decider.worker.embed(text, Instant::now() + BACKGROUND_TIMEOUT).await;
        self.count(&result, clock.now(), metrics);
        result.map(Vec::into_boxed_slice)
    }

    /// Warms up the deciding embedder with any text, once.
    pub(crate) async fn warm(&self, text: &str) {
        let embed = async || drop(self.decider.worker.embed(text, Instant::now() + BACKGROUND_TIMEOUT).await);
        self.warm.get_or_init(embed).await;
    }

    fn count(&self, result: &Result<Vec<f32>, WorkerError>, now: Moment, metrics: &CacheMetrics) {
        let label = match result {
            Ok(_) => "done",
            Err(WorkerError::Full) => "full",
            Err(WorkerError::Late) => "late",
            Err(WorkerError::Failed(_)) => "failed",
        };
        metrics.embedded(self.decider.kind, label);
        if let Err(error) = result {
            let logged = self.logged.load(Relaxed);
            let due = logged == 0 || now.nanos() >= logged.saturating_add(LOG_INTERVAL.as_nanos() as u64);
            if due && self.logged.compare_exchange(logged, now.nanos().max(1), Relaxed, Relaxed).is_ok() {
                tracing::warn!(embedder = %self.decider.id, %error, "cache: embedding failed, so there is no semantic lookup for this text (cache.semantic.embedder)");
            }
        }
    }
}
