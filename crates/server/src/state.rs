//! State of the gateway as `/admin/state` reports it, to the page and to `signalbox top`. A reader may be of another release: a missing field
//! has its default there.
#![expect(missing_docs, reason = "fields without a comment are named as what they hold")]

mod callers;
mod fleet;
mod health;
mod missing_endpoints;
mod pools;
mod tiers;

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

pub use self::{
    callers::CallerState,
    fleet::{LeavingState, SourceState},
    health::{Health, Level},
    pools::{BackendState, CostState, CredentialState, PoolState, Quantiles, RouteState},
};
use self::{
    pools::Pools,
    tiers::{TieredState, tiered},
};
use super::{Control, app::App};
use signalbox_fleet::Pool;
use signalbox_journal::JournalEntry;
use signalbox_measure::RateSpan;
use signalbox_policy::Policy;
use signalbox_quota::Amount;
use signalbox_telemetry as telemetry;
use signalbox_types::{Moment, Name, wall_clock};

/// Decisions that are listed.
const DECISIONS: usize = 30;
/// Decisions over which predicted and observed TTFT are compared.
const PREDICTED: usize = 256;

/// State of the gateway at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub version: Cow<'static, str>,
    pub hash: String,
    /// Seconds since this policy was loaded.
    pub loaded_s: f64,
    pub uptime_s: f64,
    pub simulated: bool,
    pub draining: bool,
    pub health: Health,
    /// Address of the API, a model to ask for, and whether callers need a key: for the example request of the page.
    pub api: String,
    pub model: Option<Name>,
    pub asks_keys: bool,
    pub in_flight: u64,
    pub requests: Requests,
    /// `None` until a request had a price.
    pub cost: Option<CostState>,
    /// `None` if the policy has no cache.
    pub cache: Option<CacheState>,
    /// Prefix cache hits of engines, predicted and reported; `None` until an engine reported any.
    pub prefix: Option<Prefix>,
    pub pools: Vec<PoolState>,
    /// DNS names and files that backends come from.
    pub sources: Vec<SourceState>,
    pub routes: Vec<RouteState>,
    /// Times as callers saw them, by route.
    pub callers: Vec<CallerState>,
    /// Routes with tiers.
    #[serde(skip_deserializing)]
    pub tiered: Vec<TieredState>,
    pub decisions: Vec<DecisionState>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    pub total: u64,
    pub per_second: f64,
}

/// Shares of prompt tokens that were predicted and reported as cached, over answers with a report, since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Prefix {
    pub predicted: f64,
    pub reported: f64,
}

/// Figures of the cache since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheState {
    pub tiers: Vec<CacheTier>,
    /// Cost of answers given again when engines wrote them: by their tokens, or by the hours of the engines.
    pub saved_usd: f64,
    /// Seconds that those answers had taken.
    pub saved_s: f64,
    /// Rate of false semantic hits; `None` if the policy has no semantic cache.
    pub false_hits: Option<FalseHits>,
    /// Id of the embedder that decides; `None` until the first text.
    pub embedder: Option<String>,
}

/// A tier of the cache: `exact` (including coalesced requests) or `semantic`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheTier {
    pub tier: Cow<'static, str>,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that were answered without an engine.
    pub hits: u64,
    pub hit_rate: Option<f64>,
    pub entries: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FalseHits {
    /// Labels that the rate is based on; 0 if none was verified.
    pub labels: f64,
    pub rate: f64,
    pub lower: f64,
    pub upper: f64,
    pub shadow_scopes: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DecisionState {
    pub id: Arc<str>,
    pub age_s: f64,
    /// Id of the caller's key.
    pub key: Option<Name>,
    pub model: Option<String>,
    pub route: Option<Name>,
    pub pool: Option<Name>,
    pub backend: Option<Name>,
    pub reason: Option<Cow<'static, str>>,
    /// Result of the cache lookup.
    pub cache: Option<Cow<'static, str>>,
    pub status: u16,
    pub outcome: Cow<'static, str>,
    /// Number of attempts.
    pub attempts: usize,
    pub ttft_ms: Option<f64>,
    /// TTFT from dispatch on: predicted median, and observed.
    pub predicted_ttft_ms: Option<f64>,
    pub upstream_ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    /// The largest gap between two chunks of a stream.
    pub largest_gap_ms: Option<f64>,
    pub e2e_ms: f64,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub cost_usd: Option<f64>,
}

impl State {
    /// Gathers the state of the gateway. Visits every backend: not for an async worker.
    pub(super) fn of(control: &Control) -> Self {
        let (app, discovery, draining) = (&control.app, &control.discovery, control.is_draining());
        let now = app.parts.clock.now();
        let serving = app.live.load();
        let policy = &serving.snapshot.policy;
        let recent = app.parts.decisions.last(PREDICTED);
        let gathered = Pools::new(app, &serving, &recent, now);
        let mut budgets = app.parts.accounting.error_budgets.pools(now);
        let mut slo = |pool: &Pool| {
            let own = budgets.iter_mut().find(|(name, _)| *name == pool.spec.name);
            own.map(|(_, slo)| std::mem::take(slo)).unwrap_or_default()
        };
        let pools = serving.snapshot.pools.iter().enumerate();
        let mut pools: Vec<_> = pools.map(|(at, pool)| gathered.state(at, pool, slo(pool))).collect();
        for (name, leaving) in fleet::leaving(discovery, &serving.snapshot) {
            if let Some(pool) = pools.iter_mut().find(|pool| pool.name == name) {
                pool.leaving.push(leaving);
            }
        }
        let sources = fleet::sources(discovery);
        let routes = app.parts.accounting.error_budgets.routes(now).into_iter();
        let routes: Vec<_> = routes.map(|(name, slo)| RouteState { name, slo }).collect();
        let cache = policy.caching.as_ref().map(|_| cache(app, policy, now));
        let shadow = cache.as_ref().and_then(|cache| cache.false_hits.as_ref()).map_or(0, |it| it.shadow_scopes);
        let health = Health::of(&pools, &routes, &sources, (draining, shadow))
            .with_spent(&spent(app))
            .with_refused(control.policy_log.refused())
            .with_failed_stores(app.failed_stores())
            .with_unshared(&app.unshared())
            .ranked();
        let cost = gathered.cost();
        let ratios = app.parts.metrics.prefix_hits().ratios();
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
            asks_keys: policy.asks_keys(),
            in_flight: app.parts.metrics.in_flight(),
            requests: Requests {
                total: app.parts.metrics.requests_total(),
                per_second: app.parts.accounting.rate.per_second(RateSpan::TenSeconds, now),
            },
            cost,
            cache,
            prefix: ratios.map(|(predicted, reported)| Prefix { predicted, reported }),
            pools,
            sources,
            routes,
            callers: callers::callers(&app.parts.metrics, now),
            tiered: tiered(app, policy, now),
            decisions: recent.iter().take(DECISIONS).map(|line| DecisionState::of(line)).collect(),
        }
    }
}

/// Owners of budgets that are spent.
fn spent(app: &App) -> Vec<String> {
    let budgets = app.parts.accounting.callers.budgets(wall_clock::seconds()).into_iter();
    let mut owners: Vec<_> = budgets
        .filter(|(_, budget, spent)| match budget.amount {
            Amount::Usd(usd) => spent.usd >= usd,
            Amount::Tokens(tokens) => spent.tokens >= tokens,
        })
        .map(|(owner, ..)| owner.to_string())
        .collect();
    owners.sort();
    owners
}

/// URL of the API, as far as the policy determines it.
fn api(policy: &Policy) -> String {
    let scheme = if policy.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}", policy.listen)
}

fn cache(app: &App, policy: &Policy, now: Moment) -> CacheState {
    let metrics = app.parts.metrics.cache();
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
    let embedder = app.parts.answers.local.semantic.embedder();
    let (saved_usd, saved_s) = (metrics.saved_usd(), metrics.saved_seconds());
    CacheState { tiers, saved_usd, saved_s, false_hits, embedder }
}

impl DecisionState {
    /// The row of a decision.
    pub(super) fn of(line: &JournalEntry) -> Self {
        let answered = line.last();
        Self {
            id: line.id.clone(),
            age_s: line.age().as_secs_f64(),
            key: line.key.clone(),
            model: line.model.clone(),
            route: line.route.clone(),
            pool: answered.map(|attempt| attempt.pool.clone()).or_else(|| line.cache.as_ref()?.pool.clone()),
            backend: answered.map(|attempt| attempt.backend.clone()),
            reason: answered.map(|attempt| attempt.reason.into()),
            cache: line.cache.as_ref().map(|reused| reused.result.into()),
            status: line.status,
            outcome: line.outcome.into(),
            attempts: line.attempts.len(),
            ttft_ms: line.ttft_ms,
            predicted_ttft_ms: answered.map(|attempt| attempt.predicted.ttft_ms),
            upstream_ttft_ms: answered.and_then(|attempt| attempt.ttft_ms),
            tpot_ms: line.tpot_ms,
            largest_gap_ms: line.gaps.map(|gaps| gaps.largest_ms),
            e2e_ms: line.e2e_ms,
            prompt_tokens: line.usage.map(|usage| usage.prompt_tokens),
            completion_tokens: line.usage.map(|usage| usage.completion_tokens),
            cost_usd: line.cost_usd,
        }
    }
}
