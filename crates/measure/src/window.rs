//! Quantiles, counts and means of durations over the last minute, five minutes and hour.
//!
//! The value axis is divided into the buckets of [`Sketch`], the time axis into slots: each span is a ring of [`SLOTS`]
//! slots that are reused when the ring comes round again, so a summary covers between 11/12 of its span and all of it.
//!
//! A slot stores only the buckets between the smallest and the largest value it has recorded. Latencies of one backend
//! spread over about two decades, which is 0.5 KB a slot and 17 KB a window; the bound is 552 buckets a slot, 80 KB a
//! window.

use std::time::Duration;

use parking_lot::Mutex;

use super::sketch::{Sketch, Summary, bucket_of, clamped};
use signalbox_types::Moment;

/// Slots in the ring of each span.
const SLOTS: usize = 12;

/// The window of a summary.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    /// The last minute.
    Minute,
    /// The last five minutes.
    FiveMinutes,
    /// The last hour.
    Hour,
}

impl Span {
    /// Every span, shortest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::FiveMinutes, Self::Hour];

    /// The name used in metric labels: `1m`, `5m`, `1h`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Minute => "1m",
            Self::FiveMinutes => "5m",
            Self::Hour => "1h",
        }
    }

    /// The length of one slot of the span.
    pub const fn slot(self) -> Duration {
        Duration::from_secs(self.length().as_secs() / SLOTS as u64)
    }

    /// The length of the span.
    pub const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Minute => 60,
            Self::FiveMinutes => 300,
            Self::Hour => 3600,
        })
    }
}

/// Recent durations, in seconds from 1 µs to 1 h; values outside count as the nearer end.
#[derive(Debug)]
pub struct Window {
    rings: Mutex<[Ring; Span::ALL.len()]>,
}

impl Window {
    /// A window without samples.
    pub fn new() -> Self {
        Self { rings: Mutex::new(Span::ALL.map(Ring::new)) }
    }

    /// Adds a duration of `seconds` that was measured at `now`.
    pub fn record(&self, seconds: f64, now: Moment) {
        if !seconds.is_finite() || seconds < 0.0 {
            return;
        }
        let seconds = clamped(seconds);
        let bucket = bucket_of(seconds);
        for ring in self.rings.lock().iter_mut() {
            ring.add(bucket, seconds, now);
        }
    }

    /// Adds the samples of one slot of the `span` to `sketch`: of the stretch of time with this number, as
    /// [`Span::slot`] counts them. A slot can be read until 12 later ones have begun.
    pub fn add_slot(&self, span: Span, number: u64, sketch: &mut Sketch) {
        let slots = &self.rings.lock()[span as usize].slots;
        slots.iter().filter(|slot| slot.epoch == number).for_each(|slot| slot.add_to(sketch));
    }

    /// The summary of the `span` up to `now`; `None` if it has no samples.
    pub fn summary(&self, span: Span, now: Moment) -> Option<Summary> {
        let mut merged = Sketch::new();
        self.rings.lock()[span as usize].merge_into(&mut merged, now);
        merged.summary()
    }
}

/// The summary of several windows together over the `span` up to `now`; `None` if they have no samples.
pub fn merged<'a>(windows: impl IntoIterator<Item = &'a Window>, span: Span, now: Moment) -> Option<Summary> {
    let mut merged = Sketch::new();
    for window in windows {
        window.rings.lock()[span as usize].merge_into(&mut merged, now);
    }
    merged.summary()
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

/// The slots of one span, each used for every [`SLOTS`]th stretch of `width` nanoseconds.
#[derive(Debug)]
struct Ring {
    width: u64,
    slots: [Slot; SLOTS],
}

/// One stretch of time. `counts[0]` belongs to bucket `first`.
#[derive(Debug, Default)]
struct Slot {
    epoch: u64,
    count: u64,
    sum: f64,
    first: usize,
    counts: Vec<u32>,
}

// === impl Ring ===

impl Ring {
    fn new(span: Span) -> Self {
        Self { width: span.slot().as_secs() * 1_000_000_000, slots: std::array::from_fn(|_| Slot::default()) }
    }

    fn add(&mut self, bucket: usize, seconds: f64, now: Moment) {
        let epoch = now.nanos() / self.width;
        let slot = &mut self.slots[(epoch % SLOTS as u64) as usize];
        if slot.epoch < epoch {
            slot.restart(epoch);
        }
        // A newer slot means that this sample is late by a whole span.
        if slot.epoch == epoch {
            slot.add(bucket, seconds);
        }
    }

    fn merge_into(&self, merged: &mut Sketch, now: Moment) {
        let newest = now.nanos() / self.width;
        let oldest = newest.saturating_sub(SLOTS as u64 - 1);
        // A slot newer than `now` was written by a thread with a slightly later clock reading: it counts.
        for slot in self.slots.iter().filter(|slot| slot.epoch >= oldest) {
            slot.add_to(merged);
        }
    }
}

// === impl Slot ===

impl Slot {
    fn restart(&mut self, epoch: u64) {
        self.counts.clear();
        (self.epoch, self.count, self.sum, self.first) = (epoch, 0, 0.0, 0);
    }

    fn add_to(&self, sketch: &mut Sketch) {
        sketch.add(self.count, self.sum, self.first, &self.counts);
    }

    fn add(&mut self, bucket: usize, seconds: f64) {
        self.count += 1;
        self.sum += seconds;
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let place = bucket - self.first;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::{
        super::sketch::{ACCURACY, BUCKETS, CEILING, FLOOR, value_of},
        *,
    };

    fn at(seconds: f64) -> Moment {
        Moment::from_nanos((seconds * 1e9) as u64)
    }

    fn exact(sorted: &[f64], q: f64) -> f64 {
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        sorted[rank - 1]
    }

    #[test]
    fn the_axis_reaches_from_floor_to_ceiling() {
        assert_eq!(bucket_of(FLOOR), 0);
        assert_eq!(bucket_of(CEILING), BUCKETS - 1);
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(value_of(bucket).max(FLOOR)), bucket, "its own value falls into each bucket");
        }
    }

    #[test]
    fn empty_windows_have_no_summary() {
        let window = Window::new();
        assert_eq!(window.summary(Span::Hour, at(10.0)), None);
        for broken in [f64::NAN, f64::INFINITY, -1.0] {
            window.record(broken, at(1.0));
        }
        assert_eq!(window.summary(Span::Hour, at(10.0)), None);
    }

    #[test]
    fn each_span_forgets_on_its_own() {
        let window = Window::new();
        window.record(1.0, at(1.0));
        let seen = |now: f64| Span::ALL.map(|span| window.summary(span, at(now)).map_or(0, |s| s.count));
        assert_eq!(seen(2.0), [1, 1, 1]);
        assert_eq!(seen(54.0), [1, 1, 1]);
        assert_eq!(seen(60.0), [0, 1, 1]);
        assert_eq!(seen(299.0), [0, 1, 1]);
        assert_eq!(seen(300.0), [0, 0, 1]);
        assert_eq!(seen(3600.0), [0, 0, 0]);
    }

    #[test]
    fn a_slot_is_emptied_before_it_is_used_again() {
        let window = Window::new();
        window.record(100.0, at(1.0));
        window.record(0.001, at(61.0));
        let summary = window.summary(Span::Minute, at(61.0)).unwrap();
        assert_eq!(summary.count, 1);
        assert!((summary.p99 / 0.001 - 1.0).abs() <= ACCURACY);
        window.record(5.0, at(1.0));
        assert_eq!(window.summary(Span::Minute, at(61.0)).unwrap().count, 1, "a span late is too late");
    }

    #[test]
    fn values_outside_the_range_count_as_its_ends() {
        let window = Window::new();
        window.record(0.0, at(0.0));
        window.record(1e9, at(0.0));
        let summary = window.summary(Span::Minute, at(0.0)).unwrap();
        assert_eq!(summary.count, 2);
        assert!((summary.p50 / FLOOR - 1.0).abs() <= ACCURACY + 1e-9);
        assert!((summary.p99 / CEILING - 1.0).abs() <= ACCURACY + 1e-9);
    }

    #[test]
    fn threads_may_share_it() {
        let window = Window::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|n| window.record(f64::from(n) / 1e3, at(1.0))));
            }
        });
        assert_eq!(window.summary(Span::Minute, at(1.0)).unwrap().count, 4000);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn quantiles_are_within_the_bound(exponents in prop::collection::vec(-6.0..3.55_f64, 1..400)) {
            let window = Window::new();
            let mut values: Vec<f64> = exponents.iter().map(|e| 10_f64.powf(*e)).collect();
            for (n, value) in values.iter().enumerate() {
                window.record(*value, at(n as f64 / 10.0));
            }
            let summary = window.summary(Span::FiveMinutes, at(values.len() as f64 / 10.0)).unwrap();
            prop_assert_eq!(summary.count, values.len() as u64);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            prop_assert!((summary.mean / mean - 1.0).abs() < 1e-9);
            values.sort_by(f64::total_cmp);
            for (q, got) in [(0.5, summary.p50), (0.9, summary.p90), (0.95, summary.p95), (0.99, summary.p99)] {
                let want = exact(&values, q);
                prop_assert!((got / want - 1.0).abs() <= ACCURACY + 1e-9, "p{q}: {got} for {want}");
            }
        }

        #[test]
        fn counts_are_those_of_the_slots_in_reach(times in prop::collection::vec(0.0..8000.0_f64, 0..200), now in 0.0..8000.0_f64) {
            let window = Window::new();
            let mut past: Vec<f64> = times.into_iter().filter(|time| *time <= now).collect();
            past.sort_by(f64::total_cmp);
            for time in &past {
                window.record(1.0, at(*time));
            }
            for span in Span::ALL {
                let width = span.length().as_secs_f64() / SLOTS as f64;
                let newest = (now / width).floor();
                let want = past.iter().filter(|time| (**time / width).floor() + SLOTS as f64 > newest).count();
                let got = window.summary(span, at(now)).map_or(0, |summary| summary.count);
                prop_assert_eq!(got, want as u64);
            }
        }
    }
}
