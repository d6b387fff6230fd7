//! Circuit breakers: avoid targets that failed lately and probe them with one request at a time.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Relaxed},
    },
    time::Duration,
};

use http::StatusCode;

use signalbox_types::{
    Blame, Fault, Moment,
    fault::{ACCOUNT, FULL, LOST, MODEL_MISSING, NOT_READY, UNREACHABLE, UNSUPPORTED},
};

/// Failures in a row after which a reachable target is avoided.
const TOLERATED: u32 = 3;
/// Window over which the share of failures is computed, and the least number of failures that it takes.
const WINDOW: Duration = Duration::from_secs(30);
const MANY: u32 = 5;
/// First pause of an avoided target. It doubles at each failed probe.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two probes.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause that a target may ask for itself.
const LONGEST_COOLDOWN: Duration = Duration::from_mins(5);
/// Time for which one probe has the target to itself. After that another request may probe it.
const PROBE: Duration = Duration::from_secs(15);
/// A success within this time shows that the target still serves other requests.
const SERVING: Duration = Duration::from_mins(1);
/// Retracted failures in a row from which on the requests are no longer to blame: an outage can look the same on all
/// targets.
const EXCUSED: u32 = 5;
/// Least time between two log reports of one breaker.
const REPORTS: Duration = Duration::from_secs(30);

/// Counts the failures of one target: a model on an engine through one account, or an engine as a whole for connection
/// failures ([`Backend`](super::Backend) combines the two).
///
/// A target that cannot be reached is avoided at once. One that answers with errors is avoided after three in a row, or
/// when half of its requests fail. One that asks for a pause is avoided for as long. One that is full is not avoided. Then one request probes it:
/// success closes the breaker, failure doubles the pause. Failures that end while the target is avoided do not count:
/// their requests were sent before.
///
/// An avoided target is not shut off: where no other is left, requests go there all the same.
#[derive(Debug, Default)]
pub struct Breaker {
    /// Failures in a row.
    failures: AtomicU32,
    /// Number of times in a row that the breaker was opened.
    trips: AtomicU32,
    /// Number of times that the breaker was opened in total.
    opened: AtomicU64,
    /// Nanoseconds of the [`Moment`] at which the breaker was last opened.
    opened_at: AtomicU64,
    /// Nanoseconds of the [`Moment`] until which the target is avoided; 0 while the breaker is closed.
    avoided_until: AtomicU64,
    /// Nanoseconds of the [`Moment`] until which one probe has the target to itself; 0 without a probe.
    probed_until: AtomicU64,
    /// Nanoseconds of the [`Moment`] of the first failure within the window; `good` and `bad` count the requests that
    /// ended since.
    window: AtomicU64,
    good: AtomicU32,
    bad: AtomicU32,
    /// Nanoseconds of the [`Moment`] after the last success; 0 before there was one.
    served_at: AtomicU64,
    /// Failures retracted since the last success.
    retracted: AtomicU32,
    /// Nanoseconds of the [`Moment`] after the last log report; 0 before the first.
    reported_at: AtomicU64,
    /// True if the last log report says that the breaker is open.
    reported: AtomicBool,
}

/// Requests that a breaker lets through, from all to the fewest.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// All requests.
    #[default]
    Closed,
    /// One probe at a time.
    HalfOpen,
    /// Only requests that have no other target.
    Open,
}

impl BreakerState {
    /// Label value for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Kind of failure.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be established.
    Unreachable,
    /// The connection ended before an answer began, or none began in time.
    Lost,
    /// The target answered with an error, or its answer broke off.
    Error,
    /// The target refused and asked for a pause of this length.
    Refused(Duration),
    /// The target has no room. It works, so that this is neither a failure nor a success. It may
    /// ask for a pause.
    Full(Option<Duration>),
    /// All requests fail there for now: the account is refused, or the model is not ready.
    Away,
}

impl Failure {
    /// Classifies a fault; `None` where the target is not to blame. A 404, 405 or 501 says something about the request, or
    /// about an endpoint, unless it says that the model is missing.
    ///
    /// A pause shorter than the breaker's own one does not replace that: clocks differ, and some providers send 0.
    pub fn of(fault: &Fault) -> Option<Self> {
        let status = fault.status;
        let is_about_request =
            matches!(status.as_u16(), 404 | 405 | 501) && !matches!(fault.kind, MODEL_MISSING | NOT_READY);
        match fault.retry_after.filter(|pause| *pause >= FIRST_PAUSE) {
            _ if fault.blame != Blame::Upstream || is_about_request || fault.kind == UNSUPPORTED => None,
            _ if fault.kind == FULL => Some(Self::Full(fault.retry_after)),
            Some(pause) => Some(Self::Refused(pause)),
            None if matches!(fault.kind, ACCOUNT | NOT_READY) => Some(Self::Away),
            None if fault.kind == UNREACHABLE => Some(Self::Unreachable),
            None if fault.kind == LOST => Some(Self::Lost),
            None if fault.kind == MODEL_MISSING => Some(Self::Error),
            None => (status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS).then_some(Self::Error),
        }
    }
}

impl Breaker {
    /// Counts a proper answer to a request that was sent at `since`. Returns true if that closed the breaker.
    pub fn succeeded(&self, since: Moment) -> bool {
        self.served_at.fetch_max(since.nanos().saturating_add(1), Relaxed);
        if self.window.load(Relaxed) != 0 {
            self.good.fetch_add(1, Relaxed);
        }
        for count in [&self.failures, &self.retracted] {
            if count.load(Relaxed) != 0 {
                count.store(0, Relaxed);
            }
        }
        // A request sent before the breaker opened does not show that the target has recovered.
        if self.avoided_until.load(Relaxed) != 0 && since.nanos() >= self.opened_at.load(Relaxed) {
            self.trips.store(0, Relaxed);
            self.close();
            return true;
        }
        false
    }

    fn close(&self) {
        self.avoided_until.store(0, Relaxed);
        self.probed_until.store(0, Relaxed);
        self.window.store(0, Relaxed);
    }

    /// Counts a failed request. Returns true if that opened a closed breaker.
    pub fn failed(&self, now: Moment, failure: Failure) -> bool {
        let looked_at = self.avoided_until.load(Relaxed) != 0;
        if matches!(failure, Failure::Full(_)) {
            // A probe that met a full target has shown nothing: the next request probes it.
            self.probed_until.store(0, Relaxed);
            return false;
        }
        if let Failure::Refused(pause) = failure {
            self.avoid(now, pause.min(LONGEST_COOLDOWN));
            return !looked_at;
        }
        if now.nanos() < self.avoided_until.load(Relaxed) {
            return false;
        }
        let in_a_row = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        let trips = looked_at
            || matches!(failure, Failure::Unreachable | Failure::Away)
            || in_a_row >= TOLERATED
            || self.most_fail(now);
        if trips {
            let before = self.trips.fetch_add(1, Relaxed).min(10);
            self.avoid(now, FIRST_PAUSE.saturating_mul(1 << before).min(LONGEST_PAUSE));
        }
        trips && !looked_at
    }

    /// Retracts a failure counted at `at`: the request caused it, not the target. If that failure opened the breaker,
    /// the breaker is closed again.
    pub fn retract(&self, at: Moment) {
        self.retracted.fetch_add(1, Relaxed);
        let less = |count: u32| count.checked_sub(1);
        let _ = self.failures.fetch_update(Relaxed, Relaxed, less);
        let _ = self.bad.fetch_update(Relaxed, Relaxed, less);
        if self.avoided_until.load(Relaxed) != 0 && self.opened_at.load(Relaxed) >= at.nanos() {
            let _ = self.trips.fetch_update(Relaxed, Relaxed, less);
            self.close();
        }
    }

    /// True if the target answered a request that was sent within the last minute, and few failures were retracted
    /// since.
    pub fn is_serving(&self, now: Moment) -> bool {
        let served_at = self.served_at.load(Relaxed);
        let is_recent = served_at != 0 && now.since(Moment::from_nanos(served_at)) < SERVING;
        is_recent && self.retracted.load(Relaxed) < EXCUSED
    }

    /// True if the target answered a request properly that was sent after `since`.
    pub fn has_served_after(&self, since: Moment) -> bool {
        self.served_at.load(Relaxed) > since.nanos().saturating_add(1)
    }

    /// True if an opening may be logged now. A breaker that keeps opening and closing is reported at most twice a
    /// minute.
    pub fn reports_opening(&self, now: Moment) -> bool {
        let before = self.reported_at.load(Relaxed);
        let due = before == 0 || now.since(Moment::from_nanos(before)) >= REPORTS;
        let reports = due && self.reported_at.compare_exchange(before, now.nanos().max(1), Relaxed, Relaxed).is_ok();
        self.reported.fetch_or(reports, Relaxed);
        reports
    }

    /// True if a closing may be logged now, which is so if the opening was.
    pub fn reports_closing(&self) -> bool {
        self.reported.swap(false, Relaxed)
    }

    fn avoid(&self, now: Moment, pause: Duration) {
        self.opened.fetch_add(1, Relaxed);
        self.opened_at.store(now.nanos(), Relaxed);
        self.avoided_until.fetch_max(now.plus(pause).nanos(), Relaxed);
        self.probed_until.store(0, Relaxed);
    }

    /// Counts a failure. Returns true if failures are many and at least half of the requests that ended within the
    /// window.
    fn most_fail(&self, now: Moment) -> bool {
        let began = self.window.load(Relaxed);
        if began == 0 || now.since(Moment::from_nanos(began)) > WINDOW {
            self.good.store(0, Relaxed);
            self.bad.store(1, Relaxed);
            self.window.store(now.nanos().max(1), Relaxed);
            return false;
        }
        let bad = self.bad.fetch_add(1, Relaxed) + 1;
        bad >= MANY && bad >= self.good.load(Relaxed)
    }

    /// True if other targets should be tried first.
    pub fn is_open(&self, now: Moment) -> bool {
        now.nanos() < self.avoided_until.load(Relaxed).max(self.probed_until.load(Relaxed))
    }

    /// Admits a request that is about to be sent. Returns false if another request has just started to probe the
    /// target, so that this one should try another target first.
    pub fn enter(&self, now: Moment) -> bool {
        if self.state(now) != BreakerState::HalfOpen {
            return true;
        }
        let probed = self.probed_until.load(Relaxed);
        if now.nanos() < probed {
            return true;
        }
        let until = now.plus(PROBE).nanos();
        self.probed_until.compare_exchange(probed, until, AcqRel, Relaxed).is_ok()
    }

    /// Current state.
    pub fn state(&self, now: Moment) -> BreakerState {
        match self.avoided_until.load(Relaxed) {
            0 => BreakerState::Closed,
            until if now.nanos() < until => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        }
    }

    /// Times it was opened in total.
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Failure::{Away, Error, Full, Lost, Refused, Unreachable};

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn an_unreachable_target_is_avoided_at_once_and_probed_later() {
        let breaker = Breaker::default();
        breaker.failed(at(0), Unreachable);
        assert!(breaker.is_open(at(0)));
        assert!(!breaker.is_open(at(1)));
        breaker.failed(at(1), Unreachable);
        assert!(breaker.is_open(at(2)) && !breaker.is_open(at(3)));
        for second in 3..100 {
            breaker.failed(at(second), Unreachable);
        }
        assert!(!breaker.is_open(at(110)));
    }

    #[test]
    fn concurrent_failures_count_once() {
        let breaker = Breaker::default();
        (0..50).for_each(|_| _ = breaker.failed(at(0), Unreachable));
        assert!(breaker.is_open(at(0)) && !breaker.is_open(at(1)));
        (0..50).for_each(|_| _ = breaker.failed(at(1), Unreachable));
        assert!(breaker.is_open(at(2)) && !breaker.is_open(at(3)));
        assert_eq!(breaker.opened(), 2);
    }

    #[test]
    fn opens_after_three_errors_in_a_row() {
        let breaker = Breaker::default();
        for second in 0..10 {
            breaker.failed(at(40 * second), Error);
            breaker.failed(at(40 * second), Error);
            breaker.succeeded(at(40 * second));
        }
        assert!(!breaker.is_open(at(400)));
        (0..3).for_each(|_| _ = breaker.failed(at(400), Error));
        assert!(breaker.is_open(at(400)));
        breaker.succeeded(at(399));
        assert!(breaker.is_open(at(400)), "what was sent before says nothing");
        breaker.succeeded(at(400));
        assert!(!breaker.is_open(at(400)));
    }

    #[test]
    fn opens_when_half_of_the_requests_fail() {
        let breaker = Breaker::default();
        for second in 0..5 {
            assert!(!breaker.is_open(at(second)));
            breaker.failed(at(second), Error);
            breaker.succeeded(at(second));
        }
        assert!(!breaker.is_open(at(4)), "cleared by its own success");
        let breaker = Breaker::default();
        let failing = |second: u64| {
            (0..second % 3).for_each(|_| _ = breaker.succeeded(at(second)));
            breaker.failed(at(second), Error);
            breaker.is_open(at(second))
        };
        assert!((0..12).any(failing));
    }

    #[test]
    fn honours_the_requested_pause() {
        let breaker = Breaker::default();
        breaker.failed(at(0), Refused(Duration::from_secs(20)));
        assert!(breaker.is_open(at(19)) && !breaker.is_open(at(20)));
        breaker.failed(at(20), Refused(Duration::from_hours(24)));
        assert!(!breaker.is_open(at(321)), "not for a day");
    }

    #[test]
    fn a_full_target_is_neither_failing_nor_working() {
        let breaker = Breaker::default();
        (0..2).for_each(|_| _ = breaker.failed(at(0), Error));
        (0..50).for_each(|_| assert!(!breaker.failed(at(0), Full(None))));
        assert_eq!(breaker.state(at(0)), BreakerState::Closed);
        assert!(breaker.failed(at(0), Error), "the third failure in a row");
        assert!(breaker.enter(at(1)) && breaker.is_open(at(1)));
        breaker.failed(at(1), Full(None));
        assert!(!breaker.is_open(at(1)) && breaker.enter(at(1)), "the next request probes it");
        assert_eq!(breaker.state(at(1)), BreakerState::HalfOpen);
    }

    #[test]
    fn a_target_that_is_away_is_asked_again_within_seconds() {
        let breaker = Breaker::default();
        assert!(breaker.failed(at(0), Away) && breaker.is_open(at(0)));
        assert!(breaker.enter(at(1)) && !breaker.failed(at(1), Away));
        assert!(breaker.is_open(at(2)) && !breaker.is_open(at(3)));
    }

    #[test]
    fn a_pause_of_nothing_leaves_the_breaker_its_own() {
        let limited = |pause| {
            let fault = Fault::upstream(StatusCode::TOO_MANY_REQUESTS, "upstream_rate_limited", "");
            Failure::of(&Fault { retry_after: Some(pause), ..fault })
        };
        assert_eq!(limited(Duration::ZERO), Some(Error));
        assert_eq!(limited(Duration::from_millis(5)), Some(Error));
        assert_eq!(limited(Duration::from_secs(2)), Some(Refused(Duration::from_secs(2))));
    }

    #[test]
    fn one_request_probes_an_open_breaker() {
        let breaker = Breaker::default();
        assert!(breaker.enter(at(0)) && breaker.enter(at(0)));
        breaker.failed(at(0), Unreachable);
        assert!(breaker.enter(at(0)), "where nobody else is left");
        assert_eq!(breaker.state(at(1)), BreakerState::HalfOpen);
        let entered = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| breaker.enter(at(1)))).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
        });
        assert!(entered >= 1 && breaker.is_open(at(1)), "the others look elsewhere first");
        assert!(
            breaker.is_open(at(15)) && !breaker.is_open(at(16)),
            "a probe that never ends holds nobody off for ever"
        );
        breaker.failed(at(2), Error);
        assert!(breaker.is_open(at(3)) && !breaker.is_open(at(4)), "it failed: twice as long");
        assert!(breaker.enter(at(4)));
        breaker.succeeded(at(4));
        assert_eq!(breaker.state(at(4)), BreakerState::Closed);
    }

    #[test]
    fn openings_and_closings_are_logged_once() {
        let breaker = Breaker::default();
        assert!(!breaker.failed(at(0), Lost) && !breaker.failed(at(0), Lost));
        assert!(breaker.failed(at(0), Lost) && !breaker.failed(at(0), Lost));
        assert!(!breaker.failed(at(1), Lost), "it was open before");
        assert!(!breaker.succeeded(at(0)) && breaker.succeeded(at(3)) && !breaker.succeeded(at(4)));
        assert!(!breaker.reports_closing());
        assert!(breaker.reports_opening(at(4)) && !breaker.reports_opening(at(33)));
        assert!(breaker.reports_closing() && !breaker.reports_closing() && breaker.reports_opening(at(34)));
    }

    #[test]
    fn failures_caused_by_the_request_are_retracted() {
        let breaker = Breaker::default();
        assert!(!breaker.is_serving(at(0)));
        breaker.succeeded(at(0));
        assert!(breaker.is_serving(at(59)) && !breaker.is_serving(at(61)));
        for second in 1..100 {
            breaker.failed(at(second), Error);
            breaker.retract(at(second));
            assert!(!breaker.is_open(at(second)), "{second}");
        }
        breaker.succeeded(at(99));
        (0..4).for_each(|_| breaker.retract(at(99)));
        assert!(breaker.is_serving(at(100)));
        breaker.retract(at(99));
        assert!(!breaker.is_serving(at(100)), "an outage may look the same everywhere");
        (0..3).for_each(|_| _ = breaker.failed(at(100), Error));
        assert!(breaker.is_open(at(100)));
        breaker.retract(at(100));
        assert!(!breaker.is_open(at(100)), "opened by what was taken back");
        breaker.failed(at(101), Unreachable);
        breaker.retract(at(100));
        breaker.failed(at(102), Unreachable);
        breaker.retract(at(101));
        assert!(!breaker.is_open(at(102)));
    }
}
