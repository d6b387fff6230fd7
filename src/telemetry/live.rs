//! What is true at the moment of a scrape, handed in by those who know it.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Spending, Vitals, key::KeyMetrics};
use crate::{
    measure::BudgetStanding,
    types::{Drafting, Name},
};

/// The state of the fleet when `/metrics` is read.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Every backend of every pool. Of two with the same names the later one counts.
    pub backends: Vec<BackendLive>,
    /// Every engine. Of two with the same name the later one counts.
    pub engines: Vec<EngineLive>,
    /// Every pool.
    pub pools: Vec<PoolLive>,
    /// Every route with tiers.
    pub tiered: Vec<TieredLive>,
    /// Routes whose boundary between short and long prompts is learned, and where it is, in tokens.
    pub boundaries: Vec<(Name, f64)>,
    /// How the objectives of each pool stand.
    pub pool_slos: Vec<(Name, Vec<SloLive>)>,
    /// The same by route.
    pub route_slos: Vec<(Name, Vec<SloLive>)>,
    /// What the scheduler remembers.
    pub scheduler: Option<SchedulerLive>,
    /// What is kept of answers, by tier; none where the policy has no cache.
    pub caches: Vec<CacheLive>,
    /// Where the policy keeps answers on disk.
    pub log: Option<CacheLogLive>,
    /// Whether the server that gateways share is there; `None` where the policy has none.
    pub shared: Option<bool>,
    /// Whether the server that limits are shared through is there; `None` where the policy has none.
    pub shared_limits: Option<bool>,
    /// Requests refused because of a limit, by key and limit.
    pub limited: Vec<(Name, &'static str, u64)>,
    /// Every caller, by its key's id.
    pub keys: Vec<(Name, Arc<KeyMetrics>)>,
    /// Every team with a budget.
    pub teams: Vec<TeamLive>,
    /// Every account at a provider.
    pub accounts: Vec<AccountLive>,
    /// Where the policy has a cache by meaning.
    pub false_hits: Option<FalseHitsLive>,
    /// What is written in the place of names of backends and engines that the reader is not to see.
    pub labels: Arc<HashMap<Name, Name>>,
}

/// How one objective of a pool or a route stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SloLive {
    /// Its name: `ttft_p95`, `tpot_p95_under_512`, `availability`.
    pub objective: Name,
    /// The share of requests that are to keep it.
    pub target: f64,
    /// Requests that kept it, since it is counted.
    pub good: u64,
    /// All that it was asked of.
    pub total: u64,
    /// How fast its error budget is used up.
    pub burn: BurnLive,
    /// What is left of it: 1 for all, below 0 where more was used.
    pub budget_left: f64,
    /// `ok`, `burning` or `exhausted`.
    pub state: Cow<'static, str>,
}

/// Burn rates by window.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BurnLive {
    /// Over five minutes.
    #[serde(rename = "5m")]
    pub five_minutes: f64,
    /// Over an hour.
    #[serde(rename = "1h")]
    pub hour: f64,
    /// Over six hours.
    #[serde(rename = "6h")]
    pub six_hours: f64,
    /// Over three days.
    #[serde(rename = "3d")]
    pub three_days: f64,
}

impl SloLive {
    /// What there is to tell of an objective.
    pub fn new(objective: Name, target: f64, standing: BudgetStanding) -> Self {
        let BudgetStanding { good, total, burn: [five_minutes, hour, six_hours, three_days], budget_left, state } =
            standing;
        let burn = BurnLive { five_minutes, hour, six_hours, three_days };
        Self { objective, target, good, total, burn, budget_left, state: state.label().into() }
    }
}

/// What a team has spent of its budget in the present period.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamLive {
    /// Its name.
    pub team: Name,
    /// `day` or `month`.
    pub per: &'static str,
    /// US dollars spent.
    pub spent_usd: f64,
    /// Tokens spent.
    pub spent_tokens: u64,
    /// The budget, where it is in US dollars.
    pub budget_usd: Option<f64>,
    /// The budget, where it is in tokens.
    pub budget_tokens: Option<u64>,
}

/// What an account at a provider lets us use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLive {
    /// Its name.
    pub account: Name,
    /// Keys that may be used.
    pub ready: u64,
    /// Keys that are left out for now.
    pub left_out: u64,
    /// How often one was.
    pub ejected: u64,
    /// What is left in this minute, by limit.
    pub remaining: Vec<(&'static str, u64)>,
}

/// How often hits by meaning were false, as far as they were verified.
#[derive(Copy, Clone, Debug)]
pub struct FalseHitsLive {
    /// The estimate, 0 to 1.
    pub rate: f64,
    /// Its lower bound.
    pub lower: f64,
    /// Its upper bound.
    pub upper: f64,
    /// How many labels stand behind it.
    pub labels: f64,
    /// Scopes that are given none for being over their budget.
    pub shadow_scopes: u64,
}

/// What a tier of the cache holds.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheLive {
    /// Its name.
    pub tier: &'static str,
    /// Answers kept.
    pub entries: u64,
    /// What they take.
    pub bytes: u64,
    /// Answers that had to go so far, by the reason.
    pub evictions: Vec<(&'static str, u64)>,
}

/// Kept answers on disk.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct CacheLogLive {
    /// Whether answers are written: no other gateway has the folder, and the disk has not failed.
    pub up: bool,
    /// Answers that count.
    pub records: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Answers that are not there any more, or never were, by the reason.
    pub lost: [(&'static str, u64); 4],
    /// Bytes of the file that were unreadable when it was opened.
    pub damaged: u64,
    /// How often the file was written anew without what counts no more.
    pub compactions: u64,
    /// Answers that were read back at the start, by tier.
    pub loaded: [(&'static str, u64); 2],
    /// How long that took, or has taken so far.
    pub load_seconds: f64,
}

/// A pool's queue, and how good its predictions were lately.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolLive {
    /// Its name.
    pub pool: Name,
    /// Requests that wait for room.
    pub queue_depth: u64,
    /// Seconds that the one who came first has waited.
    pub queue_oldest: f64,
    /// What bounds it.
    pub vitals: Vitals,
    /// What it costs.
    pub spending: Spending,
    /// Predictions of times to the first token; `None` before any was judged.
    pub ttft: Option<AccuracyLive>,
    /// Predictions of times per token.
    pub tpot: Option<AccuracyLive>,
    /// Forecasts of the lengths of answers.
    pub output: Option<OutputLive>,
}

/// How good recent predictions were.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct AccuracyLive {
    /// The share of observations at or below their predicted 90th percentile.
    pub coverage: f64,
    /// Mean of |predicted median ÷ observed − 1|.
    pub relative_error: f64,
    /// Mean pinball loss of the 90th percentile, in seconds.
    pub pinball: f64,
    /// That of a moving average, in seconds.
    pub baseline_pinball: f64,
}

/// How good recent forecasts of lengths were.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct OutputLive {
    /// The share of answers no longer than their predicted 90th percentile.
    pub coverage: f64,
    /// Median of |predicted median ÷ length − 1|.
    pub relative_error: f64,
}

/// How a route with tiers stands.
#[derive(Clone, Debug, PartialEq)]
pub struct TieredLive {
    /// Its name.
    pub route: Name,
    /// By tier, the cheapest first: requests where they belong, with their sessions, and where they were sent.
    pub requests: Vec<[u64; 3]>,
    /// The same as shares, lately.
    pub shares: Vec<[f64; 3]>,
    /// The bars between the tiers.
    pub bars: Vec<f64>,
    /// The mean quality to expect of its answers, lately.
    pub quality: f64,
    /// Times that a session changed its tier.
    pub flips: u64,
}

/// What the scheduler remembers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerLive {
    /// Memory of the prefix index, in bytes.
    pub prefix_bytes: u64,
    /// Blocks in it.
    pub prefix_blocks: u64,
    /// Conversations that are remembered.
    pub sessions: u64,
}

/// What is under way for a backend, by the gateway's own count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendLive {
    /// Its pool.
    pub pool: Name,
    /// Its name.
    pub backend: Name,
    /// Attempts under way.
    pub in_flight: u64,
    /// Estimated prompt tokens of attempts that still wait for their first token.
    pub queued_prompt_tokens: u64,
    /// Attempts past their first token.
    pub decoding: u64,
    /// Estimated prompt tokens of those attempts.
    pub context_tokens: u64,
    /// What its own breaker lets through, as a word.
    pub breaker: &'static str,
}

/// What an engine says of itself; `None` for what it does not say. It stands apart from [`BackendLive`], because an
/// engine shared by several backends would otherwise be counted once for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineLive {
    /// Its name.
    pub engine: Name,
    /// Whether the last scrape succeeded; `None` where it is not scraped.
    pub up: Option<bool>,
    /// Seconds since the last scrape that succeeded.
    pub scrape_age: Option<f64>,
    /// Requests being computed.
    pub running: Option<f64>,
    /// Requests in its queue.
    pub waiting: Option<f64>,
    /// Share of its KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Share of prompt tokens found in its prefix cache, 0 to 1.
    pub prefix_hits: Option<f64>,
    /// Seconds by which first tokens come later than the engine says: what they wait before it counts them.
    pub hidden_queue: Option<f64>,
    /// Requests interrupted since it started.
    pub preemptions: Option<f64>,
    /// Prompt tokens in its queue.
    pub queued_tokens: Option<f64>,
    /// How good its drafts are.
    pub drafting: Option<Drafting>,
    /// The share of its time that one of its GPUs is busy, 0 to 1.
    pub gpu_utilisation: Option<f64>,
    /// The share of memory in use of its fullest GPU, 0 to 1.
    pub gpu_memory: Option<f64>,
    /// Seconds to it and back.
    pub round_trip: Option<f64>,
    /// How often it is known to have started anew.
    pub restarts: u64,
    /// What the most open of its breakers lets through, as a word.
    pub breaker: &'static str,
    /// How often they were opened.
    pub breaker_opened: u64,
}
