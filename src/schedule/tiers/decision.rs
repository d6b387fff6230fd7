//! What a decision is made of, and what it says.

use crate::types::Complexity;
use crate::types::aim::MOST_TIERS;

/// A tier as one request sees it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct TierView {
    /// What the request is expected to cost there, in USD.
    pub cost_usd: f64,
    /// The predicted time to the end of its answer, in seconds; not a number where nothing is known.
    pub e2e: f64,
    /// Whether any backend there can take it.
    pub available: bool,
}

/// Whose request it is.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Context {
    /// A hash of the caller's key.
    pub key: u64,
    /// A hash of the session, where there is one. Sessions of different keys are never taken for the same.
    pub session: Option<u64>,
    /// What its hash was at the session's last request, where sessions are known by what was said and not by a name.
    pub continues: Option<u64>,
    /// Whether the request brings the results of tools: the answer to it goes on where an agent is.
    pub tool_loop: bool,
    /// Uniform in `0..1`, drawn by the caller, so that the same input always gives the same decision.
    pub chance: f64,
}

/// Which tier.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Decision {
    /// Where the request goes.
    pub tier: usize,
    /// Where it belongs by what was made of its prompt, before its session and before what is available.
    pub intended: usize,
    /// The lowest bar that it did not pass, or the highest where it passed them all: a score with shares, otherwise the gap that
    /// this request would have needed. Infinite where no gap is enough.
    pub bar: f64,
    /// Whether the bar is a gap.
    pub by_gap: bool,
    /// The share of the key's last requests (about 256) that the best tier served.
    pub share: f64,
    /// The quality of the answer to expect.
    pub quality: f64,
    /// A minimum of quality is asked for that not even the best tier reaches.
    pub unreachable: bool,
    /// What the tier comes from.
    pub reason: Reason,
}

/// What decided the tier.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The prompt, against the bar.
    Score,
    /// Its session, which is higher and still warm.
    Session,
    /// Its session, which it would rise from by too little.
    DeadBand,
    /// Its session's tools are at work: it does not fall.
    ToolLoop,
    /// The hour's budget is used.
    Budget,
    /// The tier cannot take it. Where none can, the tier stays the one that it belongs to.
    Unavailable,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Score, Self::Session, Self::DeadBand, Self::ToolLoop, Self::Budget, Self::Unavailable];

    /// A word for headers, the journal and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Score => "score",
            Self::Session => "session",
            Self::DeadBand => "dead_band",
            Self::ToolLoop => "tool_loop",
            Self::Budget => "budget",
            Self::Unavailable => "unavailable",
        }
    }
}

/// A request with numbers that can be reckoned with, whatever was given.
#[derive(Copy, Clone, Debug)]
pub(super) struct Request {
    pub(super) score: f64,
    pub(super) quality: f64,
    pub(super) gap: f64,
    pub(super) chance: f64,
    pub(super) tool_loop: bool,
    /// The tiers that there are views of, at most those of the plan; at least 1.
    pub(super) tiers: usize,
    pub(super) cost: [f64; MOST_TIERS],
    /// Not a number where unknown.
    pub(super) e2e: [f64; MOST_TIERS],
    pub(super) available: [bool; MOST_TIERS],
}

impl Request {
    /// What is not a number counts as the middle for a score and as nothing elsewhere. A session draws the same chance each time,
    /// lest it should wander between tiers when all its scores are the same.
    pub(super) fn new(complexity: &Complexity, context: &Context, views: &[TierView], tiers: usize) -> Self {
        let part = |value: f64, otherwise: f64| if value.is_nan() { otherwise } else { value.clamp(0.0, 1.0) };
        let chance = context.session.map_or(context.chance, uniform);
        let mut request = Self {
            score: part(complexity.score, 0.5),
            quality: part(complexity.quality, 0.0),
            gap: part(complexity.gap, 0.0),
            chance: part(chance, 0.5).min(1.0 - f64::EPSILON),
            tool_loop: context.tool_loop,
            tiers: views.len().clamp(1, tiers),
            cost: [0.0; MOST_TIERS],
            e2e: [f64::NAN; MOST_TIERS],
            available: [false; MOST_TIERS],
        };
        for (tier, view) in views.iter().take(tiers).enumerate() {
            let usable = |value: f64| value.is_finite() && value >= 0.0;
            request.cost[tier] = if usable(view.cost_usd) { view.cost_usd } else { 0.0 };
            request.e2e[tier] = if usable(view.e2e) { view.e2e } else { f64::NAN };
            request.available[tier] = view.available;
        }
        request
    }

    /// The place of the best tier.
    pub(super) const fn top(&self) -> usize {
        self.tiers - 1
    }

    /// What one step up adds to quality: the larger tiers share the gap evenly.
    pub(super) fn step(&self) -> f64 {
        self.gap / (self.tiers - 1).max(1) as f64
    }

    /// The quality of a tier's answer to expect.
    pub(super) fn quality_at(&self, tier: usize) -> f64 {
        (self.quality + self.step() * tier as f64).min(1.0)
    }
}

/// A number in `0..1` that looks drawn, the same for the same hash: the finaliser of `SplitMix64` (Steele, Lea and Flood 2014).
fn uniform(hash: u64) -> f64 {
    (mix(hash) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Spreads the bits of a number over a word.
pub(super) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
