//! The metrics of one pool: its queue, and the decisions made in it.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

use super::{
    backend::{Dollars, count},
    series::Series,
    work::{Use, Work},
};
use crate::{
    measure::{Rate, RateSpan, Span, Window},
    types::Moment,
};

/// Buckets for waits in a queue, in seconds: 1 ms to 10 min.
const WAIT: [f64; 16] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];
/// Buckets for decisions, in seconds: 1 µs to 10 ms.
const DECISION: [f64; 12] =
    [0.000_001, 0.000_002_5, 0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.01];

/// Why a request was refused before it was dispatched.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Shed {
    /// It would hardly have kept its bound.
    Slo,
    /// The queue had no place left.
    Full,
    /// It waited in vain.
    Timeout,
}

impl Shed {
    /// The name used in metrics and the journal.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Slo => "slo_unattainable",
            Self::Full => "queue_full",
            Self::Timeout => "queue_timeout",
        }
    }
}

/// The metrics of one pool.
#[derive(Debug)]
pub struct PoolMetrics {
    pub(super) waits: Histogram,
    pub(super) admitted: Counter,
    pub(super) shed: Series<&'static str, Counter>,
    pub(super) spilled: Counter,
    pub(super) further: Series<&'static str, Counter>,
    pub(super) rescues: Series<&'static str, Counter>,
    pub(super) decisions: Histogram,
    /// What the hours of its engines cost.
    pub(super) gpu_cost: Dollars,
    pub(super) work: Work,
    /// Requests that left the queue for an engine.
    rate: Rate,
    recent: Recent,
}

/// How requests fared lately, for conditions of routes to ask.
#[derive(Debug)]
struct Recent {
    ttft: Window,
    /// Bits of the last 95th percentile that was worked out, and nanoseconds of the [`Moment`] that was: it takes too long for every
    /// request.
    p95: AtomicU64,
    p95_at: AtomicU64,
}

/// For how long a percentile is good enough.
const FRESH: Duration = Duration::from_millis(250);

impl PoolMetrics {
    pub(super) fn new() -> Self {
        Self {
            waits: Histogram::new(WAIT),
            admitted: Counter::default(),
            shed: Series::new(3),
            spilled: Counter::default(),
            further: Series::new(4),
            rescues: Series::new(3),
            decisions: Histogram::new(DECISION),
            gpu_cost: Dollars::default(),
            work: Work::new(),
            rate: Rate::new(),
            recent: Recent { ttft: Window::new(), p95: AtomicU64::new(0), p95_at: AtomicU64::new(0) },
        }
    }

    /// A request's first token was handed to its client's connection, `seconds` after it came.
    pub fn ttft(&self, seconds: f64, now: Moment) {
        self.recent.ttft.record(seconds, now);
    }

    /// The 95th percentile of the time to the first token over the last minute, in seconds; 0 where there was none.
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

    /// A request was given a place after `seconds` in the queue.
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
    pub fn rescue(&self, result: &'static str) {
        count(&self.rescues, result);
    }

    /// A decision took so many seconds.
    pub fn decision(&self, seconds: f64) {
        self.decisions.observe(seconds);
    }

    /// Adds what the hours of its engines cost, in US dollars.
    pub fn gpu_cost(&self, usd: f64) {
        // A counter that went down, or to NaN, would break every rate taken from it.
        if usd.is_finite() && usd > 0.0 {
            self.gpu_cost.inc_by(usd);
        }
    }

    /// An engine has read so many tokens of a prompt and made so many of an answer, and this came of it.
    pub fn work(&self, prompt: u64, completion: u64, of: Use, now: Moment) {
        self.work.record(prompt, completion, of, now);
    }

    /// The share of such tokens that was good, over the last minute; `None` where there were none.
    pub fn goodput(&self, now: Moment) -> Option<f64> {
        self.work.goodput(now)
    }

    /// Requests a second that left the queue for an engine, over the last ten seconds.
    pub fn admitted_per_second(&self, now: Moment) -> f64 {
        self.rate.per_second(RateSpan::TenSeconds, now)
    }
}
