//! The burn rate of an objective's error budget: good and bad requests over several windows, and the state that follows
//! from them.
//!
//! The *burn rate* over a window is the share of bad requests in it ÷ the share that the objective allows. At 1 the
//! budget lasts exactly for its window, which is three days by default. With one bad request in twenty allowed, the
//! rate is 20 when all requests are bad.
//!
//! An objective is *missing* while the rate over the last hour is above 1: its budget will not last.
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
//! so the pool is tried again. An objective that is missing stays so until the rate is a tenth below that at which it
//! began, so that one at its limit does not change its state with every request.

use std::time::Duration;

use parking_lot::Mutex;

use signalbox_types::Moment;

/// The least number of bad requests at which a budget can burn.
const MIN_BAD_REQUESTS: u64 = 5;
/// An exhausted budget counts as exhausted until this share of it is left again.
const RECOVERED: f64 = 0.05;
/// An objective is missing until the rate is below this share of that at which it began.
const KEPT: f64 = 0.9;
/// The least time between two updates of the state by recorded requests.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds per slot and number of slots of the first rings. One more covers the window of the budget.
const RINGS: [(u64, usize); 3] = [(5, 60), (60, 60), (300, 72)];
/// Slots of the ring that covers the window of the budget.
const BUDGET_SLOTS: u64 = 72;
/// The windows whose burn rates are always published, besides the budget's own.
const PUBLISHED: [Duration; 3] = [Duration::from_mins(5), Duration::from_hours(1), Duration::from_hours(6)];
/// Upper bounds of the thresholds at which a budget burns fast and slowly, as shares of the way from the allowed share
/// to all requests.
const WAYS: [f64; 2] = [0.75, 0.3];

/// A burn rate over a window.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BurnRule {
    /// The window: from a minute to a day.
    pub over: Duration,
    /// The rate.
    pub rate: f64,
}

/// The windows and rates by which budgets are judged.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BurnRules {
    /// The window of the budget itself: from a day on.
    pub window: Duration,
    /// The rate from which on a budget burns fast.
    pub fast: BurnRule,
    /// The rate from which on it burns slowly.
    pub slow: BurnRule,
    /// The rate above which the objective is missing.
    pub missing: BurnRule,
}

impl Default for BurnRules {
    fn default() -> Self {
        let hour = Duration::from_hours(1);
        Self {
            window: 72 * hour,
            fast: BurnRule { over: hour, rate: 14.4 },
            slow: BurnRule { over: 6 * hour, rate: 6.0 },
            missing: BurnRule { over: hour, rate: 1.0 },
        }
    }
}

impl BurnRule {
    /// The shorter window, over which the rate is required too.
    pub fn short(self) -> Duration {
        self.over / 12
    }
}

impl BurnRules {
    /// Each rule for burning budgets, and the upper bound of its threshold as a share of the way from the allowed share to
    /// all requests.
    pub fn burning(&self) -> [(BurnRule, f64); WAYS.len()] {
        [(self.fast, WAYS[0]), (self.slow, WAYS[1])]
    }

    /// The windows whose burn rates are published.
    pub const fn published(&self) -> [Duration; PUBLISHED.len() + 1] {
        [PUBLISHED[0], PUBLISHED[1], PUBLISHED[2], self.window]
    }

    /// Seconds per slot and number of slots of each ring.
    fn rings(&self) -> [(u64, usize); RINGS.len() + 1] {
        [RINGS[0], RINGS[1], RINGS[2], (self.window.as_secs().div_ceil(BUDGET_SLOTS).max(1), BUDGET_SLOTS as usize)]
    }

    /// The index of the finest ring that covers the window, and the number of its slots.
    fn reach(&self, window: Duration) -> (usize, u64) {
        let rings = self.rings();
        let covers = |(seconds, slots): &(u64, usize)| seconds * *slots as u64 >= window.as_secs();
        let ring = rings.iter().position(covers).unwrap_or(RINGS.len());
        let (seconds, slots) = rings[ring];
        (ring, window.as_secs().div_ceil(seconds).clamp(1, slots as u64))
    }
}

/// The threshold of a rule for burning budgets.
fn threshold((rule, way): (BurnRule, f64), allowed: f64) -> f64 {
    rule.rate.min(1.0 + way * (1.0 / allowed - 1.0))
}

/// The name of a window in metric labels: `5m`, `1h`, `3d`.
pub fn window_name(window: Duration) -> String {
    let seconds = window.as_secs();
    let unit = [(86_400, "d"), (3600, "h"), (60, "m")]
        .into_iter()
        .find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
    let (unit, letter) = unit.unwrap_or((1, "s"));
    format!("{}{letter}", seconds / unit)
}

/// The state of an objective's budget, ordered from best to worst.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetState {
    /// The budget lasts.
    Ok,
    /// The objective was missed more often than the budget allows over the last hour.
    Missing,
    /// The budget is being used up too fast.
    Burning,
    /// The budget is used up.
    Exhausted,
}

impl BudgetState {
    /// Every state, the best first.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Missing, Self::Burning, Self::Exhausted];

    /// The word used in metrics and conditions.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
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
    /// Burn rates over the [published](BurnRules::published) windows.
    pub burn: [(Duration, f64); PUBLISHED.len() + 1],
    /// The remaining share of the budget: 1 for all of it, below 0 if it was overdrawn.
    pub budget_left: f64,
    /// The state that follows.
    pub state: BudgetState,
}

/// The error budget of one objective. It counts requests in four rings of slots (6 KB); each slot is reused when the
/// ring comes round again. A window covers its full length or up to one slot less. A window between two rings reads a
/// part of the slots of the longer one.
#[derive(Debug)]
pub struct ErrorBudget {
    /// The share of requests that may be bad, above 0.
    allowed: f64,
    rules: BurnRules,
    began: Moment,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    all: Count,
    rings: [Ring; RINGS.len() + 1],
    looked: Option<Moment>,
    /// True for each rule whose rate was exceeded at the last look, in the order of [`BurnRules::burning`].
    burning: [bool; WAYS.len()],
    missing: bool,
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
    pub fn new(target: f64, rules: BurnRules, now: Moment) -> Self {
        let rings = rules.rings().map(|(seconds, slots)| Ring {
            width: seconds * 1_000_000_000,
            slots: vec![Slot::default(); slots].into(),
        });
        let counts = Counts {
            all: Count::default(),
            rings,
            looked: None,
            burning: [false; WAYS.len()],
            missing: false,
            exhausted: false,
        };
        Self { allowed: (1.0 - target).max(f64::MIN_POSITIVE), rules, began: now, counts: Mutex::new(counts) }
    }

    /// The rules by which it is judged.
    pub fn rules(&self) -> &BurnRules {
        &self.rules
    }

    /// Counts `total` events of a request that ended at `now`, of which `bad` were bad.
    pub fn record(&self, bad: u64, total: u64, now: Moment) {
        let count = Count { bad, total };
        let mut counts = self.counts.lock();
        counts.all.add(count);
        for ring in &mut counts.rings {
            ring.add(count, now);
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
            burn: self.rules.published().map(|window| (window, self.rate(self.over(&counts, window, now)))),
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
        let count = self.over(&self.counts.lock(), PUBLISHED[0], now);
        if count.bad < MIN_BAD_REQUESTS { 0.0 } else { self.rate(count) }
    }

    fn over(&self, counts: &Counts, window: Duration, now: Moment) -> Count {
        let (ring, slots) = self.rules.reach(window);
        counts.rings[ring].over(slots, now)
    }

    fn rate(&self, count: Count) -> f64 {
        if count.total == 0 { 0.0 } else { count.bad as f64 / count.total as f64 / self.allowed }
    }

    /// The remaining share of the budget. The budget covers the requests of its window. A younger one is assumed to follow
    /// on as much traffic that was all good, because the first minutes after a start say little about days.
    fn left(&self, counts: &Counts, now: Moment) -> f64 {
        let window = self.rules.window;
        let known = now.seconds_since(self.began) / window.as_secs_f64();
        1.0 - self.rate(self.over(counts, window, now)) * known.min(1.0)
    }

    fn update_state(&self, counts: &mut Counts, now: Moment) -> BudgetState {
        counts.looked = Some(now);
        for (at, rule) in self.rules.burning().into_iter().enumerate() {
            let threshold = threshold(rule, self.allowed);
            let (rule, _) = rule;
            let (long, short) = (self.over(counts, rule.over, now), self.rate(self.over(counts, rule.short(), now)));
            let set_off = long.bad >= MIN_BAD_REQUESTS && self.rate(long) >= threshold && short >= threshold;
            counts.burning[at] = set_off || counts.burning[at] && short >= 1.0;
        }
        let BurnRule { over, rate: most } = self.rules.missing;
        let recent = self.over(counts, over, now);
        let rate = self.rate(recent);
        // One request more or less decides nothing: at the limit the state would change with each.
        let without = self.rate(Count { bad: recent.bad.saturating_sub(1), ..recent });
        counts.missing = recent.bad >= MIN_BAD_REQUESTS && (without > most || counts.missing && rate >= most * KEPT);
        let (left, bad) = (self.left(counts, now), self.over(counts, self.rules.window, now).bad);
        counts.exhausted = left <= 0.0 && bad >= MIN_BAD_REQUESTS || counts.exhausted && left < RECOVERED;
        if counts.exhausted {
            BudgetState::Exhausted
        } else if counts.burning.contains(&true) {
            BudgetState::Burning
        } else if counts.missing {
            BudgetState::Missing
        } else {
            BudgetState::Ok
        }
    }
}

// === impl Count ===

impl Count {
    fn add(&mut self, more: Self) {
        self.bad += more.bad;
        self.total += more.total;
    }
}

impl Ring {
    fn add(&mut self, count: Count, now: Moment) {
        let epoch = now.nanos() / self.width;
        let place = (epoch % self.slots.len() as u64) as usize;
        let slot = &mut self.slots[place];
        if slot.epoch < epoch {
            *slot = Slot { epoch, count: Count::default() };
        }
        // A newer slot means that this request is late by a whole round.
        if slot.epoch == epoch {
            slot.count.add(count);
        }
    }

    fn over(&self, slots: u64, now: Moment) -> Count {
        let oldest = (now.nanos() / self.width).saturating_sub(slots - 1);
        let mut sum = Count::default();
        for slot in self.slots.iter().filter(|slot| slot.epoch >= oldest) {
            sum.add(slot.count);
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
            budget.record(u64::from(is_bad), 1, at(second));
        }
    }

    #[test]
    fn nothing_burns_at_what_is_allowed() {
        let budget = ErrorBudget::new(0.95, BurnRules::default(), at(0));
        play(&budget, 0, 4 * DAY, 0.05);
        let standing = budget.standing(at(4 * DAY));
        assert_eq!(standing.total, 34_560);
        assert!(standing.burn.iter().all(|burn| (burn.1 - 1.0).abs() < 0.5), "{standing:?}");
        assert!(standing.budget_left.abs() < 0.02, "three days at just what is allowed use all of it: {standing:?}");
        assert!(!matches!(standing.state, BudgetState::Burning), "{standing:?}");
    }

    #[test]
    fn a_fast_burn_is_seen_within_the_hour_and_over_five_minutes_after_its_cause() {
        let budget = ErrorBudget::new(0.999, BurnRules::default(), at(0));
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
        assert_eq!(budget.state(at(DAY + 380)), BudgetState::Missing, "seven of an hour's 360 are too many");
        play(&budget, DAY + 380, DAY + 3700, 0.0);
        assert_eq!(budget.state(at(DAY + 3700)), BudgetState::Ok);
    }

    #[test]
    fn a_slow_burn_is_seen_too() {
        let budget = ErrorBudget::new(0.95, BurnRules::default(), at(0));
        play(&budget, 0, 6 * HOUR, 0.0);
        play(&budget, 6 * HOUR, 13 * HOUR, 0.4);
        let standing = budget.standing(at(13 * HOUR));
        let [_, (_, hour), (_, six), _] = standing.burn;
        assert!(hour < 14.4 && six > 6.0, "{standing:?}");
        assert_eq!(standing.state, BudgetState::Burning);
        play(&budget, 13 * HOUR, 13 * HOUR + 32 * 60, 0.0);
        assert_eq!(
            budget.state(at(13 * HOUR + 32 * 60)),
            BudgetState::Missing,
            "half an hour of good requests ends it"
        );
    }

    #[test]
    fn a_budget_without_requests_recovers() {
        let budget = ErrorBudget::new(0.95, BurnRules::default(), at(0));
        play(&budget, 0, HOUR, 1.0);
        assert_eq!(budget.state(at(HOUR)), BudgetState::Burning);
        assert!(budget.recent_burn_rate(at(HOUR)) > 19.9);
        assert_eq!(budget.state(at(HOUR + 200)), BudgetState::Burning);
        // The fast rule is over after five minutes without any, the slow one after half an hour.
        assert_eq!(budget.state(at(HOUR + 31 * 60)), BudgetState::Missing);
        assert!(budget.recent_burn_rate(at(HOUR + 31 * 60)) < 1e-9);
        // A few requests decide whether that was right.
        play(&budget, HOUR + 31 * 60, HOUR + 32 * 60, 1.0);
        assert_eq!(budget.state(at(HOUR + 32 * 60)), BudgetState::Burning);
    }

    #[test]
    fn a_single_bad_request_burns_nothing() {
        for target in [0.5, 0.95, 0.999, 0.999_99] {
            let budget = ErrorBudget::new(target, BurnRules::default(), at(0));
            for hour in 0..80 {
                budget.record(1, 1, at(hour * HOUR));
                assert!(budget.recent_burn_rate(at(hour * HOUR)) < 1e-9);
                let state = budget.state(at(hour * HOUR));
                assert!(hour > 3 || state == BudgetState::Ok, "{target}: {state:?} after {hour} h");
            }
        }
    }

    #[test]
    fn a_loose_objective_burns_where_nearly_all_is_bad() {
        for target in [0.5, 0.9] {
            let budget = ErrorBudget::new(target, BurnRules::default(), at(0));
            play(&budget, 0, 12 * HOUR, 1.0 - target);
            assert_eq!(budget.state(at(12 * HOUR)), BudgetState::Ok);
            play(&budget, 12 * HOUR, 14 * HOUR, 1.0);
            assert_eq!(budget.state(at(14 * HOUR)), BudgetState::Burning, "{target}");
        }
        for allowed in [0.05, 0.001] {
            for (rule, rate) in BurnRules::default().burning().into_iter().zip([14.4, 6.0]) {
                assert!((threshold(rule, allowed) - rate).abs() < 1e-9, "the workbook's from a 95th percentile on");
            }
        }
    }

    #[test]
    fn a_budget_that_is_used_up_comes_back_with_time() {
        let budget = ErrorBudget::new(0.95, BurnRules::default(), at(0));
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

    #[test]
    fn an_objective_missed_four_times_as_often_as_it_may_is_not_ok() {
        let budget = ErrorBudget::new(0.95, BurnRules::default(), at(0));
        play(&budget, 0, 200, 0.2);
        assert_eq!(budget.state(at(200)), BudgetState::Ok, "four are too few");
        play(&budget, 200, 11 * HOUR, 0.2);
        assert_eq!(budget.state(at(11 * HOUR)), BudgetState::Missing);
        play(&budget, 11 * HOUR, 12 * HOUR, 0.048);
        assert_eq!(budget.state(at(12 * HOUR)), BudgetState::Missing, "just within what is allowed is no end");
        play(&budget, 12 * HOUR, 13 * HOUR, 0.02);
        assert_eq!(budget.state(at(13 * HOUR)), BudgetState::Ok);
    }

    #[test]
    fn windows_and_rates_can_be_others() {
        let rules = BurnRules {
            window: Duration::from_hours(30 * 24),
            fast: BurnRule { over: Duration::from_mins(10), rate: 2.0 },
            slow: BurnRule { over: Duration::from_hours(24), rate: 1.5 },
            missing: BurnRule { over: Duration::from_mins(20), rate: 3.0 },
        };
        assert_eq!(rules.published().map(window_name), ["5m", "1h", "6h", "30d"]);
        assert_eq!([90, 1440, 2].map(|minutes| window_name(Duration::from_mins(minutes))), ["90m", "1d", "2m"]);
        let budget = ErrorBudget::new(0.95, rules, at(0));
        play(&budget, 0, HOUR, 0.12);
        assert_eq!(budget.state(at(HOUR)), BudgetState::Burning, "2.4 times over ten minutes");
        play(&budget, HOUR, 4 * HOUR, 0.0);
        assert_eq!(budget.state(at(4 * HOUR)), BudgetState::Ok);
        play(&budget, 4 * HOUR, 2 * DAY, 0.07);
        assert_eq!(budget.state(at(2 * DAY)), BudgetState::Ok);
        let standing = budget.standing(at(2 * DAY));
        assert!(standing.budget_left > 0.85, "two days of thirty: {standing:?}");
        play(&budget, 2 * DAY, 3 * DAY, 0.09);
        assert_eq!(budget.state(at(3 * DAY)), BudgetState::Burning, "1.8 times over a day");
    }

    #[test]
    fn a_request_may_have_many_events() {
        let budget = ErrorBudget::new(0.99, BurnRules::default(), at(0));
        budget.record(3, 200, at(1));
        let standing = budget.standing(at(1));
        assert_eq!((standing.good, standing.total), (197, 200));
        assert!((standing.burn[0].1 - 1.5).abs() < 1e-9, "{standing:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn rates_are_those_of_the_requests_in_reach(
            requests in prop::collection::vec((0..5 * DAY, any::<bool>()), 0..300),
            recent in prop::collection::vec((5 * DAY - HOUR..5 * DAY, any::<bool>()), 0..100),
            now in 5 * DAY..5 * DAY + 2 * HOUR,
        ) {
            let budget = ErrorBudget::new(0.9, BurnRules::default(), at(0));
            let mut requests = [requests, recent].concat();
            requests.sort_unstable();
            for (second, good) in &requests {
                budget.record(u64::from(!good), 1, at(*second));
            }
            let counts = budget.counts.lock();
            let rules = BurnRules::default();
            for (name, minutes) in [("5m", 5), ("30m", 30), ("1h", 60), ("6h", 360), ("3d", 4320)] {
                let span = Duration::from_mins(minutes);
                let (ring, slots) = rules.reach(span);
                let width = rules.rings()[ring].0;
                let within = |(second, _): &&(u64, bool)| second / width + slots > now / width;
                let total = requests.iter().filter(within).count() as u64;
                let bad = requests.iter().filter(within).filter(|(_, good)| !good).count() as u64;
                prop_assert_eq!(budget.over(&counts, span, at(now)), Count { bad, total }, "{}", name);
                prop_assert_eq!(span, Duration::from_secs(slots * width));
                prop_assert_eq!(window_name(span), name);
            }
            prop_assert_eq!(counts.all.total, requests.len() as u64);
        }

        #[test]
        fn a_burning_budget_exceeds_a_threshold(shares in prop::collection::vec((1..90_u64, 0.0..1.0_f64), 1..20), target in 0.5..0.9999_f64) {
            let budget = ErrorBudget::new(target, BurnRules::default(), at(0));
            let mut clock = 0;
            for (minutes, bad) in shares {
                play(&budget, clock, clock + minutes * 60, bad);
                clock += minutes * 60;
                let standing = budget.standing(at(clock));
                let half = budget.rate(budget.over(&budget.counts.lock(), Duration::from_mins(30), at(clock)));
                let [(_, five), (_, hour), ..] = standing.burn;
                match standing.state {
                    BudgetState::Burning => prop_assert!(five >= 1.0 || half >= 1.0, "{:?}", standing),
                    BudgetState::Exhausted => prop_assert!(standing.budget_left < RECOVERED),
                    BudgetState::Missing => prop_assert!(hour >= KEPT, "{:?}", standing),
                    BudgetState::Ok => prop_assert!(hour <= 1.5 || budget.over(&budget.counts.lock(), PUBLISHED[1], at(clock)).bad < MIN_BAD_REQUESTS),
                }
            }
        }
    }
}
