//! Endpoints that a backend refused to real requests. Other backends are tried first while it is likely to refuse them again.
//!
//! One answer shows nothing: it may be about what its caller sent. It takes a probe that found the endpoint missing, or
//! several requests in a row that were answered as by a server without it.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use signalbox_types::{Endpoint, Moment};

/// Answers in a row, each to another request, that show without a probe that an endpoint is missing.
const SHOWN_BY: u32 = 3;
/// First and longest time for which a backend is left out; it doubles each time. As for its breaker, it is short: the
/// request that tries it again loses no more than an attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Evidence that a refusal gives of the endpoint.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum RefusalEvidence {
    /// Nothing: the answer is an error about the request.
    None,
    /// The answer is as of a server without the endpoint.
    Bare,
    /// A probe found the endpoint missing.
    Probed,
}

/// Refusals by endpoint, indexed as [`Endpoint::ALL`].
#[derive(Debug, Default)]
pub(super) struct RefusedEndpoints([Refusals; Endpoint::ALL.len()]);

#[derive(Debug, Default)]
struct Refusals {
    /// Bare answers since the last proper one.
    in_a_row: AtomicU32,
    /// Times in a row that the backend was left out.
    times: AtomicU32,
    /// Nanoseconds of the [`Moment`] until which the backend is left out.
    until: AtomicU64,
    /// Nanoseconds of the [`Moment`] of the last refusal that showed it.
    shown_at: AtomicU64,
    /// Nanoseconds of the [`Moment`] of the first one in a row.
    since: AtomicU64,
}

/// An endpoint for which a backend is left out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Time since the first refusal that showed it.
    pub lasts: Duration,
    /// Time until a request tries it again.
    pub again_in: Duration,
}

impl RefusedEndpoints {
    /// Counts a refusal. Returns the time for which the backend is left out, and true if it was not before.
    pub(super) fn refused(
        &self,
        endpoint: Endpoint,
        evidence: RefusalEvidence,
        now: Moment,
    ) -> Option<(Duration, bool)> {
        let of = &self.0[endpoint as usize];
        let is_shown = match evidence {
            RefusalEvidence::None => false,
            RefusalEvidence::Bare => of.in_a_row.fetch_add(1, Relaxed).saturating_add(1) >= SHOWN_BY,
            RefusalEvidence::Probed => true,
        };
        // Requests that were sent before it was left out say nothing new.
        if !is_shown || now.nanos() < of.until.load(Relaxed) {
            return None;
        }
        let times = of.times.fetch_add(1, Relaxed);
        if times == 0 {
            of.since.store(now.nanos(), Relaxed);
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(5)).min(LONGEST_PAUSE);
        of.shown_at.store(now.nanos(), Relaxed);
        of.until.store(now.plus(pause).nanos(), Relaxed);
        Some((pause, times == 0))
    }

    /// Counts a proper answer. Returns true if the backend was left out before.
    pub(super) fn answered(&self, endpoint: Endpoint) -> bool {
        let of = &self.0[endpoint as usize];
        // Memory that is only read stays in all processors' caches.
        if of.in_a_row.load(Relaxed) != 0 {
            of.in_a_row.store(0, Relaxed);
        }
        if of.times.load(Relaxed) == 0 {
            return false;
        }
        of.until.store(0, Relaxed);
        of.times.swap(0, Relaxed) != 0
    }

    /// An endpoint for which other backends should be tried first, and the time of the refusal that showed it.
    pub(super) fn left_out(&self, endpoint: Endpoint, now: Moment) -> Option<(LeftOut, Moment)> {
        let Refusals { until, shown_at, since, .. } = &self.0[endpoint as usize];
        let [until, shown_at, since] = [until, shown_at, since].map(|it| Moment::from_nanos(it.load(Relaxed)));
        let left = LeftOut { endpoint, lasts: now.since(since), again_in: until.since(now) };
        (now < until).then_some((left, shown_at))
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint::Chat, *};
    use RefusalEvidence::{Bare, None, Probed};

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn errors_about_requests_leave_nothing_out() {
        let refused = RefusedEndpoints::default();
        for second in 0..100 {
            assert_eq!(refused.refused(Chat, None, at(second)), Option::None);
        }
        assert_eq!(refused.left_out(Chat, at(100)), Option::None);
    }

    #[test]
    fn bare_answers_count_in_a_row() {
        let refused = RefusedEndpoints::default();
        for second in 0..20 {
            assert_eq!(refused.refused(Chat, Bare, at(second)), Option::None);
            assert_eq!(refused.refused(Chat, Bare, at(second)), Option::None);
            assert!(!refused.answered(Chat));
        }
        refused.refused(Chat, Bare, at(20));
        refused.refused(Chat, Bare, at(20));
        assert_eq!(refused.refused(Chat, Bare, at(21)), Some((Duration::from_secs(2), true)));
        let second = Duration::from_secs(1);
        let left = LeftOut { endpoint: Chat, lasts: second, again_in: second };
        assert_eq!(refused.left_out(Chat, at(22)), Some((left, at(21))));
        assert_eq!(refused.left_out(Chat, at(23)), Option::None);
        assert_eq!(refused.left_out(Endpoint::Embeddings, at(22)), Option::None);
    }

    #[test]
    fn the_pause_grows_to_ten_seconds_and_ends_with_an_answer() {
        let refused = RefusedEndpoints::default();
        assert_eq!(refused.refused(Chat, Probed, at(0)), Some((Duration::from_secs(2), true)));
        assert_eq!(refused.refused(Chat, Probed, at(1)), Option::None, "sent before it was left out");
        let mut now = at(2);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let (pause, is_new) = refused.refused(Chat, Probed, now).unwrap();
            assert!(!is_new);
            now = now.plus(pause);
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [4, 8, 10, 10, 10, 10]);
        assert!(refused.answered(Chat) && !refused.answered(Chat));
        assert_eq!(refused.refused(Chat, Probed, now), Some((Duration::from_secs(2), true)));
    }
}
