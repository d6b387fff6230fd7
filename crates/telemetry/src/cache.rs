//! Metrics of the cache: lookups, their durations, and savings.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use prometheus_client::metrics::counter::Counter;

use super::{
    backend::{Dollars, count},
    distribution::Distribution,
    series::Series,
};
use signalbox_types::{Name, Usage};

/// Buckets of the stages of a lookup, in seconds: 1 µs to 100 ms.
const LOOKUP: [f64; 14] = [
    0.000_001,
    0.000_002_5,
    0.000_005,
    0.000_01,
    0.000_025,
    0.000_05,
    0.000_1,
    0.000_25,
    0.000_5,
    0.001,
    0.0025,
    0.01,
    0.025,
    0.1,
];
/// Most combinations of tier, result, reason and route.
const MOST_LOOKUPS: usize = 4096;
/// Stands for a route's name when there are too many.
const OTHER: &str = "other";

/// Result of a lookup.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// `exact` or `semantic`.
    pub tier: &'static str,
    /// `hit`, `coalesced`, `miss` or `bypass`.
    pub result: &'static str,
    /// Reason of a miss; empty for a hit.
    pub reason: &'static str,
}

/// Stage of a lookup.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LookupStage {
    /// Computing the key.
    Key,
    /// Finding the answer to an identical request.
    Exact,
    /// Asking other gateways for it.
    Shared,
    /// Searching near entries.
    Search,
    /// Embedding for the decision.
    Decide,
}

impl LookupStage {
    /// All stages, in order.
    pub(super) const ALL: [Self; 5] = [Self::Key, Self::Exact, Self::Shared, Self::Search, Self::Decide];

    /// Label for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Exact => "exact",
            Self::Shared => "shared",
            Self::Search => "search",
            Self::Decide => "decide",
        }
    }
}

/// Metrics of the cache.
#[derive(Debug)]
pub struct CacheMetrics {
    /// Lookups, by tier, result, reason and route.
    pub(super) lookups: Series<(&'static str, &'static str, &'static str, Name), Counter>,
    pub(super) seconds: [Distribution; LookupStage::ALL.len()],
    pub(super) stored: Series<&'static str, Counter>,
    /// Vectors of the deciding embedder, by its id and the result.
    pub(super) embeddings: Series<(&'static str, &'static str), Counter>,
    /// Rejected lookups, by the guard that rejected the nearest candidate.
    pub(super) guards: Series<&'static str, Counter>,
    /// Labels of semantic hits, by kind of answer, verdict and source of the label.
    pub(super) labels: Series<(&'static str, &'static str, &'static str), Counter>,
    /// Operations on the Redis server of shared answers, by operation and result.
    pub(super) shared: Series<(&'static str, &'static str), Counter>,
    /// Requests that shared the answer of an equal one, by route.
    pub(super) coalesced: Series<Name, Counter>,
    /// Work saved by kept answers, by tier.
    pub(super) saved: Series<&'static str, Arc<SavedMetrics>>,
    /// Output tokens of kept answers without a price of their own, by tier and pool, until the pool's engines have one.
    unpriced: Series<(&'static str, Name), Arc<AtomicU64>>,
}

/// Savings of repeated answers.
#[derive(Debug)]
pub(super) struct SavedMetrics {
    pub(super) tokens: Series<&'static str, Counter>,
    pub(super) cost: Dollars,
    pub(super) seconds: Dollars,
}

impl CacheMetrics {
    pub(super) fn new() -> Self {
        Self {
            lookups: Series::new(MOST_LOOKUPS),
            seconds: std::array::from_fn(|_| Distribution::new(LOOKUP)),
            stored: Series::new(16),
            embeddings: Series::new(32),
            guards: Series::new(32),
            labels: Series::new(32),
            shared: Series::new(64),
            coalesced: Series::new(MOST_LOOKUPS),
            saved: Series::new(8),
            unpriced: Series::new(MOST_LOOKUPS),
        }
    }

    /// Counts a lookup; `route` must be a name from the policy.
    pub fn lookup(&self, lookup: Lookup, route: &Name) {
        let Lookup { tier, result, reason } = lookup;
        let other = |(tier, result, reason, _)| (tier, result, reason, OTHER.into());
        self.lookups.get((tier, result, reason, route.clone()), other, |_| Counter::default()).inc();
    }

    /// Records the seconds of a stage of a lookup.
    pub fn took(&self, stage: LookupStage, seconds: f64) {
        self.seconds[stage as usize].observe(seconds);
    }

    /// Counts the result for an answer that might have been stored.
    pub fn stored(&self, result: &'static str) {
        count(&self.stored, result);
    }

    /// Counts the result for a text of the deciding embedder.
    pub fn embedded(&self, embedder: &'static str, result: &'static str) {
        self.embeddings.get((embedder, result), |(_, result)| (OTHER, result), |_| Counter::default()).inc();
    }

    /// Counts a semantic lookup whose nearest candidate a guard rejected.
    pub fn guarded(&self, guard: &'static str) {
        count(&self.guards, guard);
    }

    /// Counts a label. `hit` is true for an answer that was served or would have been, false for one that was only
    /// near.
    pub fn labelled(&self, hit: bool, same: bool, source: &'static str) {
        let key = (if hit { "hit" } else { "near" }, if same { "right" } else { "false" }, source);
        self.labels.get(key, |(of, verdict, _)| (of, verdict, OTHER), |_| Counter::default()).inc();
    }

    /// Counts an operation on the server shared by gateways and its result.
    pub fn shared(&self, what: &'static str, result: &'static str) {
        self.shared.get((what, result), |(what, _)| (what, OTHER), |_| Counter::default()).inc();
    }

    /// Counts a request that shared another's; `route` must be a name from the policy.
    pub fn coalesced(&self, route: &Name) {
        self.coalesced.get(route.clone(), |_| OTHER.into(), |_| Counter::default()).inc();
    }

    /// Savings of a tier.
    fn saved(&self, tier: &'static str) -> Arc<SavedMetrics> {
        self.saved.get(tier, |tier| tier, |_| Arc::new(SavedMetrics::new()))
    }

    /// Lookups in this tier, and those of them that needed no engine.
    pub fn rates(&self, tier: &str) -> (u64, u64) {
        let lookups = self.lookups.read();
        let of = |results: &[&str]| {
            let counted = lookups.iter().filter(|((of, result, ..), _)| *of == tier && results.contains(result));
            counted.map(|(_, counter)| counter.get()).sum()
        };
        (of(&["hit", "coalesced", "miss"]), of(&["hit", "coalesced"]))
    }

    /// Records a repeated answer of a pool: its tokens, its cost in US dollars where known, and the seconds that generating it
    /// took. Without a price, its output costs what that of the pool's engines costs by the hour, as soon as that is known.
    pub fn save(&self, tier: &'static str, pool: &Name, usage: Option<&Usage>, usd: Option<f64>, seconds: f64) {
        self.saved(tier).answer(usage, usd, seconds);
        if let Some(usage) = usage.filter(|_| usd.is_none()) {
            let unpriced =
                self.unpriced.get((tier, pool.clone()), |(tier, _)| (tier, OTHER.into()), |_| Arc::default());
            unpriced.fetch_add(usage.completion_tokens, Relaxed);
        }
    }

    /// Charges the output tokens of a pool that had no price at `usd` each.
    pub fn price_saved(&self, pool: &str, usd: f64) {
        for ((tier, _), tokens) in self.unpriced.list().into_iter().filter(|((_, name), _)| **name == *pool) {
            let tokens = tokens.swap(0, Relaxed);
            if tokens > 0 {
                self.saved(tier).answer(None, Some(usd * tokens as f64), 0.0);
            }
        }
    }

    /// Seconds that repeated answers had taken, so far.
    pub fn saved_seconds(&self) -> f64 {
        self.saved.list().iter().map(|(_, saved)| saved.seconds.get()).sum()
    }

    /// US dollars saved so far.
    pub fn saved_usd(&self) -> f64 {
        self.saved.list().iter().map(|(_, saved)| saved.cost.get()).sum()
    }
}

impl SavedMetrics {
    fn new() -> Self {
        Self { tokens: Series::new(2), cost: Dollars::default(), seconds: Dollars::default() }
    }

    fn answer(&self, usage: Option<&Usage>, usd: Option<f64>, seconds: f64) {
        if let Some(usage) = usage {
            for (kind, tokens) in [("prompt", usage.prompt_tokens), ("completion", usage.completion_tokens)] {
                self.tokens.get(kind, |kind| kind, |_| Counter::default()).inc_by(tokens);
            }
        }
        if let Some(usd) = usd.filter(|usd| usd.is_finite() && *usd > 0.0) {
            self.cost.inc_by(usd);
        }
        self.seconds.inc_by(seconds.max(0.0));
    }
}
