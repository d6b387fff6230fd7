//! The state of the gateway as `/admin/state` reports it: for the page and for `signalbox top`, which may be of another release. A field that is
//! missing has its default there.

mod health;
mod pools;
mod tiers;

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    health::{Health, Level},
    pools::{BackendState, CostState, CredentialState, PoolState, Quantiles, RouteState},
};
use self::{
    pools::Pools,
    tiers::{TieredState, tiered},
};
use super::app::App;
use crate::{
    fleet::Pool,
    gateway::Line,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) version: Cow<'static, str>,
    pub(crate) hash: String,
    /// Since when this policy is in force.
    pub(crate) loaded_s: f64,
    pub(crate) uptime_s: f64,
    pub(crate) simulated: bool,
    pub(crate) draining: bool,
    pub(crate) health: Health,
    /// Where callers connect, what they may ask for, and whether they need a key: for whoever sends the first request.
    pub(crate) api: String,
    pub(crate) model: Option<Name>,
    pub(crate) asks_keys: bool,
    pub(crate) in_flight: u64,
    pub(crate) requests: Requests,
    /// `None` where nothing had a price yet.
    pub(crate) cost: Option<CostState>,
    /// `None` where the policy has no cache.
    pub(crate) cache: Option<CacheState>,
    /// The shares of prompt tokens that were expected to be in engines' prefix caches, and that were; `None` before any were reported.
    pub(crate) prefix: Option<Prefix>,
    pub(crate) pools: Vec<PoolState>,
    pub(crate) routes: Vec<RouteState>,
    /// Routes with tiers.
    #[serde(skip_deserializing)]
    pub(crate) tiered: Vec<TieredState>,
    pub(crate) decisions: Vec<DecisionState>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Requests {
    pub(crate) total: u64,
    pub(crate) per_second: f64,
}

/// Shares of the prompt tokens of answers that report cached ones, since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Prefix {
    pub(crate) predicted: f64,
    pub(crate) reported: f64,
}

/// The cache since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CacheState {
    pub(crate) tiers: Vec<CacheTier>,
    pub(crate) saved_usd: f64,
    /// How often hits by meaning were false; `None` where the policy has no such cache.
    pub(crate) false_hits: Option<FalseHits>,
    /// The embedder that decides which texts mean the same, once there was a text.
    pub(crate) embedder: Option<String>,
}

/// One of its tiers: `exact` (with those who shared a request under way) or `semantic`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CacheTier {
    pub(crate) tier: Cow<'static, str>,
    /// Requests that looked for an answer there.
    pub(crate) lookups: u64,
    /// Those of them that were answered without an engine's work.
    pub(crate) hits: u64,
    pub(crate) hit_rate: Option<f64>,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FalseHits {
    /// How many labels stand behind it; 0 where none was verified.
    pub(crate) labels: f64,
    pub(crate) rate: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) shadow_scopes: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DecisionState {
    pub(crate) id: Arc<str>,
    pub(crate) age_s: f64,
    pub(crate) model: Option<String>,
    pub(crate) route: Option<Name>,
    pub(crate) pool: Option<Name>,
    pub(crate) backend: Option<Name>,
    pub(crate) reason: Option<Cow<'static, str>>,
    /// What the cache made of it.
    pub(crate) cache: Option<Cow<'static, str>>,
    pub(crate) status: u16,
    pub(crate) outcome: Cow<'static, str>,
    /// The attempts it took.
    pub(crate) attempts: usize,
    pub(crate) ttft_ms: Option<f64>,
    /// From dispatch on: the median as predicted, and as seen.
    pub(crate) predicted_ttft_ms: Option<f64>,
    pub(crate) upstream_ttft_ms: Option<f64>,
    pub(crate) tpot_ms: Option<f64>,
    pub(crate) e2e_ms: f64,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
}

impl State {
    /// The state of `app` now. It looks at every backend: not on a worker.
    pub(super) fn of(app: &App, draining: bool) -> Self {
        let now = app.desk.clock.now();
        let serving = app.live.load();
        let policy = &serving.snapshot.policy;
        let recent = app.desk.last(FORESEEN);
        let gathered = Pools::new(app, &serving, &recent, now);
        let mut budgets = app.desk.slos.pools(now);
        let mut slo = |pool: &Pool| {
            let own = budgets.iter_mut().find(|(name, _)| *name == pool.spec.name);
            own.map(|(_, slo)| std::mem::take(slo)).unwrap_or_default()
        };
        let pools = serving.snapshot.pools.iter().enumerate();
        let pools: Vec<_> = pools.map(|(at, pool)| gathered.state(at, pool, slo(pool))).collect();
        let routes = app.desk.slos.routes(now).into_iter();
        let routes: Vec<_> = routes.map(|(name, slo)| RouteState { name, slo }).collect();
        let cache = policy.caching.as_ref().map(|_| cache(app, policy, now));
        let shadow = cache.as_ref().and_then(|cache| cache.false_hits.as_ref()).map_or(0, |it| it.shadow_scopes);
        let health = Health::of(&pools, &routes, draining, shadow);
        let cost = gathered.cost();
        let ratios = app.desk.metrics.prefix_hits().ratios();
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            hash: policy.hash.clone(),
            loaded_s: now.seconds_since(serving.since),
            uptime_s: now.seconds_since(Moment::default()),
            simulated: policy.simulated,
            draining,
            health,
            api: api(policy),
            model: policy.models.names().next().cloned(),
            asks_keys: !policy.keys.is_empty(),
            in_flight: app.desk.metrics.in_flight(),
            requests: Requests {
                total: app.desk.metrics.requests_total(),
                per_second: app.desk.rate.per_second(RateSpan::TenSeconds, now),
            },
            cost,
            cache,
            prefix: ratios.map(|(predicted, reported)| Prefix { predicted, reported }),
            pools,
            routes,
            tiered: tiered(app, policy, now),
            decisions: recent.iter().take(DECISIONS).map(|line| decision(line)).collect(),
        }
    }
}

/// Where callers connect, as far as the policy says it.
fn api(policy: &Policy) -> String {
    let scheme = if policy.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}", policy.listen)
}

fn cache(app: &App, policy: &Policy, now: Moment) -> CacheState {
    let metrics = app.desk.metrics.cache();
    let tier = |live: telemetry::CacheLive| {
        let (lookups, hits) = metrics.rates(live.tier);
        let hit_rate = (lookups > 0).then(|| hits as f64 / lookups as f64);
        CacheTier { tier: live.tier.into(), lookups, hits, hit_rate, entries: live.entries, bytes: live.bytes }
    };
    let false_hits = app.false_hits(policy, now).map(|live| FalseHits {
        labels: live.labels,
        rate: live.rate,
        lower: live.lower,
        upper: live.upper,
        shadow_scopes: live.shadow_scopes,
    });
    let tiers = app.caches(policy).into_iter().map(tier).collect();
    let embedder = app.desk.meanings.embedder();
    CacheState { tiers, saved_usd: metrics.saved_usd(), false_hits, embedder }
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
        reason: answered.map(|attempt| attempt.reason.into()),
        cache: line.reused.as_ref().map(|reused| reused.result.into()),
        status: line.status,
        outcome: line.outcome.into(),
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
