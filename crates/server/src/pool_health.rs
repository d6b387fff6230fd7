//! Load and latency of pools and engines at one moment.

use std::{collections::HashSet, sync::Arc, time::Duration};

use signalbox_fleet::{Backend, BreakerState, Engine, Pool};
use signalbox_gateway::{QueueStanding, Serving};
use signalbox_measure::{Span, Window, merged};
use signalbox_telemetry::{EngineQueue, Latencies, PoolHealth};
use signalbox_types::Moment;

/// Age from which an engine's gauges are ignored.
const OLD: Duration = Duration::from_secs(30);

/// Time for which a request counts as demand of a pool that cannot serve it: an autoscaler looks every 15 to 60 seconds.
const WANTED: Duration = Duration::from_mins(1);

/// Measures the pool at index `at`; `standing` is its wait queue.
pub(super) fn pool_health(serving: &Serving, at: usize, standing: Option<&QueueStanding>, now: Moment) -> PoolHealth {
    let pool = &serving.snapshot.pools[at];
    let recent = |window: fn(&Latencies) -> &Window| {
        let meters = (0..pool.backends.len()).map(|backend| window(serving.meter(at, backend).latencies()));
        merged(meters, Span::Minute, now).map(|summary| summary.mean)
    };
    // Gauges of an engine that stopped answering are out of date.
    let fresh = |at: Moment| now.since(at) < OLD;
    let readings = pool.backends.iter().filter_map(|backend| backend.engine.reading()).filter(|it| fresh(it.at));
    let count = pool.backends.len().max(1) as f64;
    let utilisation = pool.backends.iter().map(|backend| backend.engine.load.view(now).utilisation.min(1.0));
    let meter = serving.pool_meter(at);
    PoolHealth {
        latencies: recent(|it| &it.ttft).zip(recent(|it| &it.streamed)),
        queue_depth: standing.map_or(0, |standing| standing.depth as u64),
        queue_held: standing.map_or(0, |standing| standing.held as u64),
        queue_oldest: standing.map_or(0.0, |standing| standing.oldest.as_secs_f64()),
        kv_usage: readings.filter_map(|reading| reading.signals.kv_usage).reduce(f64::max),
        utilisation: utilisation.sum::<f64>() / count,
        filled: filled(serving, pool),
        round_trip: round_trip(serving, at, now),
        engine_queue: engine_queue(pool, now),
        stalls: meter.stalls(now),
        tail: meter.tail(now),
        unserved: meter.was_wanted(WANTED, now) && !pool.backends.iter().any(|it| is_usable(it, now)),
    }
}

/// True if nothing is known to keep requests from being answered there.
fn is_usable(backend: &Backend, now: Moment) -> bool {
    backend.worst_own_breaker(now) == BreakerState::Closed
        && backend.engine.breaker.state(now) == BreakerState::Closed
        && backend.is_up(now) != Some(false)
}

/// Requests on a pool's engines, each counted once; `None` if none reports its queue.
fn engine_queue(pool: &Pool, now: Moment) -> Option<EngineQueue> {
    let mut seen = HashSet::new();
    let mut sum: Option<EngineQueue> = None;
    for backend in &pool.backends {
        if !seen.insert(Arc::as_ptr(&backend.engine)) {
            continue;
        }
        let Some(reading) = backend.engine.reading().filter(|reading| now.since(reading.at) < OLD) else { continue };
        let Some(waiting) = reading.signals.waiting else { continue };
        let sum = sum.get_or_insert_default();
        sum.waiting += waiting;
        if waiting >= sum.longest {
            (sum.longest, sum.running) = (waiting, reading.signals.running.unwrap_or(0.0));
        }
    }
    sum
}

/// Mean network round trip to a pool's engines, in seconds, weighted by the first tokens of the last minute so that it is comparable to their
/// TTFT. `None` if it is known of no engine.
fn round_trip(serving: &Serving, at: usize, now: Moment) -> Option<f64> {
    let backends = serving.snapshot.pools[at].backends.iter().enumerate();
    let known = backends.filter_map(|(backend, it)| {
        let [ttft, ..] = serving.meter(at, backend).latencies().summaries(Span::Minute, now);
        Some((ttft?.count as f64, it.engine.round_trip.get(now)?))
    });
    let (count, sum) = known.fold((0.0, 0.0), |(count, sum), (tokens, way)| (count + tokens, sum + tokens * way));
    (count > 0.0).then(|| sum / count)
}

/// Seconds by which first tokens are seen later than `engine` itself reports.
pub(super) fn hidden_queue(serving: &Serving, engine: &Arc<Engine>, now: Moment) -> Option<f64> {
    let own = engine.mean_ttft(now)?;
    let pools = serving.snapshot.pools.iter().enumerate();
    let meters = pools.flat_map(|(at, pool)| {
        let backends = pool.backends.iter().enumerate().filter(|(_, backend)| Arc::ptr_eq(&backend.engine, engine));
        backends.map(move |(backend, _)| &serving.meter(at, backend).latencies().upstream_ttft)
    });
    Some((merged(meters, Span::Minute, now)?.mean - own).max(0.0))
}

/// Share of the pool's concurrency limits in use; `None` if an engine has no limit.
fn filled(serving: &Serving, pool: &Pool) -> Option<f64> {
    let engines = &serving.snapshot.policy.engines;
    let most = pool.backends.iter().map(|backend| engines[backend.spec.engine].max_concurrency).sum::<Option<u32>>()?;
    let taken: u32 = pool.backends.iter().map(|backend| backend.engine.load.in_flight()).sum();
    (most > 0).then(|| f64::from(taken) / f64::from(most))
}
