//! One bar, and what holds it: the quantile of what is ranked, moved by what is owed.

/// What a request owed moves of the share that goes above. With 0.004 what is owed strays by 4.8 requests (one standard deviation,
/// at a share of a quarter), and the share that is aimed at by 1.9 points, which costs little: what changes sides lies next to the
/// bar. A sum of quality is more restless, and is paid back faster.
const SHARE_GAIN: f64 = 0.004;
const SUM_GAIN: f64 = 0.008;
/// The most that is owed, in requests: what a shift of traffic takes away beyond it is let go, so that making up for it is short.
/// Where sessions go on with what is decided now it takes longer to pay, and more may be owed.
const MOST_OWED: f64 = 24.0;
const MOST_OWED_BY_SESSIONS: f64 = 120.0;
/// What the most that can be owed moves on top, of a share. It grows with the cube of what is owed: chance is met gently, a shift is not.
const PUSH: f64 = 0.4;
/// Where sessions stay above, what the share lately lacks moves of it, in parts of it.
const HASTE: f64 = 3.0;
/// A rush: so many rose beyond what was expected and a tenth. The odds of a rise are halved then, and cut to a ninth by twice as many,
/// which is the most.
const RUSH: f64 = 4.0;
const WORST_RUSH: f64 = 8.0;
const RUSH_SLACK: f64 = 1.1;
/// Of what should rise by a sum of quality, as much is asked at least, however much the sessions above bring already.
const LEAST_PART: f64 = 0.1;
/// The least part of those above that rose by themselves: sessions of more turns are taken to have fifty.
const LEAST_RISING: f64 = 0.02;
/// Sessions hold no more than so many times the share that they held lately: where they stop that is known sooner.
const HELD_SWING: f64 = 2.0;
/// The weight of a request in the share that sessions hold; and in that of requests that rise, which is to be known well: to
/// follow each swing of it would let sessions in by chance, not by how hard they are.
const PINNED_WEIGHT: f64 = 1.0 / 256.0;
const RISING_WEIGHT: f64 = 1.0 / 1024.0;
/// Before any rose, as if so large a part of the wanted share did.
const RISING_BEFORE: f64 = 0.02;
/// The weight of a request in the share that went above lately. With a memory of a quarter of that, sessions let others in and keep them
/// out by chance.
const ABOVE_WEIGHT: f64 = 1.0 / 256.0;
/// The first requests weigh as much as if this many had been before them.
const BEFORE: f64 = 32.0;
/// The half width of the dead band, as a part of the smaller side of the bar, and in ranks at most.
const BAND: f64 = 0.25;
const WIDEST_BAND: f64 = 0.05;

/// The control of one bar.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// The share of requests that is to go above the bar.
    wanted: f64,
    /// The share of what is ranked that lies above the bar.
    open: f64,
    /// The share of requests that went above lately because of their sessions.
    pinned: f64,
    /// The shares of requests that went above because of their sessions, and not because of them, over a longer time.
    held: f64,
    rising: f64,
    /// The share of requests that began a session, or came by themselves, over as long a time.
    begun: f64,
    /// The share of requests that went above lately.
    above: f64,
    /// Requests that rose lately beyond what was expected.
    rush: f64,
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
    pub(super) const fn new() -> Self {
        Self {
            wanted: 0.5,
            open: 0.5,
            pinned: 0.0,
            held: 0.0,
            rising: 0.0,
            begun: 1.0,
            above: 0.5,
            rush: 0.0,
            owed: 0.0,
            seen: 0.0,
        }
    }

    /// Asks for a share of requests above the bar, to be held by the thousand. What is ranked is the highest score of each request's
    /// session: the share above the bar then is the one that comes about if the bar stays.
    ///
    /// A proportional and integral controller around that. Where sessions stay above it has to be gentle, since what is let in to
    /// fill a gap stays for long; and it limits a rush, which is the first that is seen of a shift.
    pub(super) fn hold(&mut self, wanted: f64) {
        if self.seen <= 0.0 {
            self.above = wanted;
        }
        self.wanted = wanted;
        let rising = self.rising_part();
        // Requests by themselves are steered by the first, long sessions by the second, and short sessions by little of either: what their
        // share lacks by chance comes back by itself.
        let (alone, staying) = (rising.powi(2), (1.0 - rising).powi(3));
        let held_back = 1.0 + (self.rush / RUSH * (1.0 - rising)).powi(3);
        let push = PUSH * alone * (self.owed / Self::most_owed(rising)).powi(3);
        let lean = (alone + staying) * SHARE_GAIN * self.owed + staying * HASTE * (wanted - self.above) + push;
        self.open = (wanted / (wanted + (1.0 - wanted) * held_back) + lean).clamp(0.0, 1.0);
    }

    /// Asks for a share of requests above the bar so that a sum comes out. Sessions that are above already count into it, so that only
    /// the rest of it is asked of the requests that are still to be decided.
    pub(super) fn ask(&mut self, wanted: f64) {
        self.wanted = wanted;
        let rest = (wanted - self.pinned) / (1.0 - self.pinned).max(0.01);
        let part = ((wanted - self.pinned) / wanted.max(f64::EPSILON)).clamp(LEAST_PART, 1.0);
        let push = PUSH * (self.owed / MOST_OWED).powi(3);
        self.open = (rest + part * SUM_GAIN * self.owed + push).clamp(0.0, 1.0);
    }

    /// The part of requests above that went there by themselves, not because of their sessions.
    fn rising_part(&self) -> f64 {
        let rising = self.rising + RISING_BEFORE * self.wanted.max(f64::EPSILON);
        let held = self.held.min(HELD_SWING * self.pinned);
        (rising / (rising + held)).clamp(LEAST_RISING, 1.0)
    }

    /// The most that can be owed of a share, where a part of those above rose by themselves (`rising`).
    const fn most_owed(rising: f64) -> f64 {
        (MOST_OWED / rising).min(MOST_OWED_BY_SESSIONS)
    }

    /// The share of requests that went above lately.
    pub(super) const fn above(&self) -> f64 {
        self.above
    }

    /// The rank that passes the bar just so.
    pub(super) const fn level(&self) -> f64 {
        1.0 - self.open
    }

    /// How far what has this `rank` is beyond the bar.
    pub(super) fn margin(&self, rank: f64) -> Margin {
        let bar = self.level();
        let band = (BAND * self.open.min(bar)).min(WIDEST_BAND);
        Margin { beyond: rank - bar, band, clearly_below: rank < 0.5 * bar }
    }

    /// Keeps account of a request of a share: whether it went `above`, whether that was because of its session, and whether that began
    /// with it.
    pub(super) fn settle_share(&mut self, above: bool, pinned: bool, begins: bool) {
        let part = |whether: bool| f64::from(u8::from(whether));
        // So many of those that begin rise sooner or later: more that begin are no rush.
        let expected = part(begins) * self.wanted * self.rising_part() / self.begun.max(LEAST_RISING);
        self.rush = (self.rush + part(above && !pinned) - RUSH_SLACK * expected).clamp(0.0, WORST_RUSH);
        self.begun += self.weight(RISING_WEIGHT) * (part(begins) - self.begun);
        self.observe(part(above), part(pinned));
        let most = Self::most_owed(self.rising_part());
        self.owed = (self.owed + self.wanted - part(above)).clamp(-most, most);
    }

    /// Keeps account of a request of a sum: whether it went `above`, whether that was because of its session (both as parts of 1),
    /// and how much more or less it should have been.
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

    /// The weight of a request in a mean that will give it the `least`.
    fn weight(&self, least: f64) -> f64 {
        least.max(1.0 / (self.seen + BEFORE))
    }

    /// Owes nothing any more, and learns anew how the next requests come.
    pub(super) fn forgive(&mut self) {
        (self.owed, self.rush) = (0.0, 0.0);
        self.above = self.wanted;
        self.seen = self.seen.min(BEFORE);
    }
}
