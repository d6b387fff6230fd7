//! What makes vectors: the table that recalls, and what decides, be it compiled in, asked over HTTP or run on this machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::cost::Cost;
use crate::{
    cache::{Embedder, confidence::Prior},
    embed::{Worker, WorkerError},
    fleet::{Breaker, Failure},
    telemetry::CacheMetrics,
    types::{Clock, Moment},
};

/// How long vectors may take that nobody waits for.
const UNHURRIED: Duration = Duration::from_secs(30);
/// Failures are told no more often than this.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// Of so many lookups that would not be worth their wait, one waits.
const MEASURED: u32 = 32;

/// What makes vectors.
#[derive(Debug)]
pub(crate) struct Embedders {
    pub(crate) recall: Arc<dyn Embedder>,
    /// Names both: vectors of others are not comparable.
    pub(crate) id: String,
    /// What its similarities mean.
    pub(crate) prior: &'static Prior,
    decider: Decides,
    /// Whether that was made ready ahead of its first question.
    warm: OnceCell<()>,
    /// What waiting for it has taken lookups of late.
    cost: Cost,
    /// Nanoseconds of the [`Moment`] when a failure was told last.
    told: AtomicU64,
}

/// What decides.
#[derive(Debug)]
pub(crate) struct Decides {
    /// Its name in policies and metrics.
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) worker: Arc<Worker>,
    /// How long a lookup waits for it. What comes later would cost more time than it may save.
    pub(crate) patience: Duration,
    /// Where it is elsewhere: one that fails is left alone for a while, so that lookups need not wait for nothing.
    pub(crate) breaker: Option<Breaker>,
}

impl Embedders {
    pub(crate) fn new(recall: Arc<dyn Embedder>, decider: Decides) -> Self {
        let id = format!("{}+{}", recall.id(), decider.id);
        let prior = Prior::of(&decider.id);
        Self { recall, id, prior, decider, warm: OnceCell::new(), cost: Cost::default(), told: AtomicU64::new(0) }
    }

    /// The name and revision of what decides.
    pub(crate) fn decider(&self) -> &str {
        &self.decider.id
    }

    /// Whether waiting for the vector that decides takes longer than an answer that takes `answer` seconds: then no hit can be worth it.
    /// Now and then one is waited for all the same, to see what it takes.
    pub(crate) fn outlasts(&self, answer: impl FnOnce() -> Option<f64>) -> bool {
        let Some(cost) = self.cost.seconds() else { return false };
        answer().is_some_and(|answer| answer < cost) && fastrand::u32(..MEASURED) != 0
    }

    /// The vector that decides, for a lookup; or why there is none.
    pub(crate) async fn decide(
        &self,
        text: &str,
        clock: Clock,
        metrics: &CacheMetrics,
    ) -> Result<Box<[f32]>, &'static str> {
        let Decides { worker, patience, breaker, .. } = &self.decider;
        let began = clock.now();
        if breaker.as_ref().is_some_and(|breaker| breaker.is_open(began)) {
            metrics.embedded(self.decider.kind, "resting");
            return Err("embedder_resting");
        }
        let result = worker.embed(text, Instant::now() + *patience).await;
        let now = clock.now();
        if !matches!(result, Err(WorkerError::Full)) {
            self.cost.took(now.since(began));
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

    /// The same vector where nobody waits for it.
    pub(crate) async fn embed(
        &self,
        text: &str,
        clock: Clock,
        metrics: &CacheMetrics,
    ) -> Result<Box<[f32]>, WorkerError> {
        let result = self.decider.worker.embed(text, Instant::now() + UNHURRIED).await;
        self.count(&result, clock.now(), metrics);
        result.map(Vec::into_boxed_slice)
    }

    /// Has what decides ready before its first question, if it is not; `text`: any.
    pub(crate) async fn warm(&self, text: &str) {
        let begin = async || drop(self.decider.worker.embed(text, Instant::now() + UNHURRIED).await);
        self.warm.get_or_init(begin).await;
    }

    fn count(&self, result: &Result<Vec<f32>, WorkerError>, now: Moment, metrics: &CacheMetrics) {
        let word = match result {
            Ok(_) => "done",
            Err(WorkerError::Full) => "full",
            Err(WorkerError::Late) => "late",
            Err(WorkerError::Failed(_)) => "failed",
        };
        metrics.embedded(self.decider.kind, word);
        if let Err(error) = result {
            let told = self.told.load(Relaxed);
            let due = told == 0 || now.nanos() >= told.saturating_add(TOLD_EVERY.as_nanos() as u64);
            if due && self.told.compare_exchange(told, now.nanos().max(1), Relaxed, Relaxed).is_ok() {
                tracing::warn!(embedder = %self.decider.id, %error, "a text has no vector: nothing is found by its meaning");
            }
        }
    }
}
