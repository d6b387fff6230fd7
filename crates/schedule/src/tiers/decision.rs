//! Inputs and result of a tier decision.

use signalbox_types::Complexity;
use signalbox_types::aim::MOST_TIERS;

/// A tier from the view of one request.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct TierView {
    /// Expected cost of the request in this tier, in USD.
    pub cost_usd: f64,
    /// Predicted time to the end of its answer, in seconds; not a number where unknown.
    pub e2e: f64,
    /// True if a backend of the tier can take the request.
    pub available: bool,
}

/// Caller and session of a request.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Context {
    /// Hash of the caller's key.
    pub key: u64,
    /// Hash of the session, where there is one. Sessions of different keys never match.
    pub session: Option<u64>,
    /// Hash of the session at its previous request, for sessions identified by their content instead of a name.
    pub continues: Option<u64>,
    /// True if the request carries tool results: the answer continues an agent's work.
    pub tool_loop: bool,
    /// Uniform in `0..1`, drawn by the caller, so that the same input always gives the same decision.
    pub chance: f64,
}

/// The chosen tier and its reason.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Decision {
    /// Tier that serves the request.
    pub tier: usize,
    /// Tier by the prompt alone, before session and availability.
    pub intended: usize,
    /// Lowest bar that it did not pass, or the highest where it passed all: a score with shares, otherwise the gap that
    /// this request would have needed. Infinite where no gap suffices.
    pub bar: f64,
    /// True if the bar is a gap.
    pub by_gap: bool,
    /// Share of the key's last requests (about 256) that the best tier served.
    pub share: f64,
    /// Expected quality of the answer.
    pub quality: f64,
    /// True if not even the best tier reaches the required minimum of quality.
    pub unreachable: bool,
    /// Reason for the tier.
    pub reason: Reason,
}

/// Reason for a tier.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The prompt, compared with the bar.
    Score,
    /// Its session, which is higher and still warm.
    Session,
    /// Its session, since the rise would be within the dead band.
    DeadBand,
    /// Its session's tools are running: it does not fall.
    ToolLoop,
    /// The hour's budget is used up.
    Budget,
    /// The tier is unavailable. Where all are, the tier stays the intended one.
    Unavailable,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Score, Self::Session, Self::DeadBand, Self::ToolLoop, Self::Budget, Self::Unavailable];

    /// Label for headers, the journal and metrics.
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

/// A request with valid numbers, whatever the input was.
#[derive(Copy, Clone, Debug)]
pub(super) struct Request {
    pub(super) score: f64,
    pub(super) quality: f64,
    pub(super) gap: f64,
    pub(super) chance: f64,
    pub(super) tool_loop: bool,
    /// Number of tiers with a view, at most those of the plan; at least 1.
    pub(super) tiers: usize,
    pub(super) cost: [f64; MOST_TIERS],
    /// Not a number where unknown.
    pub(super) e2e: [f64; MOST_TIERS],
    pub(super) available: [bool; MOST_TIERS],
}

impl Request {
    /// Replaces numbers that are not a number: the middle for a score, zero elsewhere. A session has the same `chance`
    /// each time; otherwise it would move between tiers when all its scores are equal.
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

    /// Index of the best tier.
    pub(super) const fn top(&self) -> usize {
        self.tiers - 1
    }

    /// Quality added by one step up: the larger tiers share the gap evenly.
    pub(super) fn step(&self) -> f64 {
        self.gap / (self.tiers - 1).max(1) as f64
    }

    /// Expected quality of a tier's answer.
    pub(super) fn quality_at(&self, tier: usize) -> f64 {
        (self.quality + self.step() * tier as f64).min(1.0)
    }
}

/// A pseudo-random number in `0..1`, the same for the same hash: the finaliser of `SplitMix64` (Steele, Lea and Flood
/// 2014).
fn uniform(hash: u64) -> f64 {
    (mix(hash) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Mixes the bits of a number over a word.
pub(super) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
