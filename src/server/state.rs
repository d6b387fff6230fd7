//! The present state as the page reads it.

mod health;
mod pools;
mod tiers;

use std::sync::Arc;

use serde::Serialize;

use self::{
    health::Health,
    pools::{CostState, PoolState, Pools, RouteState},
    tiers::{TieredState, tiered},
};
use super::house::House;
use crate::{
    fleet::Pool,
    journal::JournalEntry,
    measure::RateSpan,
    policy::Policy,
    telemetry,
    types::{Moment, Name},
};

/// How many decisions the page shows.
const DECISIONS: usize = 30;
/// How many of the last ones are looked at for what was predicted of them.
const FORESEEN: usize = 256;

/// Everything the page shows, at one moment.
#[derive(Serialize)]
pub(super) struct State {
    version: &'static str,
    hash: String,
    /// Since when this policy is in force.
    loaded_s: f64,
    uptime_s: f64,
    simulated: bool,
    draining: bool,
    health: Health,
    /// Where callers connect, what they may ask for, and whether they need a key: for whoever sends the first request.
    api: String,
    model: Option<Name>,
    asks_keys: bool,
    in_flight: u64,
    requests: Requests,
    /// `None` where nothing had a price yet.
    cost: Option<CostState>,
    /// `None` where the policy has no cache.
    cache: Option<CacheState>,
    /// The shares of prompt tokens that were expected to be in engines' prefix caches, and that were; `None` before any were reported.
    prefix: Option<Prefix>,
    pools: Vec<PoolState>,
    routes: Vec<RouteState>,
    /// Routes with tiers.
    tiered: Vec<TieredState>,
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
    /// The attempts it took.
    attempts: usize,
    ttft_ms: Option<f64>,
    /// From dispatch on: the median as predicted, and as seen.
    predicted_ttft_ms: Option<f64>,
    upstream_ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    e2e_ms: f64,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    cost_usd: Option<f64>,
}

impl State {
    /// The state of `house` now. It looks at every backend: not on a worker.
    pub(super) fn of(house: &House, draining: bool) -> Self {
        let now = house.desk.clock.now();
        let serving = house.live.load();
        let policy = &serving.snapshot.policy;
        let recent = house.desk.decisions.last(FORESEEN);
        let gathered = Pools::new(house, &serving, &recent, now);
        let mut budgets = house.desk.accounting.error_budgets.pools(now);
        let mut slo = |pool: &Pool| {
            let own = budgets.iter_mut().find(|(name, _)| *name == pool.spec.name);
            own.map(|(_, slo)| std::mem::take(slo)).unwrap_or_default()
        };
        let pools = serving.snapshot.pools.iter().enumerate();
        let pools: Vec<_> = pools.map(|(at, pool)| gathered.state(at, pool, slo(pool))).collect();
        let routes = house.desk.accounting.error_budgets.routes(now).into_iter();
        let routes: Vec<_> = routes.map(|(name, slo)| RouteState { name, slo }).collect();
        let cache = policy.caching.as_ref().map(|_| cache(house, policy, now));
        let shadow = cache.as_ref().and_then(|cache| cache.false_hits.as_ref()).map_or(0, |it| it.shadow_scopes);
        let health = Health::of(&pools, &routes, draining, shadow);
        let cost = gathered.cost();
        let ratios = house.desk.metrics.prefix_hits().ratios();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            hash: policy.hash.clone(),
            loaded_s: now.seconds_since(serving.since),
            uptime_s: now.seconds_since(Moment::default()),
            simulated: policy.simulated,
            draining,
            health,
            api: api(policy),
            model: policy.models.names().next().cloned(),
            asks_keys: !policy.keys.is_empty(),
            in_flight: house.desk.metrics.in_flight(),
            requests: Requests {
                total: house.desk.metrics.requests_total(),
                per_second: house.desk.accounting.rate.per_second(RateSpan::TenSeconds, now),
            },
            cost,
            cache,
            prefix: ratios.map(|(predicted, reported)| Prefix { predicted, reported }),
            pools,
            routes,
            tiered: tiered(house, policy, now),
            decisions: recent.iter().take(DECISIONS).map(|line| decision(line)).collect(),
        }
    }
}

/// Where callers connect, as far as the policy says it.
fn api(policy: &Policy) -> String {
    let scheme = if policy.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}", policy.listen)
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
    let embedder = house.desk.answers.local.semantic.embedder();
    CacheState { tiers, saved_usd: metrics.saved_usd(), false_hits, embedder }
}

fn decision(line: &JournalEntry) -> DecisionState {
    let answered = line.last();
    DecisionState {
        id: line.id.clone(),
        age_s: line.age().as_secs_f64(),
        model: line.model.clone(),
        route: line.route.clone(),
        pool: answered.map(|attempt| attempt.pool.clone()).or_else(|| line.cache.as_ref()?.pool.clone()),
        backend: answered.map(|attempt| attempt.backend.clone()),
        reason: answered.map(|attempt| attempt.reason),
        cache: line.cache.as_ref().map(|reused| reused.result),
        status: line.status,
        outcome: line.outcome,
        attempts: line.attempts.len(),
        ttft_ms: line.ttft_ms,
        predicted_ttft_ms: answered.map(|attempt| attempt.predicted.ttft_ms),
        upstream_ttft_ms: answered.and_then(|attempt| attempt.ttft_ms),
        tpot_ms: line.tpot_ms,
        e2e_ms: line.e2e_ms,
        prompt_tokens: line.usage.map(|usage| usage.prompt_tokens),
        completion_tokens: line.usage.map(|usage| usage.completion_tokens),
        cost_usd: line.cost_usd,
    }
}
