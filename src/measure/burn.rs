//! How fast the error budget of an objective is used up: good and bad requests over several windows, and what they say together.
//!
//! The *burn rate* over a window is the share of bad requests there ÷ the share that the objective allows: at 1 the budget lasts just
//! for its window of three days, at 20 everything is bad and one in twenty may be.
//!
//! When a budget *burns* is told by pairs of windows, as in Google's *Site Reliability Workbook* (chapter 5, “Alerting on SLOs”,
//! multiwindow, multi-burn-rate alerts): fast at 14.4 over an hour, slow at 6 over six hours, each only while the same holds over a
//! twelfth of that time, so that it is over soon after its cause is. Two things are ours:
//!
//! * The workbook's objectives allow one failure in a thousand. Percentiles of latencies allow so much that 14.4 times as much is
//!   more than all: a 90th percentile burns at 10 at most. So no more is asked for than three quarters (slow: three tenths) of the way
//!   from what is allowed to everything. From a 95th percentile on that changes nothing.
//! * “If a system receives a low number of requests … a single failed request” is enough for any rate (the same chapter, “Low-Traffic
//!   Services”, which would have artificial requests sent). Here five bad ones in the longer window are the least that burns.
//!
//! What burns does so until the shorter window is back within what is allowed, and not only below what set it off. What is routed
//! elsewhere meanwhile brings no requests, and an empty window is within all bounds: so it is tried again.

use std::{sync::Mutex, time::Duration};

use super::lock;
use crate::types::Moment;

/// Fewer bad requests than these burn nothing.
pub const FEWEST: u64 = 5;
/// What was used up counts as such until so much of the budget is left again.
const RECOVERED: f64 = 0.05;
/// How often, at most, requests that come in have the state looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds of a slot, and slots, of each ring.
const RINGS: [(u64, usize); 4] = [(5, 60), (60, 60), (300, 72), (3600, 72)];

/// How far back a burn rate looks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BurnSpan {
    /// Five minutes.
    FiveMinutes,
    /// Half an hour.
    HalfHour,
    /// An hour.
    Hour,
    /// Six hours.
    SixHours,
    /// Three days: the window of the budget.
    ThreeDays,
}

impl BurnSpan {
    /// Those that are published.
    pub const PUBLISHED: [Self; 4] = [Self::FiveMinutes, Self::Hour, Self::SixHours, Self::ThreeDays];

    /// The name used in metric labels: `5m`, `30m`, `1h`, `6h`, `3d`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::HalfHour => "30m",
            Self::Hour => "1h",
            Self::SixHours => "6h",
            Self::ThreeDays => "3d",
        }
    }

    /// Its length.
    pub const fn length(self) -> Duration {
        let (ring, slots) = self.reach();
        Duration::from_secs(RINGS[ring].0 * slots)
    }

    /// The ring that it is in, and how many of its slots.
    const fn reach(self) -> (usize, u64) {
        match self {
            Self::FiveMinutes => (0, 60),
            Self::HalfHour => (1, 30),
            Self::Hour => (1, 60),
            Self::SixHours => (2, 72),
            Self::ThreeDays => (3, 72),
        }
    }
}

/// Two windows that tell together whether a budget burns.
struct Rule {
    long: BurnSpan,
    short: BurnSpan,
    /// The burn rate in both.
    rate: f64,
    /// Where that is more than so much of the way from what is allowed to everything, that.
    way: f64,
}

const RULES: [Rule; 2] = [
    Rule { long: BurnSpan::Hour, short: BurnSpan::FiveMinutes, rate: 14.4, way: 0.75 },
    Rule { long: BurnSpan::SixHours, short: BurnSpan::HalfHour, rate: 6.0, way: 0.3 },
];

impl Rule {
    fn threshold(&self, allowed: f64) -> f64 {
        self.rate.min(1.0 + self.way * (1.0 / allowed - 1.0))
    }
}

/// How an objective stands; the worse, the greater.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetState {
    /// Its budget will do.
    Ok,
    /// Its budget is used up too fast.
    Burning,
    /// Its budget is used up.
    Exhausted,
}

impl BudgetState {
    /// Every state, the best first.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Burning, Self::Exhausted];

    /// The word used in metrics and conditions.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Burning => "burning",
            Self::Exhausted => "exhausted",
        }
    }
}

/// What there is to tell of an objective at one moment.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BudgetStanding {
    /// Good requests since the count began.
    pub good: u64,
    /// All requests since then.
    pub total: u64,
    /// Burn rates over the [published](BurnSpan::PUBLISHED) spans.
    pub burn: [f64; BurnSpan::PUBLISHED.len()],
    /// What is left of the budget: 1 for all of it, below 0 where more was used than there was.
    pub budget_left: f64,
    /// What all of it comes to.
    pub state: BudgetState,
}

/// The error budget of one objective: counts in four rings of slots (6 KB), each reused when its turn comes round again. A window
/// covers between all of its length and one slot less; the half hour is one of the hour's slots.
#[derive(Debug)]
pub struct ErrorBudget {
    /// The share of requests that may be bad, above 0.
    allowed: f64,
    began: Moment,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    all: Count,
    rings: [Ring; RINGS.len()],
    looked: Option<Moment>,
    /// By rule.
    burning: [bool; RULES.len()],
    exhausted: bool,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Count {
    bad: u64,
    total: u64,
}

#[derive(Debug)]
struct Ring {
    /// In nanoseconds.
    width: u64,
    slots: Box<[Slot]>,
}

/// The requests of one stretch of time.
#[derive(Copy, Clone, Debug, Default)]
struct Slot {
    epoch: u64,
    count: Count,
}

// === impl ErrorBudget ===

impl ErrorBudget {
    /// A budget of which nothing is used at `now`, for an objective that a share of `target` requests is to keep, below 1.
    pub fn new(target: f64, now: Moment) -> Self {
        let rings = RINGS.map(|(seconds, slots)| Ring {
            width: seconds * 1_000_000_000,
            slots: vec![Slot::default(); slots].into(),
        });
        let counts =
            Counts { all: Count::default(), rings, looked: None, burning: [false; RULES.len()], exhausted: false };
        Self { allowed: (1.0 - target).max(f64::MIN_POSITIVE), began: now, counts: Mutex::new(counts) }
    }

    /// Counts a request that ended at `now`.
    pub fn record(&self, good: bool, now: Moment) {
        let mut counts = lock(&self.counts);
        counts.all.add(good);
        for ring in &mut counts.rings {
            ring.add(good, now);
        }
        // So that what sets it off is seen, and not only where somebody asks.
        if counts.looked.is_none_or(|looked| now.since(looked) >= LOOK) {
            self.look(&mut counts, now);
        }
    }

    /// All there is to tell.
    pub fn standing(&self, now: Moment) -> BudgetStanding {
        let mut counts = lock(&self.counts);
        let state = self.look(&mut counts, now);
        BudgetStanding {
            good: counts.all.total - counts.all.bad,
            total: counts.all.total,
            burn: BurnSpan::PUBLISHED.map(|span| self.rate(counts.over(span, now))),
            budget_left: self.left(&counts, now),
            state,
        }
    }

    /// What it comes to.
    pub fn state(&self, now: Moment) -> BudgetState {
        self.look(&mut lock(&self.counts), now)
    }

    /// The burn rate over the last five minutes; 0 where fewer than [five](FEWEST) requests were bad.
    pub fn lately(&self, now: Moment) -> f64 {
        let count = lock(&self.counts).over(BurnSpan::FiveMinutes, now);
        if count.bad < FEWEST { 0.0 } else { self.rate(count) }
    }

    fn rate(&self, count: Count) -> f64 {
        if count.total == 0 { 0.0 } else { count.bad as f64 / count.total as f64 / self.allowed }
    }

    /// A budget is for the requests of three days. Of one that is younger it is taken that as many came before, and all were good: the
    /// first minutes after a start are no measure for days.
    fn left(&self, counts: &Counts, now: Moment) -> f64 {
        let window = BurnSpan::ThreeDays;
        let known = now.seconds_since(self.began) / window.length().as_secs_f64();
        1.0 - self.rate(counts.over(window, now)) * known.min(1.0)
    }

    fn look(&self, counts: &mut Counts, now: Moment) -> BudgetState {
        counts.looked = Some(now);
        for (at, rule) in RULES.iter().enumerate() {
            let (long, short) = (counts.over(rule.long, now), self.rate(counts.over(rule.short, now)));
            let threshold = rule.threshold(self.allowed);
            let set_off = long.bad >= FEWEST && self.rate(long) >= threshold && short >= threshold;
            counts.burning[at] = set_off || counts.burning[at] && short >= 1.0;
        }
        let (left, bad) = (self.left(counts, now), counts.over(BurnSpan::ThreeDays, now).bad);
        counts.exhausted = left <= 0.0 && bad >= FEWEST || counts.exhausted && left < RECOVERED;
        if counts.exhausted {
            BudgetState::Exhausted
        } else if counts.burning.contains(&true) {
            BudgetState::Burning
        } else {
            BudgetState::Ok
        }
    }
}

// === impl Counts ===

impl Counts {
    fn over(&self, span: BurnSpan, now: Moment) -> Count {
        let (ring, slots) = span.reach();
        self.rings[ring].over(slots, now)
    }
}

impl Count {
    fn add(&mut self, good: bool) {
        self.bad += u64::from(!good);
        self.total += 1;
    }
}

impl Ring {
    fn add(&mut self, good: bool, now: Moment) {
        let epoch = now.nanos() / self.width;
        let place = (epoch % self.slots.len() as u64) as usize;
        let slot = &mut self.slots[place];
        if slot.epoch < epoch {
            *slot = Slot { epoch, count: Count::default() };
        }
        // A slot that is already newer means that this request comes a whole round late.
        if slot.epoch == epoch {
            slot.count.add(good);
        }
    }

    fn over(&self, slots: u64, now: Moment) -> Count {
        let oldest = (now.nanos() / self.width).saturating_sub(slots - 1);
        let mut sum = Count::default();
        for slot in self.slots.iter().filter(|slot| slot.epoch >= oldest) {
            sum.bad += slot.count.bad;
            sum.total += slot.count.total;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    /// A request every ten seconds from `from` to `until`, of which a share of `bad` is so, evenly.
    fn play(budget: &ErrorBudget, from: u64, until: u64, bad: f64) {
        let mut owed = 0.0;
        for second in (from..until).step_by(10) {
            owed += bad;
            let is_bad = owed >= 1.0;
            owed -= f64::from(u8::from(is_bad));
            budget.record(!is_bad, at(second));
        }
    }

    #[test]
    fn nothing_burns_at_what_is_allowed() {
        let budget = ErrorBudget::new(0.95, at(0));
        play(&budget, 0, 4 * DAY, 0.05);
        let standing = budget.standing(at(4 * DAY));
        assert_eq!(standing.total, 34_560);
        assert!(standing.burn.iter().all(|burn| (burn - 1.0).abs() < 0.5), "{standing:?}");
        assert!(standing.budget_left.abs() < 0.02, "three days at just what is allowed use all of it: {standing:?}");
        assert!(!matches!(standing.state, BudgetState::Burning), "{standing:?}");
    }

    #[test]
    fn a_fast_burn_is_seen_within_the_hour_and_over_five_minutes_after_its_cause() {
        let budget = ErrorBudget::new(0.999, at(0));
        play(&budget, 0, DAY, 0.0);
        assert_eq!(budget.state(at(DAY)), BudgetState::Ok);
        // Of 360 requests an hour 1.44 % are 5.2: the sixth bad one is the first beyond.
        play(&budget, DAY, DAY + 40, 1.0);
        assert_eq!(budget.state(at(DAY + 40)), BudgetState::Ok, "four are too few");
        play(&budget, DAY + 40, DAY + 70, 1.0);
        assert_eq!(budget.state(at(DAY + 70)), BudgetState::Burning);
        play(&budget, DAY + 70, DAY + 350, 0.0);
        assert_eq!(budget.state(at(DAY + 350)), BudgetState::Burning, "one in five minutes is beyond what is allowed");
        play(&budget, DAY + 350, DAY + 380, 0.0);
        assert_eq!(budget.state(at(DAY + 380)), BudgetState::Ok);
    }

    #[test]
    fn a_slow_burn_is_seen_too() {
        let budget = ErrorBudget::new(0.95, at(0));
        play(&budget, 0, 6 * HOUR, 0.0);
        play(&budget, 6 * HOUR, 13 * HOUR, 0.4);
        let standing = budget.standing(at(13 * HOUR));
        let [.., six, _] = standing.burn;
        assert!(standing.burn[1] < 14.4 && six > 6.0, "{standing:?}");
        assert_eq!(standing.state, BudgetState::Burning);
        play(&budget, 13 * HOUR, 13 * HOUR + 32 * 60, 0.0);
        assert_eq!(budget.state(at(13 * HOUR + 32 * 60)), BudgetState::Ok, "half an hour of good requests ends it");
    }

    #[test]
    fn what_gets_no_requests_any_more_is_tried_again() {
        let budget = ErrorBudget::new(0.95, at(0));
        play(&budget, 0, HOUR, 1.0);
        assert_eq!(budget.state(at(HOUR)), BudgetState::Burning);
        assert!(budget.lately(at(HOUR)) > 19.9);
        assert_eq!(budget.state(at(HOUR + 200)), BudgetState::Burning);
        // The fast rule is over after five minutes without any, the slow one after half an hour.
        assert_eq!(budget.state(at(HOUR + 31 * 60)), BudgetState::Ok);
        assert!(budget.lately(at(HOUR + 31 * 60)) < 1e-9);
        // Whether that was right, a few requests tell.
        play(&budget, HOUR + 31 * 60, HOUR + 32 * 60, 1.0);
        assert_eq!(budget.state(at(HOUR + 32 * 60)), BudgetState::Burning);
    }

    #[test]
    fn a_single_bad_request_burns_nothing() {
        for target in [0.5, 0.95, 0.999, 0.999_99] {
            let budget = ErrorBudget::new(target, at(0));
            for hour in 0..80 {
                budget.record(false, at(hour * HOUR));
                assert!(budget.lately(at(hour * HOUR)) < 1e-9);
                let state = budget.state(at(hour * HOUR));
                assert!(hour > 3 || state == BudgetState::Ok, "{target}: {state:?} after {hour} h");
            }
        }
    }

    #[test]
    fn a_loose_objective_burns_where_nearly_all_is_bad() {
        for target in [0.5, 0.9] {
            let budget = ErrorBudget::new(target, at(0));
            play(&budget, 0, 12 * HOUR, 1.0 - target);
            assert_eq!(budget.state(at(12 * HOUR)), BudgetState::Ok);
            play(&budget, 12 * HOUR, 14 * HOUR, 1.0);
            assert_eq!(budget.state(at(14 * HOUR)), BudgetState::Burning, "{target}");
        }
        for allowed in [0.05, 0.001] {
            for (rule, rate) in RULES.iter().zip([14.4, 6.0]) {
                assert!((rule.threshold(allowed) - rate).abs() < 1e-9, "the workbook's from a 95th percentile on");
            }
        }
    }

    #[test]
    fn a_budget_that_is_used_up_comes_back_with_time() {
        let budget = ErrorBudget::new(0.95, at(0));
        play(&budget, 0, HOUR, 1.0);
        let early = budget.standing(at(HOUR));
        assert!(early.budget_left > 0.7, "one hour of three days: {early:?}");
        play(&budget, HOUR, 6 * HOUR, 1.0);
        let spent = budget.standing(at(6 * HOUR));
        assert!(spent.budget_left < 0.0 && spent.state == BudgetState::Exhausted, "{spent:?}");
        play(&budget, 6 * HOUR, 3 * DAY, 0.0);
        assert_eq!(budget.state(at(3 * DAY)), BudgetState::Exhausted, "five hours of 71 are more than one in twenty");
        play(&budget, 3 * DAY, 3 * DAY + 5 * HOUR, 0.0);
        assert_eq!(budget.state(at(3 * DAY + 5 * HOUR)), BudgetState::Ok);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn rates_are_those_of_the_requests_in_reach(
            requests in prop::collection::vec((0..5 * DAY, any::<bool>()), 0..300),
            recent in prop::collection::vec((5 * DAY - HOUR..5 * DAY, any::<bool>()), 0..100),
            now in 5 * DAY..5 * DAY + 2 * HOUR,
        ) {
            let budget = ErrorBudget::new(0.9, at(0));
            let mut requests = [requests, recent].concat();
            requests.sort_unstable();
            for (second, good) in &requests {
                budget.record(*good, at(*second));
            }
            let counts = lock(&budget.counts);
            for span in [BurnSpan::FiveMinutes, BurnSpan::HalfHour, BurnSpan::Hour, BurnSpan::SixHours, BurnSpan::ThreeDays] {
                let (ring, slots) = span.reach();
                let width = RINGS[ring].0;
                let within = |(second, _): &&(u64, bool)| second / width + slots > now / width;
                let total = requests.iter().filter(within).count() as u64;
                let bad = requests.iter().filter(within).filter(|(_, good)| !good).count() as u64;
                prop_assert_eq!(counts.over(span, at(now)), Count { bad, total }, "{}", span.label());
                let covered = Duration::from_secs(slots * width);
                prop_assert_eq!(span.length(), covered);
            }
            prop_assert_eq!(counts.all.total, requests.len() as u64);
        }

        #[test]
        fn what_burns_has_a_reason(shares in prop::collection::vec((1..90_u64, 0.0..1.0_f64), 1..20), target in 0.5..0.9999_f64) {
            let budget = ErrorBudget::new(target, at(0));
            let mut clock = 0;
            for (minutes, bad) in shares {
                play(&budget, clock, clock + minutes * 60, bad);
                clock += minutes * 60;
                let standing = budget.standing(at(clock));
                let half = budget.rate(lock(&budget.counts).over(BurnSpan::HalfHour, at(clock)));
                let [five, ..] = standing.burn;
                match standing.state {
                    BudgetState::Burning => prop_assert!(five >= 1.0 || half >= 1.0, "{:?}", standing),
                    BudgetState::Exhausted => prop_assert!(standing.budget_left < RECOVERED),
                    BudgetState::Ok => {}
                }
            }
        }
    }
}
