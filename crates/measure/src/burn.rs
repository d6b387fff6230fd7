//! The burn rate of an objective's error budget: good and bad requests over several windows, and the state that follows
//! from them.
//!
//! The *burn rate* over a window is the share of bad requests in it ÷ the share that the objective allows. At 1 the
//! budget lasts exactly for its window of three days. With one bad request in twenty allowed, the rate is 20 when all
//! requests are bad.
//!
//! Pairs of windows decide when a budget *burns*, as in Google's *Site Reliability Workbook* (chapter 5, “Alerting on
//! SLOs”, multiwindow, multi-burn-rate alerts): fast at 14.4 over an hour, slow at 6 over six hours. Both require the
//! same rate over a window a twelfth as long, so that the state ends soon after its cause. Two rules differ from the
//! book:
//!
//! * The workbook's objectives allow one failure in a thousand. Latency percentiles allow so many that 14.4 times as
//!   many exceeds all requests: a 90th percentile burns at 10 at most. The threshold is therefore at most three
//!   quarters (slow: three tenths) of the way from the allowed share to all requests. From a 95th percentile upwards
//!   this changes nothing.
//! * “If a system receives a low number of requests … a single failed request” is enough for any rate (the same
//!   chapter, “Low-Traffic Services”, which suggests artificial requests). Here a budget burns only after five bad
//!   requests in the longer window.
//!
//! A burning budget burns until the shorter window is back within the allowed share, not merely below the threshold.
//! Traffic routed elsewhere in the meantime leaves the window empty, and an empty window is within the allowed share,
//! so the pool is tried again.

use std::time::Duration;

use parking_lot::Mutex;

use signalbox_types::Moment;

/// The least number of bad requests at which a budget can burn.
const MIN_BAD_REQUESTS: u64 = 5;
/// An exhausted budget counts as exhausted until this share of it is left again.
const RECOVERED: f64 = 0.05;
/// The least time between two updates of the state by recorded requests.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds per slot and number of slots of each ring.
const RINGS: [(u64, usize); 4] = [(5, 60), (60, 60), (300, 72), (3600, 72)];

/// The window of a burn rate.
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
    /// The spans that are published as metrics.
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

    /// The length of the span.
    pub const fn length(self) -> Duration {
        let (ring, slots) = self.reach();
        Duration::from_secs(RINGS[ring].0 * slots)
    }

    /// The index of the ring that covers the span, and the number of its slots.
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

/// Two windows that decide together whether a budget burns.
struct Rule {
    long: BurnSpan,
    short: BurnSpan,
    /// Threshold of the burn rate in both windows.
    rate: f64,
    /// Upper bound of the threshold, as a share of the way from the allowed share to all requests.
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

/// The state of an objective's budget, ordered from best to worst.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetState {
    /// The budget lasts.
    Ok,
    /// The budget is being used up too fast.
    Burning,
    /// The budget is used up.
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

/// A snapshot of an objective's budget.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BudgetStanding {
    /// Good requests since the count began.
    pub good: u64,
    /// All requests since then.
    pub total: u64,
    /// Burn rates over the [published](BurnSpan::PUBLISHED) spans.
    pub burn: [f64; BurnSpan::PUBLISHED.len()],
    /// The remaining share of the budget: 1 for all of it, below 0 if it was overdrawn.
    pub budget_left: f64,
    /// The state that follows.
    pub state: BudgetState,
}

/// The error budget of one objective. It counts requests in four rings of slots (6 KB); each slot is reused when the
/// ring comes round again. A window covers its full length or up to one slot less. The half hour reads half of the
/// hour's slots.
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
    /// True for each rule whose rate was exceeded at the last look, in the order of `RULES`.
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

/// The requests of one slot's stretch of time.
#[derive(Copy, Clone, Debug, Default)]
struct Slot {
    epoch: u64,
    count: Count,
}

// === impl ErrorBudget ===

impl ErrorBudget {
    /// An unused budget from `now` on, for an objective that the share `target` (below 1) of requests must meet.
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
        let mut counts = self.counts.lock();
        counts.all.add(good);
        for ring in &mut counts.rings {
            ring.add(good, now);
        }
        // Updates the state here too: otherwise a burn would start only when somebody reads it.
        if counts.looked.is_none_or(|looked| now.since(looked) >= LOOK) {
            self.update_state(&mut counts, now);
        }
    }

    /// The counts, rates and state at `now`.
    pub fn standing(&self, now: Moment) -> BudgetStanding {
        let mut counts = self.counts.lock();
        let state = self.update_state(&mut counts, now);
        BudgetStanding {
            good: counts.all.total - counts.all.bad,
            total: counts.all.total,
            burn: BurnSpan::PUBLISHED.map(|span| self.rate(counts.over(span, now))),
            budget_left: self.left(&counts, now),
            state,
        }
    }

    /// The state at `now`.
    pub fn state(&self, now: Moment) -> BudgetState {
        self.update_state(&mut self.counts.lock(), now)
    }

    /// The burn rate over the last five minutes; 0 if fewer than five requests (`MIN_BAD_REQUESTS`) were bad.
    pub fn recent_burn_rate(&self, now: Moment) -> f64 {
        let count = self.counts.lock().over(BurnSpan::FiveMinutes, now);
        if count.bad < MIN_BAD_REQUESTS { 0.0 } else { self.rate(count) }
    }

    fn rate(&self, count: Count) -> f64 {
        if count.total == 0 { 0.0 } else { count.bad as f64 / count.total as f64 / self.allowed }
    }

    /// The remaining share of the budget. The budget covers three days of requests. A younger one is assumed to follow
    /// on as much traffic that was all good, because the first minutes after a start say little about days.
    fn left(&self, counts: &Counts, now: Moment) -> f64 {
        let window = BurnSpan::ThreeDays;
        let known = now.seconds_since(self.began) / window.length().as_secs_f64();
        1.0 - self.rate(counts.over(window, now)) * known.min(1.0)
    }

    fn update_state(&self, counts: &mut Counts, now: Moment) -> BudgetState {
        counts.looked = Some(now);
        for (at, rule) in RULES.iter().enumerate() {
            let (long, short) = (counts.over(rule.long, now), self.rate(counts.over(rule.short, now)));
            let threshold = rule.threshold(self.allowed);
            let set_off = long.bad >= MIN_BAD_REQUESTS && self.rate(long) >= threshold && short >= threshold;
            counts.burning[at] = set_off || counts.burning[at] && short >= 1.0;
        }
        let (left, bad) = (self.left(counts, now), counts.over(BurnSpan::ThreeDays, now).bad);
        counts.exhausted = left <= 0.0 && bad >= MIN_BAD_REQUESTS || counts.exhausted && left < RECOVERED;
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
        // A newer slot means that this request is late by a whole round.
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

    /// Plays a request every ten seconds from `from` to `until`, of which the share `bad` is bad, spread evenly.
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
    fn a_budget_without_requests_recovers() {
        let budget = ErrorBudget::new(0.95, at(0));
        play(&budget, 0, HOUR, 1.0);
        assert_eq!(budget.state(at(HOUR)), BudgetState::Burning);
        assert!(budget.recent_burn_rate(at(HOUR)) > 19.9);
        assert_eq!(budget.state(at(HOUR + 200)), BudgetState::Burning);
        // The fast rule is over after five minutes without any, the slow one after half an hour.
        assert_eq!(budget.state(at(HOUR + 31 * 60)), BudgetState::Ok);
        assert!(budget.recent_burn_rate(at(HOUR + 31 * 60)) < 1e-9);
        // A few requests decide whether that was right.
        play(&budget, HOUR + 31 * 60, HOUR + 32 * 60, 1.0);
        assert_eq!(budget.state(at(HOUR + 32 * 60)), BudgetState::Burning);
    }

    #[test]
    fn a_single_bad_request_burns_nothing() {
        for target in [0.5, 0.95, 0.999, 0.999_99] {
            let budget = ErrorBudget::new(target, at(0));
            for hour in 0..80 {
                budget.record(false, at(hour * HOUR));
                assert!(budget.recent_burn_rate(at(hour * HOUR)) < 1e-9);
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
            let counts = budget.counts.lock();
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
        fn a_burning_budget_exceeds_a_threshold(shares in prop::collection::vec((1..90_u64, 0.0..1.0_f64), 1..20), target in 0.5..0.9999_f64) {
            let budget = ErrorBudget::new(target, at(0));
            let mut clock = 0;
            for (minutes, bad) in shares {
                play(&budget, clock, clock + minutes * 60, bad);
                clock += minutes * 60;
                let standing = budget.standing(at(clock));
                let half = budget.rate(budget.counts.lock().over(BurnSpan::HalfHour, at(clock)));
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
