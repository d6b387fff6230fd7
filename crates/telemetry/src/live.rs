//! Live state at the moment of a scrape, supplied by its owners.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{PoolHealth, Spending, key::KeyMetrics};
use signalbox_measure::{BudgetStanding, window_name};
use signalbox_types::{Drafting, Name};

/// State of the fleet for one reading of `/metrics`.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// All backends of all pools. Of two with the same names the later one counts.
    pub backends: Vec<BackendLive>,
    /// All engines. Of two with the same name the later one counts.
    pub engines: Vec<EngineLive>,
    /// DNS names and files that backends come from.
    pub sources: Vec<SourceLive>,
    /// Backends that leave: pool and state.
    pub leaving: Vec<(Name, &'static str)>,
    /// All pools.
    pub pools: Vec<PoolLive>,
    /// All routes with tiers.
    pub tiered: Vec<TieredLive>,
    /// Routes with a learned boundary between short and long prompts, and the boundary in tokens.
    pub boundaries: Vec<(Name, f64)>,
    /// State of each pool's objectives.
    pub pool_slos: Vec<(Name, Vec<SloLive>)>,
    /// State of each route's objectives.
    pub route_slos: Vec<(Name, Vec<SloLive>)>,
    /// Sizes of the scheduler's indexes.
    pub scheduler: Option<SchedulerLive>,
    /// Contents of the cache by tier; none where the policy has no cache.
    pub caches: Vec<CacheLive>,
    /// Stored responses and conversations; `None` where the policy stores none.
    pub responses: Option<CacheLive>,
    /// Log on disk, where the policy has one.
    pub log: Option<CacheLogLive>,
    /// True if the server shared by gateways is reachable; `None` where the policy has none.
    pub shared: Option<bool>,
    /// True if the server for shared limits is reachable; `None` where the policy has none.
    pub shared_limits: Option<bool>,
    /// True if the server for shared placement is reachable; `None` where placement is not shared.
    pub shared_placement: Option<bool>,
    /// Spans that were not exported, by cause; none where nothing is exported.
    pub spans_dropped: Vec<(&'static str, u64)>,
    /// Requests rejected by a limit, by key and limit.
    pub limited: Vec<(Name, &'static str, u64)>,
    /// All callers, by the id of their key.
    pub keys: Vec<(Name, Arc<KeyMetrics>)>,
    /// All teams with a budget.
    pub teams: Vec<BudgetLive>,
    /// All keys with a budget of their own.
    pub key_budgets: Vec<BudgetLive>,
    /// Keys that expire, with the time in seconds since 1970.
    pub key_expiries: Vec<(Name, i64)>,
    /// All provider accounts.
    pub accounts: Vec<AccountLive>,
    /// False hits, where the policy has a semantic cache.
    pub false_hits: Option<FalseHitsLive>,
    /// Replacements for names of backends and engines that the reader must not see.
    pub labels: Arc<HashMap<Name, Name>>,
}

/// A source of backends.
#[derive(Clone, Debug)]
pub struct SourceLive {
    /// Kind and name of the source.
    pub source: String,
    /// Addresses in force.
    pub endpoints: u64,
    /// Unix time in seconds of the source's last successful lookup.
    pub answered: Option<f64>,
    /// Failed lookups of the source.
    pub errors: u64,
}

/// State of one objective of a pool or a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SloLive {
    /// Its name: `ttft_p95`, `tpot_p95_under_512`, `availability`.
    pub objective: Name,
    /// Share of requests that should meet the objective.
    pub target: f64,
    /// Requests that met the objective, since counting began.
    pub good: u64,
    /// All requests that the objective applied to.
    pub total: u64,
    /// Burn rates of the objective's error budget.
    pub burn: BurnLive,
    /// Rest of the budget: 1 for all, below 0 when overspent.
    pub budget_left: f64,
    /// `ok`, `missing`, `burning` or `exhausted`.
    pub state: Cow<'static, str>,
}

/// Burn rates by the name of their window, the shortest first: `5m`, `1h`, `6h`, and that of the budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BurnLive(pub IndexMap<String, f64>);

impl BurnLive {
    /// The rate over the window of this name; 0 if there is none.
    pub fn over(&self, window: &str) -> f64 {
        self.0.get(window).copied().unwrap_or(0.0)
    }
}

impl SloLive {
    /// Combines an objective with its state.
    pub fn new(objective: Name, target: f64, standing: BudgetStanding) -> Self {
        let BudgetStanding { good, total, burn, budget_left, state } = standing;
        let burn = BurnLive(burn.into_iter().map(|(window, rate)| (window_name(window), rate)).collect());
        Self { objective, target, good, total, burn, budget_left, state: state.label().into() }
    }
}

/// Spending of a team or a key in the current period.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetLive {
    /// Name of the team, or id of the key.
    pub owner: Name,
    /// `day` or `month`.
    pub per: &'static str,
    /// US dollars spent.
    pub spent_usd: f64,
    /// Tokens spent.
    pub spent_tokens: u64,
    /// Budget, where it is in US dollars.
    pub budget_usd: Option<f64>,
    /// Budget, where it is in tokens.
    pub budget_tokens: Option<u64>,
}

/// State of a provider account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLive {
    /// The account's name.
    pub account: Name,
    /// Usable keys.
    pub ready: u64,
    /// Currently ejected keys.
    pub left_out: u64,
    /// Key ejections so far.
    pub ejected: u64,
    /// Rest of each per-minute limit.
    pub remaining: Vec<(&'static str, u64)>,
}

/// Rate of false semantic hits, as far as hits were verified.
#[derive(Copy, Clone, Debug)]
pub struct FalseHitsLive {
    /// Estimate, 0 to 1.
    pub rate: f64,
    /// Its lower bound.
    pub lower: f64,
    /// Its upper bound.
    pub upper: f64,
    /// Number of labels behind it.
    pub labels: f64,
    /// Scopes that are not served because they exceed their budget.
    pub shadow_scopes: u64,
}

/// Contents of a cache tier.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheLive {
    /// Its name.
    pub tier: &'static str,
    /// Stored answers.
    pub entries: u64,
    /// Their size.
    pub bytes: u64,
    /// Evictions so far, by reason.
    pub evictions: Vec<(&'static str, u64)>,
}

/// Log of stored answers on disk.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct CacheLogLive {
    /// True if answers are written to disk: no other gateway uses the folder, and the disk has not failed.
    pub up: bool,
    /// Live answers.
    pub records: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Answers that were lost or never written, by reason.
    pub lost: [(&'static str, u64); 4],
    /// Unreadable bytes when the file was opened.
    pub damaged: u64,
    /// Compactions so far.
    pub compactions: u64,
    /// Answers read back at the start, by tier.
    pub loaded: [(&'static str, u64); 2],
    /// Seconds that took, or has taken so far.
    pub load_seconds: f64,
}

/// Queue of a pool, and accuracy of its recent predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolLive {
    /// The pool's name.
    pub pool: Name,
    /// Requests that wait for room.
    pub queue_depth: u64,
    /// Wait of the oldest request in the pool's queue, in seconds.
    pub queue_oldest: f64,
    /// State of the pool's backends, for its diagnosis.
    pub health: PoolHealth,
    /// The pool's cost.
    pub spending: Spending,
    /// Predictions of the time to first token; `None` before any was scored.
    pub ttft: Option<AccuracyLive>,
    /// Predictions of the time per token.
    pub tpot: Option<AccuracyLive>,
    /// Forecasts of answer lengths.
    pub output: Option<OutputLive>,
}

/// Accuracy of recent predictions.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct AccuracyLive {
    /// Share of observations at or below their predicted 90th percentile.
    pub coverage: f64,
    /// Mean of |predicted median ÷ observed − 1|.
    pub relative_error: f64,
    /// Mean pinball loss of the 90th percentile, in seconds.
    pub pinball: f64,
    /// Loss of a moving average, in seconds.
    pub baseline_pinball: f64,
}

/// Accuracy of recent length forecasts.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct OutputLive {
    /// Share of answers no longer than their predicted 90th percentile.
    pub coverage: f64,
    /// Median of |predicted median ÷ length − 1|.
    pub relative_error: f64,
}

/// State of a route with tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct TieredLive {
    /// The route's name.
    pub route: Name,
    /// Requests by tier, cheapest first: intended, settled with their sessions, and served.
    pub requests: Vec<[u64; 3]>,
    /// Recent shares of requests by tier, in the order of `requests`.
    pub shares: Vec<[f64; 3]>,
    /// Bars between the tiers.
    pub bars: Vec<f64>,
    /// Recent mean of the expected quality of the route's answers.
    pub quality: f64,
    /// Times that a session changed its tier.
    pub flips: u64,
}

/// Sizes of the scheduler's indexes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerLive {
    /// Memory of the prefix index, in bytes.
    pub prefix_bytes: u64,
    /// Blocks in the prefix index.
    pub prefix_blocks: u64,
    /// Sessions in the affinity index.
    pub sessions: u64,
}

/// Requests under way for a backend, by the gateway's own count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendLive {
    /// The backend's pool.
    pub pool: Name,
    /// The backend's name.
    pub backend: Name,
    /// Attempts under way.
    pub in_flight: u64,
    /// Estimated prompt tokens of attempts that wait for their first token.
    pub queued_prompt_tokens: u64,
    /// Attempts past their first token.
    pub decoding: u64,
    /// Estimated prompt tokens of attempts past their first token.
    pub context_tokens: u64,
    /// State of the backend's own breaker.
    pub breaker: &'static str,
}

/// Gauges of an engine; `None` for those it does not report. Separate from [`BackendLive`], because an engine shared by
/// several backends would otherwise be counted once for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineLive {
    /// The engine's name.
    pub engine: Name,
    /// True if the engine's last scrape succeeded; `None` where it is not scraped.
    pub up: Option<bool>,
    /// Seconds since the last successful scrape.
    pub scrape_age: Option<f64>,
    /// Requests being computed.
    pub running: Option<f64>,
    /// Requests in the engine's queue.
    pub waiting: Option<f64>,
    /// Share of the engine's KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Share of prompt tokens found in the engine's prefix cache, 0 to 1.
    pub prefix_hits: Option<f64>,
    /// Seconds by which first tokens come later than the engine reports: the wait before it counts requests.
    pub hidden_queue: Option<f64>,
    /// Requests interrupted since the engine started.
    pub preemptions: Option<f64>,
    /// Prompt tokens in the engine's queue.
    pub queued_tokens: Option<f64>,
    /// Acceptance of the engine's drafts.
    pub drafting: Option<Drafting>,
    /// Mean busy share of the engine's GPUs, 0 to 1.
    pub gpu_utilisation: Option<f64>,
    /// Memory usage of the engine's fullest GPU, 0 to 1.
    pub gpu_memory: Option<f64>,
    /// Round trip to the engine, in seconds.
    pub round_trip: Option<f64>,
    /// Restarts detected so far.
    pub restarts: u64,
    /// Most open state of the engine's breakers.
    pub breaker: &'static str,
    /// Number of times that the engine's breakers were opened.
    pub breaker_opened: u64,
}
