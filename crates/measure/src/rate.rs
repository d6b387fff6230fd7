//! Events, or tokens, per second over the recent past.

use parking_lot::Mutex;

use signalbox_types::Moment;

const SECOND: u64 = 1_000_000_000;
/// One bucket per second of the longest span, and one for the current second.
const BUCKETS: usize = 61;

/// The window of a rate.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum RateSpan {
    /// The last ten seconds.
    TenSeconds,
    /// The last minute.
    Minute,
}

impl RateSpan {
    const fn seconds(self) -> u64 {
        match self {
            Self::TenSeconds => 10,
            Self::Minute => 60,
        }
    }
}

/// Events per second over the last ten seconds or the last minute, from a ring of one-second buckets (1 KB).
#[derive(Debug)]
pub struct Rate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    started: Option<Moment>,
    buckets: [Bucket; BUCKETS],
}

#[derive(Copy, Clone, Debug, Default)]
struct Bucket {
    second: u64,
    count: u64,
}

impl Rate {
    /// A rate without events.
    pub fn new() -> Self {
        Self { state: Mutex::new(State { started: None, buckets: [Bucket::default(); BUCKETS] }) }
    }

    /// Counts `count` events (or tokens) at `now`.
    pub fn record(&self, count: u64, now: Moment) {
        let second = now.nanos() / SECOND;
        let mut state = self.state.lock();
        state.started.get_or_insert(now);
        let bucket = &mut state.buckets[(second % BUCKETS as u64) as usize];
        if bucket.second < second {
            *bucket = Bucket { second, count: 0 };
        }
        if bucket.second == second {
            bucket.count = bucket.count.saturating_add(count);
        }
    }

    /// Events in the whole seconds of `span` and in the elapsed part of the current one.
    pub fn total(&self, span: RateSpan, now: Moment) -> u64 {
        self.state.lock().total(span, now)
    }

    /// Events per second over the whole seconds of `span` and the elapsed part of the current one. A rate younger than
    /// the span is divided by its age (at least one second), so that it is right from the start.
    pub fn per_second(&self, span: RateSpan, now: Moment) -> f64 {
        let state = self.state.lock();
        let Some(started) = state.started else { return 0.0 };
        let count = state.total(span, now);
        let oldest = (now.nanos() / SECOND).saturating_sub(span.seconds());
        let covered = now.since(Moment::from_nanos(oldest * SECOND)).min(now.since(started)).as_secs_f64();
        count as f64 / covered.max(1.0)
    }
}

impl State {
    fn total(&self, span: RateSpan, now: Moment) -> u64 {
        let second = now.nanos() / SECOND;
        let oldest = second.saturating_sub(span.seconds());
        let counted = |bucket: &&Bucket| bucket.second >= oldest && bucket.second <= second;
        self.buckets.iter().filter(counted).map(|bucket| bucket.count).sum()
    }
}

impl Default for Rate {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn nothing_seen_is_a_rate_of_zero() {
        assert!(Rate::new().per_second(RateSpan::Minute, at(5_000)).abs() < 1e-12);
    }

    #[test]
    fn it_forgets_after_its_span() {
        let rate = Rate::new();
        rate.record(100, at(500));
        assert!((rate.per_second(RateSpan::TenSeconds, at(600)) - 100.0).abs() < 1e-9, "its age is under a second");
        assert!((rate.per_second(RateSpan::TenSeconds, at(5_500)) - 20.0).abs() < 1e-9);
        assert!(rate.per_second(RateSpan::TenSeconds, at(11_000)).abs() < 1e-12);
        assert!(rate.per_second(RateSpan::Minute, at(11_000)) > 9.0);
        assert!(rate.per_second(RateSpan::Minute, at(61_000)).abs() < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn a_steady_stream_reads_as_its_rate(every in 10..500_u64, start in 0..1_000_000_u64) {
            let rate = Rate::new();
            let mut now = start;
            while now < start + 100_000 {
                rate.record(1, at(now));
                now += every;
            }
            let want = 1000.0 / every as f64;
            for (span, seconds) in [(RateSpan::TenSeconds, 10.0), (RateSpan::Minute, 60.0)] {
                let got = rate.per_second(span, at(now));
                prop_assert!((got - want).abs() <= 1.0 / seconds + 1e-9, "{got} for {want}");
            }
        }
    }
}
