//! What pools cost at one moment, and what they have cost by the hour since the start.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    gateway::Serving,
    telemetry::{Rented, Spending},
    types::Moment,
};

/// Up to when hours were counted.
#[derive(Debug, Default)]
pub(super) struct Accrued(AtomicU64);

/// What each pool costs.
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
    /// Counts what the hours of the engines that serve cost since this was last done.
    pub(super) fn until(&self, now: Moment, serving: &Serving) {
        // Whoever comes second finds the time taken.
        let before = Moment::from_nanos(self.0.fetch_max(now.nanos(), Relaxed));
        if serving.snapshot.policy.engines.iter().all(|engine| engine.gpu_hour.is_none()) {
            return;
        }
        let seconds = now.seconds_since(before);
        for (at, spending) in spending(serving, now).into_iter().enumerate() {
            serving.pool_meter(at).gpu_cost(spending.gpu_usd_per_s * seconds);
        }
    }
}
