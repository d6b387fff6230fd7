//! One bar, and what holds it: the quantile of what is ranked, moved by what is owed.

use super::ranks::Ranks;

/// What a request owed moves of the share that goes above. What is owed then strays by 3.4 requests (one standard deviation, at a
/// share of a quarter), and the share that is aimed at by 2.7 points, which costs little: what changes sides lies next to the
/// bar.
const GAIN: f64 = 0.008;
/// The most that is owed, in requests: what a shift of traffic takes away beyond it is let go, so that making up for it is short.
const MOST_OWED: f64 = 24.0;
/// What the most that can be owed moves on top. It grows with the cube of what is owed: chance is met gently, a shift is not.
const PUSH: f64 = 0.4;
/// Where sessions go on with what is decided now, what is owed is met by so much less; this part is left at least.
const LEAST_PART: f64 = 0.1;
/// The weight of a request in the share that sessions hold.
const PINNED_WEIGHT: f64 = 1.0 / 256.0;
/// The weight of a request in the share that went above lately.
const ABOVE_WEIGHT: f64 = 1.0 / 256.0;
/// The first requests weigh as much as if this many had been before them.
const BEFORE: f64 = 32.0;
/// The half width of the dead band, as a part of the smaller side of the bar, and in ranks at most.
const BAND: f64 = 0.25;
const WIDEST_BAND: f64 = 0.05;

/// The control of one bar.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub(super) ranks: Ranks,
    /// The share of requests that is to go above the bar.
    wanted: f64,
    /// The share of those whose sessions leave it open that is to go above the bar.
    open: f64,
    /// The share of requests that went above lately because of their sessions.
    pinned: f64,
    /// The share of requests that went above lately.
    above: f64,
    /// Requests that should have gone above and did not.
    owed: f64,
    /// Requests settled, up to as many as count.
    seen: f64,
}

/// How far something is beyond a bar.
#[derive(Copy, Clone, Debug)]
pub(super) struct Margin {
    /// From −1 to 1, at least 0 where it passes.
    pub(super) beyond: f64,
    /// As much makes a session rise.
    pub(super) band: f64,
    /// It is clearly below.
    pub(super) clearly_below: bool,
}

impl Control {
    /// For what is ranked. `spread` says whether that can be expected to be spread evenly over `0..=1`.
    pub(super) const fn new(spread: bool) -> Self {
        Self { ranks: Ranks::new(spread), wanted: 0.5, open: 0.5, pinned: 0.0, above: 0.5, owed: 0.0, seen: 0.0 }
    }

    /// Asks for a share of requests above the bar. Sessions that are above already count into it, so that only the rest of it is
    /// asked of the requests that are still to be decided.
    pub(super) fn ask(&mut self, wanted: f64) {
        self.wanted = wanted;
        let rest = (wanted - self.pinned) / (1.0 - self.pinned).max(0.01);
        let part = ((wanted - self.pinned) / wanted.max(f64::EPSILON)).clamp(LEAST_PART, 1.0);
        let push = PUSH * (self.owed / MOST_OWED).powi(3);
        self.open = (rest + part * GAIN * self.owed + push).clamp(0.0, 1.0);
    }

    /// The share of requests that is to go above the bar.
    pub(super) const fn wanted(&self) -> f64 {
        self.wanted
    }

    /// The share of requests that went above lately.
    pub(super) const fn above(&self) -> f64 {
        self.above
    }

    /// The value that passes the bar just so.
    pub(super) fn bar(&self) -> f64 {
        self.ranks.quantile(1.0 - self.open)
    }

    /// How far `value` is beyond the bar, in ranks.
    pub(super) fn margin(&self, value: f64, chance: f64) -> Margin {
        let (rank, bar) = (self.ranks.rank(value, chance), 1.0 - self.open);
        let band = (BAND * self.open.min(bar)).min(WIDEST_BAND);
        Margin { beyond: rank - bar, band, clearly_below: rank < 0.5 * bar }
    }

    /// Keeps account of a request: whether it went `above`, whether that was because of its session (both as parts of 1), and how
    /// much more or less it should have been.
    pub(super) fn settle(&mut self, above: f64, pinned: f64, owed: f64) {
        self.seen = (self.seen + 1.0).min(1.0 / ABOVE_WEIGHT);
        let weight = |least: f64| least.max(1.0 / (self.seen + BEFORE));
        self.pinned += weight(PINNED_WEIGHT) * (pinned - self.pinned);
        self.above += weight(ABOVE_WEIGHT) * (above - self.above);
        self.owed = (self.owed + owed).clamp(-MOST_OWED, MOST_OWED);
    }

    /// Owes nothing any more.
    pub(super) const fn forgive(&mut self) {
        self.owed = 0.0;
    }
}
