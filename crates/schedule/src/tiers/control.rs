//! Control of one bar: the quantile of the ranked values, corrected by what is owed.

/// Correction of the share above per owed request. With 0.004 the owed amount varies by 4.8 requests (one standard
/// deviation, at a share of a quarter), and the aimed share by 1.9 points, which costs little, since requests next to
/// the bar change sides. A sum of quality varies more and is corrected faster.
const SHARE_GAIN: f64 = 0.004;
const SUM_GAIN: f64 = 0.008;
/// Bound of the owed amount, in requests. What a shift of traffic takes away beyond it is dropped, so that the
/// compensation is short. Where sessions keep their decision, compensation takes longer and more may be owed.
const MOST_OWED: f64 = 24.0;
const MOST_OWED_BY_SESSIONS: f64 = 120.0;
/// Additional correction at the largest owed amount, as a share. It grows with the cube of the owed amount: mild for
/// chance, strong for a shift.
const PUSH: f64 = 0.4;
/// Correction per recent shortfall where sessions stay above, as a factor.
const HASTE: f64 = 3.0;
/// Rises beyond the expected number plus a tenth that count as a rush. The odds of a rise are halved then, and cut to a
/// ninth at twice as many, which is the maximum.
const RUSH: f64 = 4.0;
const WORST_RUSH: f64 = 8.0;
const RUSH_SLACK: f64 = 1.1;
/// Least part of a quality sum that is asked of rising requests, however much the sessions above bring already.
const LEAST_PART: f64 = 0.1;
/// Least assumed part of requests above that rose by themselves: sessions of more turns count as having fifty.
const LEAST_RISING: f64 = 0.02;
/// Bound on the share held by sessions, as a multiple of their recent share: their end is seen sooner this way.
const HELD_SWING: f64 = 2.0;
/// Weight of a request in the share held by sessions; and in the share of rising requests, which must be known well:
/// following each swing of it would admit sessions by chance rather than by difficulty.
const PINNED_WEIGHT: f64 = 1.0 / 256.0;
const RISING_WEIGHT: f64 = 1.0 / 1024.0;
/// Prior: this part of the wanted share has risen.
const RISING_BEFORE: f64 = 0.02;
/// Weight of a request in the recent share above. With a quarter of that memory, sessions would admit and exclude one
/// another by chance.
const ABOVE_WEIGHT: f64 = 1.0 / 256.0;
/// Requests assumed to precede the first one, for its weight.
const BEFORE: f64 = 32.0;
/// Half width of the dead band, as a part of the smaller side of the bar, and its maximum in ranks.
const BAND: f64 = 0.25;
const WIDEST_BAND: f64 = 0.05;

/// Control of one bar.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// Share of requests that should go above the bar.
    wanted: f64,
    /// Share of ranked values above the bar.
    open: f64,
    /// Recent share of requests that went above because of their sessions.
    pinned: f64,
    /// Longer means of the shares of requests that went above because of their sessions, and not because of them.
    held: f64,
    rising: f64,
    /// Longer mean of the share of requests that began a session or had none.
    started: f64,
    /// Recent share of requests that went above.
    above: f64,
    /// Recent rises beyond the expectation.
    rush: f64,
    /// Requests that should have gone above and did not.
    owed: f64,
    /// Settled requests, capped.
    seen: f64,
}

/// Distance of a value from a bar.
#[derive(Copy, Clone, Debug)]
pub(super) struct Margin {
    /// From −1 to 1, at least 0 where it passes.
    pub(super) beyond: f64,
    /// Distance from which on a session rises.
    pub(super) band: f64,
    /// True if the value is clearly below the bar.
    pub(super) clearly_below: bool,
}

impl Control {
    pub(super) const fn new() -> Self {
        Self {
            wanted: 0.5,
            open: 0.5,
            pinned: 0.0,
            held: 0.0,
            rising: 0.0,
            started: 1.0,
            above: 0.5,
            rush: 0.0,
            owed: 0.0,
            seen: 0.0,
        }
    }

    /// Sets the bar for a `wanted` share of requests above, within a few per thousand. The ranked value is the highest
    /// score of each request's session: the share above the bar then is the share that results if the bar stays.
    ///
    /// Around that works a proportional-integral controller. Where sessions stay above it is gentle, since a session
    /// admitted to fill a gap stays for long; and it limits a rush, which is the first sign of a shift.
    pub(super) fn hold_share(&mut self, wanted: f64) {
        if self.seen <= 0.0 {
            self.above = wanted;
        }
        self.wanted = wanted;
        let rising = self.rising_part();
        // The first factor controls requests without sessions, the second long sessions. Short sessions need little of
        // either: a chance shortfall of their share corrects itself.
        let (alone, staying) = (rising.powi(2), (1.0 - rising).powi(3));
        let held_back = 1.0 + (self.rush / RUSH * (1.0 - rising)).powi(3);
        let push = PUSH * alone * (self.owed / Self::most_owed(rising)).powi(3);
        let lean = (alone + staying) * SHARE_GAIN * self.owed + staying * HASTE * (wanted - self.above) + push;
        self.open = (wanted / (wanted + (1.0 - wanted) * held_back) + lean).clamp(0.0, 1.0);
    }

    /// Sets the bar for a `wanted` share of requests above so that a sum is met. Sessions that are already above count
    /// into it, so that only the rest is asked of undecided requests.
    pub(super) fn hold_sum(&mut self, wanted: f64) {
        self.wanted = wanted;
        let rest = (wanted - self.pinned) / (1.0 - self.pinned).max(0.01);
        let part = ((wanted - self.pinned) / wanted.max(f64::EPSILON)).clamp(LEAST_PART, 1.0);
        let push = PUSH * (self.owed / MOST_OWED).powi(3);
        self.open = (rest + part * SUM_GAIN * self.owed + push).clamp(0.0, 1.0);
    }

    /// Part of the requests above that went there by themselves, not because of their sessions.
    fn rising_part(&self) -> f64 {
        let rising = self.rising + RISING_BEFORE * self.wanted.max(f64::EPSILON);
        let held = self.held.min(HELD_SWING * self.pinned);
        (rising / (rising + held)).clamp(LEAST_RISING, 1.0)
    }

    /// Bound of the owed amount for a share, where the part `rising` of those above rose by themselves.
    const fn most_owed(rising: f64) -> f64 {
        (MOST_OWED / rising).min(MOST_OWED_BY_SESSIONS)
    }

    /// Recent share of requests that went above.
    pub(super) const fn above(&self) -> f64 {
        self.above
    }

    /// Rank that just passes the bar.
    pub(super) const fn level(&self) -> f64 {
        1.0 - self.open
    }

    /// Distance of a `rank` from the bar.
    pub(super) fn margin(&self, rank: f64) -> Margin {
        let bar = self.level();
        let band = (BAND * self.open.min(bar)).min(WIDEST_BAND);
        Margin { beyond: rank - bar, band, clearly_below: rank < 0.5 * bar }
    }

    /// Accounts for a request under a share: `above` if it went above, `pinned` if that was because of its session,
    /// `begins` if the session began with it.
    pub(super) fn settle_share(&mut self, above: bool, pinned: bool, begins: bool) {
        let part = |whether: bool| f64::from(u8::from(whether));
        // This many of the beginning ones rise sooner or later, so more of these alone are no rush.
        let expected = part(begins) * self.wanted * self.rising_part() / self.started.max(LEAST_RISING);
        self.rush = (self.rush + part(above && !pinned) - RUSH_SLACK * expected).clamp(0.0, WORST_RUSH);
        self.started += self.weight(RISING_WEIGHT) * (part(begins) - self.started);
        self.observe(part(above), part(pinned));
        let most = Self::most_owed(self.rising_part());
        self.owed = (self.owed + self.wanted - part(above)).clamp(-most, most);
    }

    /// Accounts for a request under a sum: the parts of 1 that went `above` and that were `pinned` by sessions, and how
    /// much more or less it should have been.
    pub(super) fn settle_sum(&mut self, above: f64, pinned: f64, owed: f64) {
        self.observe(above, pinned);
        self.owed = (self.owed + owed).clamp(-MOST_OWED, MOST_OWED);
    }

    fn observe(&mut self, above: f64, pinned: f64) {
        self.seen = (self.seen + 1.0).min(1.0 / RISING_WEIGHT);
        self.pinned += self.weight(PINNED_WEIGHT) * (pinned - self.pinned);
        self.held += self.weight(RISING_WEIGHT) * (pinned - self.held);
        self.rising += self.weight(RISING_WEIGHT) * (above - pinned - self.rising);
        self.above += self.weight(ABOVE_WEIGHT) * (above - self.above);
    }

    /// Weight of a request in a mean whose final weight is `least`.
    fn weight(&self, least: f64) -> f64 {
        least.max(1.0 / (self.seen + BEFORE))
    }

    /// Clears what is owed and learns anew how the next requests arrive.
    pub(super) fn reset(&mut self) {
        (self.owed, self.rush) = (0.0, 0.0);
        self.above = self.wanted;
        self.seen = self.seen.min(BEFORE);
    }
}
