//! Metrics of one pool: its queue, and its placement decisions.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;

use super::{
    backend::{Dollars, count},
    distribution::Distribution,
    series::Series,
    signs::{Stalls, Tail},
    work::{Use, Work},
};
use signalbox_measure::{Rate, RateSpan, Span, Window};
use signalbox_types::{Gaps, Moment};

/// Buckets of waits in a queue, in seconds: 1 ms to 10 min.
const WAIT: [f64; 16] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];
/// Buckets of decisions, in seconds: 1 µs to 10 ms.
const DECISION: [f64; 12] =
    [0.000_001, 0.000_002_5, 0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.01];

/// Reason why a request was refused before dispatch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Shed {
    /// It would probably have missed its objective.
    Slo,
    /// The queue was full.
    Full,
    /// Its wait timed out.
    Timeout,
}

impl Shed {
    /// Label for metrics and the journal.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Slo => "slo_unattainable",
            Self::Full => "queue_full",
            Self::Timeout => "queue_timeout",
        }
    }
}

/// Metrics of one pool.
#[derive(Debug)]
pub struct PoolMetrics {
    pub(super) waits: Distribution,
    pub(super) admitted: Counter,
    pub(super) shed: Series<&'static str, Counter>,
    pub(super) spilled: Counter,
    pub(super) further: Series<&'static str, Counter>,
    pub(super) resumes: Series<&'static str, Counter>,
    pub(super) decisions: Distribution,
    /// Cost of the pool's engines by the hour.
    pub(super) gpu_cost: Dollars,
    pub(super) work: Work,
    pub(super) stalled: Counter,
    /// Requests that left the queue for an engine.
    rate: Rate,
    /// Nanoseconds of the [`Moment`] of the last request that was meant for the pool; 0 before any.
    wanted: AtomicU64,
    recent: Recent,
}

/// Recent latencies, for conditions of routes.
#[derive(Debug)]
struct Recent {
    ttft: Window,
    /// Streams that ended, and the largest gaps of those that stalled.
    streams: Rate,
    stalls: Window,
    /// Bits of the last computed 95th percentile, and nanoseconds of the [`Moment`] of its computation: it takes too
    /// long for every request.
    p95: AtomicU64,
    p95_at: AtomicU64,
}

/// Time for which a computed percentile is reused.
const FRESH: Duration = Duration::from_millis(250);

impl PoolMetrics {
    pub(super) fn new() -> Self {
        Self {
            waits: Distribution::new(WAIT),
            admitted: Counter::default(),
            shed: Series::new(3),
            spilled: Counter::default(),
            further: Series::new(4),
            resumes: Series::new(3),
            decisions: Distribution::new(DECISION),
            gpu_cost: Dollars::default(),
            work: Work::new(),
            stalled: Counter::default(),
            rate: Rate::new(),
            wanted: AtomicU64::new(0),
            recent: Recent {
                ttft: Window::new(),
                streams: Rate::new(),
                stalls: Window::new(),
                p95: AtomicU64::new(0),
                p95_at: AtomicU64::new(0),
            },
        }
    }

    /// True once a request was to be placed in the pool.
    pub(super) fn is_used(&self) -> bool {
        self.decisions.is_used() || self.waits.is_used() || !self.shed.read().is_empty()
    }

    /// Records that a request was meant for the pool, whatever became of it.
    pub fn wanted(&self, now: Moment) {
        self.wanted.store(now.nanos().max(1), Relaxed);
    }

    /// True if a request was meant for the pool within `time`.
    pub fn was_wanted(&self, time: Duration, now: Moment) -> bool {
        let at = self.wanted.load(Relaxed);
        at != 0 && now.since(Moment::from_nanos(at)) <= time
    }

    /// Records that a request's first token was handed to the HTTP layer for its client, `seconds` after the request.
    pub fn ttft(&self, seconds: f64, now: Moment) {
        self.recent.ttft.record(seconds, now);
    }

    /// Records the gaps of a streamed answer that ended.
    pub fn gaps(&self, gaps: Gaps, now: Moment) {
        self.recent.streams.record(1, now);
        if gaps.stalled() {
            self.stalled.inc();
            self.recent.stalls.record(gaps.largest_ms / 1e3, now);
        }
    }

    /// Streams of the last minute that stalled; `None` without any.
    pub fn stalls(&self, now: Moment) -> Option<Stalls> {
        let stalls = self.recent.stalls.summary(Span::Minute, now)?;
        let streams = self.recent.streams.total(RateSpan::Minute, now).max(stalls.count);
        Some(Stalls { streams, stalled: stalls.count, largest: stalls.p99 })
    }

    /// Times to the first token over the last five minutes, and over the last hour.
    pub fn tail(&self, now: Moment) -> Option<Tail> {
        let of = |span| self.recent.ttft.summary(span, now);
        Some(Tail { recent: of(Span::FiveMinutes)?, usual: of(Span::Hour)? })
    }

    /// 95th percentile of the time to first token over the last minute, in seconds; 0 without any.
    pub fn ttft_p95(&self, now: Moment) -> f64 {
        let Recent { ttft, p95, p95_at, .. } = &self.recent;
        let at = p95_at.load(Relaxed);
        if at != 0 && now.since(Moment::from_nanos(at)) < FRESH {
            return f64::from_bits(p95.load(Relaxed));
        }
        let value = ttft.summary(Span::Minute, now).map_or(0.0, |summary| summary.p95);
        p95.store(value.to_bits(), Relaxed);
        p95_at.store(now.nanos().max(1), Relaxed);
        value
    }

    /// Records that a request was admitted after `seconds` in the queue.
    pub fn waited(&self, seconds: f64, now: Moment) {
        self.waits.observe(seconds);
        self.admitted.inc();
        self.rate.record(1, now);
    }

    /// Counts a request that was refused.
    pub fn shed(&self, reason: Shed) {
        count(&self.shed, reason.label());
    }

    /// Counts a request that another pool of its route took.
    pub fn spilled(&self) {
        self.spilled.inc();
    }

    /// Counts an attempt beyond a request's first; `why`: `elsewhere`, `again`, `late` or `hedge`.
    pub fn further(&self, why: &'static str) {
        count(&self.further, why);
    }

    /// Counts an answer that broke off; `result`: `continued`, `repeated` or `lost`.
    pub fn count_resume(&self, result: &'static str) {
        count(&self.resumes, result);
    }

    /// Records the seconds of a decision.
    pub fn decision(&self, seconds: f64) {
        self.decisions.observe(seconds);
    }

    /// Adds the hourly cost of its engines, in US dollars.
    pub fn gpu_cost(&self, usd: f64) {
        // A counter that decreased, or became NaN, would break every rate computed from it.
        if usd.is_finite() && usd > 0.0 {
            self.gpu_cost.inc_by(usd);
        }
    }

    /// Counts the prompt and answer tokens that an engine processed, by their use.
    pub fn work(&self, prompt: u64, completion: u64, of: Use, now: Moment) {
        self.work.record(prompt, completion, of, now);
    }

    /// Share of these tokens that was good, over the last minute; `None` without any.
    pub fn goodput(&self, now: Moment) -> Option<f64> {
        self.work.goodput(now)
    }

    /// Good tokens and all tokens that engines processed, since the start.
    pub fn work_totals(&self) -> (u64, u64) {
        self.work.totals()
    }

    /// Requests per second that left the queue for an engine, over the last ten seconds.
    pub fn admitted_per_second(&self, now: Moment) -> f64 {
        self.rate.per_second(RateSpan::TenSeconds, now)
    }
}
