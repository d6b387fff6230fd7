//! All counters in one place, updated by the handles and read by the scrape.

use std::sync::{Arc, atomic::AtomicBool};

use parking_lot::RwLock;

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::{
    backend::PrefixHits,
    backend::{BackendMetrics, Latencies, Timings},
    background::BackgroundMetrics,
    cache::CacheMetrics,
    caller::{CallerMetrics, Source},
    cascade::CascadeMetrics,
    journal::JournalCounters,
    key::KeyMetrics,
    pool::PoolMetrics,
    series::Series,
    stores::{Store, Stores},
};
use signalbox_types::Name;

/// Most models at backends with series of their own; each takes about 150 lines of `/metrics`, in a large pool 15.
pub(super) const MOST_BACKENDS: usize = 1024;
/// Most combinations of endpoint, route, status and outcome.
const MOST_REQUESTS: usize = 4096;
/// Most kinds of fault.
const MOST_FAULTS: usize = 256;

/// Most routes and sources with times of their own, of about 50 lines of `/metrics` and 35 KB each.
const MOST_CALLERS: usize = 512;
/// Most keys with series of their own.
const MOST_KEYS: usize = 4096;

/// (pool, backend, model)
pub(super) type BackendKey = (Name, Name, Name);
/// (endpoint, route, status, outcome)
pub(super) type RequestKey = (&'static str, Name, u16, &'static str);
/// (kind, blame)
pub(super) type FaultKey = (&'static str, &'static str);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: RwLock<Option<Name>>,
    pub(super) reloaded: Counter,
    pub(super) reload_failed: Counter,
    /// False while the policy in its file is not in force, because its last load failed.
    pub(super) is_reloaded: AtomicBool,
    pub(super) stores: Stores,
    /// Notifications by result.
    pub(super) notifications: Series<&'static str, Counter>,
    pub(super) in_flight: Gauge,
    pub(super) requests: Series<RequestKey, Counter>,
    pub(super) faults: Series<FaultKey, Counter>,
    pub(super) client_gone: Series<&'static str, Counter>,
    pub(super) journal: JournalCounters,
    pub(super) access_log: JournalCounters,
    pub(super) audit: JournalCounters,
    pub(super) backends: Series<BackendKey, Arc<BackendMetrics>>,
    pub(super) latencies: Series<(Name, Name), Arc<Latencies>>,
    /// Times of each model at the backends of a large pool together, by pool and model.
    pub(super) pool_timings: Series<(Name, Name), Arc<Timings>>,
    pub(super) pools: Series<Name, Arc<PoolMetrics>>,
    /// Requests, tokens and cost of each key, by its id.
    pub(super) keys: Series<Name, Arc<KeyMetrics>>,
    /// Callers without a key.
    pub(super) keyless: Arc<KeyMetrics>,
    pub(super) background: BackgroundMetrics,
    /// Results of cascades, by route.
    pub(super) cascades: Series<Name, Arc<CascadeMetrics>>,
    pub(super) cache: CacheMetrics,
    /// Times of callers, by route and source.
    pub(super) callers: Series<(Name, Source), Arc<CallerMetrics>>,
    /// Operations on the Redis server of shared limits, by operation and result.
    pub(super) joint: Series<(&'static str, &'static str), Counter>,
    /// Prompts sent to and received from other gateways, by direction and result.
    pub(super) placement: Series<(&'static str, &'static str), Counter>,
}

impl Shared {
    /// Creates empty counters.
    pub(super) fn new() -> Self {
        let stores = Stores::default();
        Self {
            config: RwLock::default(),
            reloaded: Counter::default(),
            reload_failed: Counter::default(),
            is_reloaded: AtomicBool::new(true),
            notifications: Series::new(4),
            in_flight: Gauge::default(),
            requests: Series::new(MOST_REQUESTS),
            faults: Series::new(MOST_FAULTS),
            client_gone: Series::new(3),
            journal: JournalCounters::of(&stores, Store::Journal),
            access_log: JournalCounters::of(&stores, Store::AccessLog),
            audit: JournalCounters::of(&stores, Store::Audit),
            stores,
            backends: Series::new(MOST_BACKENDS),
            latencies: Series::new(MOST_BACKENDS),
            pool_timings: Series::new(MOST_BACKENDS),
            pools: Series::new(MOST_BACKENDS),
            keys: Series::new(MOST_KEYS),
            keyless: Arc::new(KeyMetrics::new()),
            background: BackgroundMetrics::new(),
            cascades: Series::new(MOST_BACKENDS),
            cache: CacheMetrics::new(),
            callers: Series::new(MOST_CALLERS),
            joint: Series::new(32),
            placement: Series::new(16),
        }
    }

    /// Recent latencies of a backend, created if needed.
    pub(super) fn latencies(&self, pool: &Name, backend: &Name) -> Arc<Latencies> {
        self.latencies.get((pool.clone(), backend.clone()), |key| key, |_| Arc::default())
    }

    /// Times of `model` at the backends of a large pool together, created if needed.
    pub(super) fn pool_timings(&self, pool: &Name, model: &Name) -> Arc<Timings> {
        self.pool_timings.get((pool.clone(), model.clone()), |key| key, |_| Arc::new(Timings::new()))
    }

    /// Predicted and reported cached prompt tokens over all backends.
    pub(super) fn prefix_hits(&self) -> PrefixHits {
        let all = self.backends.read();
        all.values().map(|backend| backend.prefix_hits()).fold(PrefixHits::default(), |sum, own| sum + own)
    }
}
