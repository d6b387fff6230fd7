//! Learned state of one key of a route, and its decisions.

use std::sync::Arc;

use super::{
    aim::Plan,
    control::{Control, Margin},
    decision::{Reason, Request},
    ranks::Ranks,
    sessions::SessionState,
    slowness::Slowness,
    spend::Spend,
};
use signalbox_types::{Aim, Moment};

/// Consecutive requests clearly below their session's tier after which it falls.
const EVIDENCE: u8 = 8;
/// Weight of a request in the means of quality and in the share of the best tier.
const WEIGHT: f64 = 1.0 / 256.0;
/// Least assumed mean gain of the larger tiers, as a divisor of owed quality.
const LEAST_GAP: f64 = 0.02;
/// Least price of a step up, in USD: a free step is worth the most, and among free ones the gap decides.
const LEAST_PRICE: f64 = 1e-9;
/// Half width of the dead band where the value of quality is given, relative to the compared amounts.
const VALUE_BAND: f64 = 0.05;
/// Bound of the logarithm of worth (quality per USD).
const WORTH_RANGE: f64 = 21.0;

/// Bars and the values behind them.
#[derive(Clone, Debug)]
pub(super) struct State {
    plan: Arc<Plan>,
    /// Values that requests are ranked among, where they are ranked.
    ranks: Option<Box<Ranks>>,
    /// One per bar with shares; one for all otherwise, and none where the worth of quality is given.
    controls: Box<[Control]>,
    slowness: Box<[Slowness]>,
    /// Means over the last requests: the gap, the best tier's quality, the share of the best tier.
    gap: f64,
    best: f64,
    share: f64,
    seen: f64,
}

/// A decision and its inputs.
#[derive(Copy, Clone, Debug)]
pub(super) struct Outcome {
    pub(super) intended: usize,
    /// Tier with the session, before availability. Shares and quality are held on this.
    pub(super) settled: usize,
    pub(super) tier: usize,
    pub(super) reason: Reason,
    /// Tier of its session, if that still binds.
    pub(super) floor: Option<usize>,
    /// State of its session from now on.
    pub(super) session_state: SessionState,
}

impl State {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let scores = matches!(plan.aim, Aim::Shares(_));
        let ranks = (plan.controls() > 0).then(|| Box::new(Ranks::new(scores)));
        let controls = (0..plan.controls()).map(|_| Control::new()).collect();
        let slowness = (0..plan.bars()).map(|_| Slowness::default()).collect();
        Self { plan, ranks, controls, slowness, gap: 0.0, best: 0.0, share: 0.0, seen: 0.0 }
    }

    /// Initial state of a new key: all that was learned, and nothing owed.
    pub(super) fn fresh(&self) -> Self {
        let mut fresh = self.clone();
        fresh.controls.iter_mut().for_each(Control::reset);
        fresh.ranks.iter_mut().for_each(|ranks| ranks.reset());
        fresh
    }

    /// Continues under another plan, with the state that stays valid.
    pub(super) fn apply_plan(&mut self, plan: &Arc<Plan>) {
        if self.plan.ranks_like(plan) {
            self.controls.iter_mut().for_each(Control::reset);
            self.plan = Arc::clone(plan);
        } else {
            *self = Self::new(Arc::clone(plan));
        }
    }

    pub(super) const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Share of the best tier among the last requests.
    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// True if the best tier alone would not reach the required minimum of quality.
    pub(super) fn unreachable(&self) -> bool {
        matches!(self.plan.aim, Aim::MinQuality(least) if self.seen > 0.0 && self.best < least)
    }

    /// Updates the bars from a request's latencies and the fill of the token bucket.
    pub(super) fn update_bars(&mut self, request: &Request, bucket: f64, now: Moment) {
        for (bar, slowness) in self.slowness.iter_mut().enumerate().take(request.top()) {
            slowness.observe(request.e2e[bar], request.e2e[bar + 1], now);
        }
        let unreachable = self.unreachable();
        let mut below = 1.0_f64;
        for (bar, control) in self.controls.iter_mut().enumerate() {
            let wanted = match self.plan.aim {
                Aim::Shares(_) => (self.plan.above(bar) * self.slowness[bar].kept()).min(below),
                Aim::MaxSpendPerHour(_) => bucket,
                _ if unreachable => 1.0,
                // The recent share above, more or less as quality is owed: a proportional-integral controller in the
                // form that does not wind up (automatic reset, see Åström and Hägglund 1995, section 3.5).
                _ => control.above(),
            };
            if matches!(self.plan.aim, Aim::Shares(_)) {
                control.hold_share(wanted);
            } else {
                control.hold_sum(wanted);
            }
            below = wanted;
        }
    }

    /// Decides. `spend` is the hour's account, where there is a budget.
    pub(super) fn decide(
        &self,
        request: &Request,
        session_state: Option<SessionState>,
        spend: Option<&Spend>,
        now: Moment,
    ) -> Outcome {
        let top = request.top();
        let intended = self.climb(request, 0, |_| 0.0);
        let floor = session_state.map(|session_state| usize::from(session_state.tier).min(top));
        let SessionState { easy, mut risen, mut fallen, mut peak, since, .. } =
            session_state.unwrap_or(SessionState { since: now, ..SessionState::default() });
        if !fallen {
            peak = peak.max(request.score);
        }
        let mut clear = 0;
        let (settled, reason) = match floor {
            Some(floor) if intended > floor && !fallen => {
                let higher = self.climb(request, floor, |margin| margin.band);
                risen |= higher > floor;
                (higher, if higher > floor { Reason::Score } else { Reason::DeadBand })
            }
            Some(floor) if intended > floor => (floor, Reason::Session),
            Some(floor) if intended < floor && request.tool_loop => (floor, Reason::ToolLoop),
            Some(floor) if intended < floor => {
                let clearly = self.margin(request, floor - 1, floor).is_some_and(|margin| margin.clearly_below);
                clear = if clearly { easy.saturating_add(1) } else { 0 };
                // A session that rose stays, and one that fell does too: between two tiers a warm session moves once.
                if clear >= EVIDENCE && !risen {
                    fallen = true;
                    peak = request.score;
                    (intended, Reason::Score)
                } else {
                    (floor, Reason::Session)
                }
            }
            _ => (intended, Reason::Score),
        };
        let (tier, reason) = place(request, settled, reason, spend);
        // A tier that cannot be paid for now is not returned to with the next request; otherwise all caches would go
        // cold.
        let unpaid = reason == Reason::Budget && tier < settled;
        let stays = if unpaid { tier } else { settled };
        let session_state =
            SessionState { tier: stays as u8, easy: clear, risen, fallen: fallen || unpaid, peak, since };
        Outcome { intended, settled, tier, reason, floor, session_state }
    }

    /// Learns from a request and its tier, under this or another key.
    pub(super) fn note(&mut self, request: &Request, outcome: &Outcome, now: Moment) {
        self.seen = (self.seen + 1.0).min(1.0 / WEIGHT);
        let weight = 1.0 / self.seen;
        self.gap += weight * (request.gap - self.gap);
        self.best += weight * (request.quality_at(request.top()) - self.best);
        let at_top = f64::from(u8::from(outcome.tier == self.plan.top()));
        self.share += weight * (at_top - self.share);

        let shares = matches!(self.plan.aim, Aim::Shares(_));
        let bars = request.top();
        let pinned = |bar: usize| outcome.settled > bar && outcome.floor.is_some_and(|floor| floor > bar);
        self.learn(request, outcome, |bar| !pinned(bar), now);
        let owed = match self.plan.aim {
            Aim::MinQuality(least) if !self.unreachable() => {
                (least - request.quality_at(outcome.settled)) / self.gap.max(LEAST_GAP)
            }
            _ => 0.0,
        };
        for (bar, control) in self.controls.iter_mut().enumerate() {
            if shares {
                control.settle_share(outcome.settled > bar, pinned(bar), outcome.floor.is_none());
            } else {
                let held = (0..bars).filter(|bar| pinned(*bar)).count();
                let all = bars.max(1) as f64;
                control.settle_sum(outcome.settled as f64 / all, held as f64 / all, owed);
            }
        }
    }

    /// Adds the value that others are ranked among: with shares the highest score of the request's session, otherwise
    /// the request's worth at the bars that its session leaves open.
    fn learn(&mut self, request: &Request, outcome: &Outcome, open: impl Fn(usize) -> bool, now: Moment) {
        let (begins, since) = (outcome.floor.is_none(), outcome.session_state.since);
        if matches!(self.plan.aim, Aim::Shares(_)) {
            let Some(ranks) = &mut self.ranks else { return };
            ranks.learn(outcome.session_state.peak, begins.then_some(request.score), since, now);
            return;
        }
        // The worths of several bars are ranked together: those of one alone would neither show a shift nor be enough
        // to continue with.
        let begins = begins && request.top() == 1;
        for bar in (0..request.top()).filter(|bar| open(*bar)) {
            let (worth, ranks) = (self.ranked(request, bar, bar + 1, 1.0), self.ranks.as_mut());
            let (Some(worth), Some(ranks)) = (worth, ranks) else { continue };
            ranks.learn(worth, begins.then_some(worth), since, now);
        }
    }

    /// The bar below the tier above `tier`, or below the best: see `Decision::bar`.
    pub(super) fn bar(&self, request: &Request, tier: usize) -> f64 {
        let steps = request.top() as f64;
        let bar = tier.min(request.top().saturating_sub(1));
        let Some(just) = self.just(bar) else {
            let Aim::ValuePerPoint { usd, second_usd } = self.plan.aim else { return f64::INFINITY };
            let price = price(request, bar, bar + 1, second_usd);
            let any = request.top() > 0 && usd > 0.0;
            return if any { (price / (100.0 * usd)).max(0.0) * steps } else { f64::INFINITY };
        };
        match self.plan.aim {
            Aim::Shares(_) => just,
            _ => worth_of(just) * step_price(request, bar, bar + 1) / self.kept(bar + 1) * steps,
        }
    }

    /// Current bars: scores with shares, otherwise the quality that a USD has to buy (points of 1).
    pub(super) fn bars(&self) -> impl Iterator<Item = f64> {
        (0..self.plan.bars()).map(|bar| match (&self.plan.aim, self.just(bar)) {
            (Aim::Shares(_), Some(just)) => just,
            (Aim::ValuePerPoint { usd, .. }, _) => 0.01 / usd,
            (_, Some(just)) => worth_of(just),
            (_, None) => f64::INFINITY,
        })
    }

    /// Value, of what is ranked, that just passes the bar.
    fn just(&self, bar: usize) -> Option<f64> {
        let control = self.controls.get(self.plan.control_of(bar))?;
        Some(self.ranks.as_ref()?.quantile(control.level()))
    }

    /// Highest tier, from `from` up, whose bars the request passes by at least `least`.
    ///
    /// Each tier is compared with the best one before it, so that a tier that is a bad bargain next to both its
    /// neighbours is skipped.
    fn climb(&self, request: &Request, from: usize, least: impl Fn(Margin) -> f64) -> usize {
        (from + 1..request.tiers).fold(from, |tier, to| {
            let passes = self.margin(request, tier, to).is_some_and(|margin| margin.beyond >= least(margin));
            if passes { to } else { tier }
        })
    }

    /// Distance of the request from the bar between two tiers; `None` where nothing would be gained.
    fn margin(&self, request: &Request, from: usize, to: usize) -> Option<Margin> {
        if let Aim::ValuePerPoint { usd, second_usd } = self.plan.aim {
            let worth = request.step() * (to - from) as f64 * 100.0 * usd;
            let price = price(request, from, to, second_usd);
            let beyond = if worth > price { (worth - price) / (worth + price.abs()) } else { -1.0 };
            return Some(Margin { beyond, band: VALUE_BAND, clearly_below: 3.0 * worth < price });
        }
        let value = self.ranked(request, from, to, self.kept(to))?;
        let control = self.controls.get(self.plan.control_of(to - 1))?;
        Some(control.margin(self.ranks.as_ref()?.rank(value, request.chance)))
    }

    /// Ranked value for the bar between two tiers, in `0..=1`: the score with shares, otherwise the quality that a USD
    /// buys, reduced to the part (`kept`) that a queue leaves.
    fn ranked(&self, request: &Request, from: usize, to: usize, kept: f64) -> Option<f64> {
        match self.plan.aim {
            Aim::Shares(_) => Some(request.score),
            _ if request.gap > 0.0 => {
                let worth = kept * request.step() * (to - from) as f64 / step_price(request, from, to);
                Some(((worth.ln() + WORTH_RANGE) / (2.0 * WORTH_RANGE)).clamp(0.0, 1.0))
            }
            _ => None,
        }
    }

    /// Part of the worth of going up to the tier that a queue leaves.
    fn kept(&self, to: usize) -> f64 {
        self.slowness.get(to - 1).map_or(1.0, Slowness::kept)
    }
}

/// Additional cost of a step up in USD, without waiting; at least [`LEAST_PRICE`].
fn step_price(request: &Request, from: usize, to: usize) -> f64 {
    price(request, from, to, 0.0).max(LEAST_PRICE)
}

/// Additional cost of going up, in USD, with waiting at `second_usd` per second. Unknown latencies count as equal.
fn price(request: &Request, from: usize, to: usize, second_usd: f64) -> f64 {
    let longer = request.e2e[to] - request.e2e[from];
    let waiting = if longer.is_finite() { second_usd * longer } else { 0.0 };
    request.cost[to] - request.cost[from] + waiting
}

/// Worth at `place` on the scale of `State::ranked`.
fn worth_of(place: f64) -> f64 {
    (place * 2.0 * WORTH_RANGE - WORTH_RANGE).exp()
}

/// Tier that serves: the intended one, if it is available and the budget covers it. Otherwise the next above, since
/// that keeps the quality, or the next below. The cheapest tier is never over budget.
fn place(request: &Request, settled: usize, reason: Reason, spend: Option<&Spend>) -> (usize, Reason) {
    let paid = |tier: usize| tier == 0 || spend.is_none_or(|spend| spend.affords(request.cost[tier]));
    let open = |tier: &usize| request.available[*tier] && paid(*tier);
    if open(&settled) {
        return (settled, reason);
    }
    let reason = if paid(settled) { Reason::Unavailable } else { Reason::Budget };
    let nearest = (settled + 1..request.tiers).find(open).or_else(|| (0..settled).rev().find(open));
    // Exceeding the budget is better than serving nothing.
    let any = || (0..request.tiers).find(|tier| request.available[*tier]);
    (nearest.or_else(any).unwrap_or(settled), reason)
}
