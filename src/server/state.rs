//! The present state as the page reads it.

use std::sync::Arc;

use serde::Serialize;

use super::house::House;
use crate::{
    fleet::{Backend, Pool},
    gateway::{Line, Serving},
    measure::{RateSpan, Span, Summary, merged},
    policy::Policy,
    telemetry::{self, BackendMetrics, Latencies, SloLive},
    types::{Moment, Name},
};

/// How many decisions the page shows.
const DECISIONS: usize = 30;

/// Everything the page shows, at one moment.
#[derive(Serialize)]
pub(super) struct State {
    version: &'static str,
    hash: String,
    uptime_s: f64,
    simulated: bool,
    draining: bool,
    in_flight: u64,
    requests: Requests,
    /// `None` where the policy has no cache.
    cache: Option<CacheState>,
    /// The shares of prompt tokens that were expected to be in engines' prefix caches, and that were; `None` before any were reported.
    prefix: Option<Prefix>,
    pools: Vec<PoolState>,
    routes: Vec<RouteState>,
    decisions: Vec<DecisionState>,
}

#[derive(Serialize)]
struct Requests {
    total: u64,
    per_second: f64,
}

/// Shares of the prompt tokens of answers that report cached ones, since the start.
#[derive(Serialize)]
struct Prefix {
    predicted: f64,
    reported: f64,
}

/// The cache since the start.
#[derive(Serialize)]
struct CacheState {
    tiers: Vec<CacheTier>,
    saved_usd: f64,
    /// How often hits by meaning were false; `None` where the policy has no such cache.
    false_hits: Option<FalseHits>,
    /// The embedder that decides which texts mean the same, once there was a text.
    embedder: Option<String>,
}

/// One of its tiers: `exact` (with those who shared a request under way) or `semantic`.
#[derive(Serialize)]
struct CacheTier {
    tier: &'static str,
    /// Requests that looked for an answer there.
    lookups: u64,
    /// Those of them that were answered without an engine's work.
    hits: u64,
    hit_rate: Option<f64>,
    entries: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct FalseHits {
    /// How many labels stand behind it; 0 where none was verified.
    labels: f64,
    rate: f64,
    lower: f64,
    upper: f64,
    shadow_scopes: u64,
}

#[derive(Serialize)]
struct PoolState {
    name: Name,
    /// How each of its objectives stands.
    slo: Vec<SloLive>,
    balance: &'static str,
    ttft: Option<Quantiles>,
    tpot: Option<Quantiles>,
    backends: Vec<BackendState>,
}

/// A way that requests of a model go.
#[derive(Serialize)]
struct RouteState {
    name: Name,
    /// How each of its objectives stands.
    slo: Vec<SloLive>,
}

#[derive(Serialize)]
struct BackendState {
    name: Name,
    engine: Name,
    model: Option<Name>,
    state: &'static str,
    /// What the breaker of its engine lets through.
    breaker: &'static str,
    in_flight: u32,
    queued_tokens: u64,
    decoding: u32,
    weight: Option<f64>,
    /// The share of prompt tokens that it reported as cached, since the start.
    prefix_hits: Option<f64>,
    /// Its part of the pool's requests since the start.
    share: Option<f64>,
    signals: Option<SignalState>,
    ttft: Option<Quantiles>,
    tpot: Option<Quantiles>,
    e2e: Option<Quantiles>,
    requests: u64,
    errors: u64,
    tokens_per_s: f64,
}

#[derive(Serialize)]
struct SignalState {
    kind: &'static str,
    running: Option<f64>,
    waiting: Option<f64>,
    kv_usage: Option<f64>,
    age_s: f64,
}

/// Over the last minute, in seconds.
#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p90: f64,
    p95: f64,
    p99: f64,
    count: u64,
}

#[derive(Serialize)]
struct DecisionState {
    id: Arc<str>,
    age_s: f64,
    model: Option<String>,
    route: Option<Name>,
    pool: Option<Name>,
    backend: Option<Name>,
    reason: Option<&'static str>,
    /// What the cache made of it.
    cache: Option<&'static str>,
    status: u16,
    outcome: &'static str,
    ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    e2e_ms: f64,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl State {
    /// The state of `house` now.
    pub(super) fn of(house: &House, draining: bool) -> Self {
        let now = house.desk.clock.now();
        let serving = house.live.load();
        let policy = &serving.snapshot.policy;
        let pools = serving.snapshot.pools.iter().enumerate();
        let mut budgets = house.desk.slos.pools(now);
        let mut slo = |pool: &Pool| {
            let own = budgets.iter_mut().find(|(name, _)| *name == pool.spec.name);
            own.map(|(_, slo)| std::mem::take(slo)).unwrap_or_default()
        };
        let routes = house.desk.slos.routes(now).into_iter();
        let ratios = house.desk.metrics.prefix_hits().ratios();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            hash: policy.hash.clone(),
            uptime_s: now.since(Moment::default()).as_secs_f64(),
            simulated: policy.simulated,
            draining,
            in_flight: house.desk.metrics.in_flight(),
            requests: Requests {
                total: house.desk.metrics.requests_total(),
                per_second: house.desk.rate.per_second(RateSpan::TenSeconds, now),
            },
            cache: policy.caching.as_ref().map(|_| cache(house, policy, now)),
            prefix: ratios.map(|(predicted, reported)| Prefix { predicted, reported }),
            pools: pools.map(|(at, pool)| pool_state(&serving, at, pool, slo(pool), now)).collect(),
            routes: routes.map(|(name, slo)| RouteState { name, slo }).collect(),
            decisions: house.desk.last(DECISIONS).iter().map(|line| decision(line)).collect(),
        }
    }
}

fn cache(house: &House, policy: &Policy, now: Moment) -> CacheState {
    let metrics = house.desk.metrics.cache();
    let tier = |live: telemetry::CacheLive| {
        let (lookups, hits) = metrics.rates(live.tier);
        let hit_rate = (lookups > 0).then(|| hits as f64 / lookups as f64);
        CacheTier { tier: live.tier, lookups, hits, hit_rate, entries: live.entries, bytes: live.bytes }
    };
    let false_hits = house.false_hits(policy, now).map(|live| FalseHits {
        labels: live.labels,
        rate: live.rate,
        lower: live.lower,
        upper: live.upper,
        shadow_scopes: live.shadow_scopes,
    });
    let tiers = house.caches(policy).into_iter().map(tier).collect();
    let embedder = house.desk.meanings.embedder();
    CacheState { tiers, saved_usd: metrics.saved_usd(), false_hits, embedder }
}

fn pool_state(serving: &Serving, at: usize, pool: &Pool, slo: Vec<SloLive>, now: Moment) -> PoolState {
    let meters: Vec<&Arc<BackendMetrics>> =
        (0..pool.backends.len()).map(|backend| serving.meter(at, backend)).collect();
    let total: u64 = meters.iter().map(|meter| meter.requests_total()).sum();
    let over_all = |window: fn(&Latencies) -> &crate::measure::Window| {
        merged(meters.iter().map(|meter| window(meter.latencies())), Span::Minute, now).map(quantiles)
    };
    let backends = pool.backends.iter().zip(&meters);
    PoolState {
        name: pool.spec.name.clone(),
        slo,
        balance: pool.spec.balance.name(),
        ttft: over_all(|latencies| &latencies.ttft),
        tpot: over_all(|latencies| &latencies.tpot),
        backends: backends.map(|(backend, meter)| backend_state(backend, meter, total, now)).collect(),
    }
}

fn backend_state(backend: &Backend, meter: &BackendMetrics, total: u64, now: Moment) -> BackendState {
    let [ttft, tpot, e2e] = meter.latencies().summaries(Span::Minute, now).map(|summary| summary.map(quantiles));
    let engine = &backend.engine;
    let requests = meter.requests_total();
    BackendState {
        name: backend.name().clone(),
        engine: engine.name.clone(),
        model: backend.spec.model.clone(),
        breaker: engine.breaker.state(now).label(),
        state: match engine.is_up(now) {
            None => "unknown",
            Some(true) => "up",
            Some(false) => "down",
        },
        in_flight: backend.load.in_flight(),
        queued_tokens: backend.load.queued_tokens(),
        decoding: backend.load.decoding(),
        weight: backend.spec.weight,
        prefix_hits: meter.prefix_hit_ratio(),
        share: (total > 0).then(|| requests as f64 / total as f64),
        signals: engine.reading().map(|reading| SignalState {
            kind: reading.signals.kind.name(),
            running: reading.signals.running,
            waiting: reading.signals.waiting,
            kv_usage: reading.signals.kv_usage,
            age_s: now.since(reading.at).as_secs_f64(),
        }),
        ttft,
        tpot,
        e2e,
        requests,
        errors: meter.errors_total(),
        tokens_per_s: meter.tokens_per_second(now),
    }
}

fn quantiles(summary: Summary) -> Quantiles {
    let Summary { p50, p90, p95, p99, count, .. } = summary;
    Quantiles { p50, p90, p95, p99, count }
}

fn decision(line: &Line) -> DecisionState {
    let answered = line.last();
    DecisionState {
        id: line.id.clone(),
        age_s: line.age().as_secs_f64(),
        model: line.model.clone(),
        route: line.route.clone(),
        pool: answered.map(|attempt| attempt.pool.clone()).or_else(|| line.reused.as_ref()?.pool.clone()),
        backend: answered.map(|attempt| attempt.backend.clone()),
        reason: answered.map(|attempt| attempt.reason),
        cache: line.reused.as_ref().map(|reused| reused.result),
        status: line.status,
        outcome: line.outcome,
        ttft_ms: line.ttft_ms,
        tpot_ms: line.tpot_ms,
        e2e_ms: line.e2e_ms,
        prompt_tokens: line.usage.map(|usage| usage.prompt_tokens),
        completion_tokens: line.usage.map(|usage| usage.completion_tokens),
    }
}
