//! Cost of pools: the current rate, and GPU hours accrued since the start.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use signalbox_gateway::Serving;
use signalbox_telemetry::{CacheMetrics, Rented, Spending};
use signalbox_types::Moment;

/// Time up to which hours were charged.
#[derive(Debug, Default)]
pub(super) struct Accrued(AtomicU64);

/// Current spending of each pool.
pub(super) fn spending(serving: &Serving, now: Moment) -> Vec<Spending> {
    let (pools, engines) = (&serving.snapshot.pools, &serving.snapshot.policy.engines);
    let rented = pools.iter().enumerate().flat_map(|(at, pool)| {
        pool.backends.iter().enumerate().map(move |(place, backend)| Rented {
            engine: backend.spec.engine,
            hourly: engines[backend.spec.engine].gpu_hour,
            spending: serving.meter(at, place).spending(now),
        })
    });
    let mut each = Spending::of(&rented.collect::<Vec<_>>()).into_iter();
    pools.iter().map(|pool| each.by_ref().take(pool.backends.len()).sum()).collect()
}

impl Accrued {
    /// Charges the hours of the serving engines since the last call.
    pub(super) fn until(&self, now: Moment, serving: &Serving, cache: &CacheMetrics) {
        // A concurrent second caller finds the interval already claimed.
        let before = Moment::from_nanos(self.0.fetch_max(now.nanos(), Relaxed));
        if serving.snapshot.policy.engines.iter().all(|engine| engine.gpu_hour.is_none()) {
            return;
        }
        let seconds = now.seconds_since(before);
        for (at, spending) in spending(serving, now).into_iter().enumerate() {
            serving.pool_meter(at).gpu_cost(spending.gpu_usd_per_s * seconds);
            // What kept answers spare is engine time, at what it costs while the engines work.
            if let Some(million) = spending.per_million_output().filter(|_| spending.gpu_usd_per_s > 0.0) {
                cache.price_saved(&serving.snapshot.pools[at].spec.name, million / 1e6);
            }
        }
    }
}
