//! Metrics of one model at one backend: handles that are kept and updated without a lookup.

use std::{
    ops::Add,
    sync::{Arc, atomic::AtomicU64},
};

use prometheus_client::metrics::counter::Counter;

use super::{
    distribution::{Distribution, TracedDistribution},
    series::Series,
    spending::Spending,
};
use signalbox_measure::{Rate, RateSpan, Span, Summary, Window};
use signalbox_types::{Moment, Outcome, Usage};

/// Buckets of times to first token, in seconds: 1 ms to 10 min, with common objectives among the bounds.
pub(super) const TTFT: [f64; 26] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0,
    20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// Buckets of times per token and gaps between tokens, in seconds: 1 ms to 5 s. 0.15 s is the perceptible limit of
/// stutter: alert rules divide by it.
const GAP: [f64; 18] =
    [0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0];
/// Buckets of whole answers, in seconds: 10 ms to 1 h.
pub(super) const E2E: [f64; 18] =
    [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0];
/// Buckets of the gateway's own time, in seconds: 10 µs to 1 s.
const OVERHEAD: [f64; 16] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0,
];
/// Buckets of the time to settle an answer, in seconds: 1 µs to 10 ms.
const SETTLE: [f64; 12] =
    [0.000_001, 0.000_002, 0.000_005, 0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.01];
/// Most outcomes. These are static strings; the bound only guards against a mistake.
pub(super) const MOST_OUTCOMES: usize = 64;

/// Units of 10⁻⁹ US dollars in one dollar.
const NANO: f64 = 1e9;
/// Seconds over which spending is averaged, or the gateway's age if it is younger. A backend's own age is not used:
/// those on one engine are compared over the same time.
const MINUTE: f64 = 60.0;

/// A counter of US dollars.
pub(super) type Dollars = Counter<f64, AtomicU64>;

/// Recent latencies of one backend, over all models on it.
#[derive(Debug, Default)]
pub struct Latencies {
    /// Time to first token.
    pub ttft: Window,
    /// Time per output token.
    pub tpot: Window,
    /// Whole answers.
    pub e2e: Window,
    /// Time to first token, measured from the dispatch of the attempt.
    pub upstream_ttft: Window,
    /// Whole streamed answers.
    pub streamed: Window,
}

impl Latencies {
    /// Summaries over `span` up to `now`, in seconds: time to first token, time per output token, whole answers.
    pub fn summaries(&self, span: Span, now: Moment) -> [Option<Summary>; 3] {
        [&self.ttft, &self.tpot, &self.e2e].map(|window| window.summary(span, now))
    }
}

/// Metrics of one model at one backend. Times are in seconds.
#[derive(Debug)]
pub struct BackendMetrics {
    pub(super) requests: Series<&'static str, Counter>,
    pub(super) attempts: Series<&'static str, Counter>,
    pub(super) fresh_retries: Counter,
    pub(super) bad_events: Counter,
    pub(super) timings: Arc<Timings>,
    /// True in a large pool, whose backends share their times.
    pub(super) shares_timings: bool,
    pub(super) tokens: Series<&'static str, Counter>,
    /// Cached prompt tokens, as predicted and as reported.
    pub(super) prefix: Series<&'static str, Counter>,
    pub(super) cost: Dollars,
    pub(super) latencies: Arc<Latencies>,
    /// Output tokens, for the status page.
    output: Rate,
    /// Cost of the backend's requests, in 10⁻⁹ US dollars.
    spent: Rate,
}

/// Distributions of times, in seconds: nine in ten lines of a backend on `/metrics`.
#[derive(Debug)]
pub(super) struct Timings {
    pub(super) ttft: TracedDistribution,
    pub(super) upstream_ttft: Distribution,
    pub(super) tpot: Distribution,
    pub(super) gap: Distribution,
    pub(super) e2e: TracedDistribution,
    pub(super) overhead: Distribution,
    pub(super) settle: Distribution,
}

impl Timings {
    pub(super) fn new() -> Self {
        Self {
            ttft: TracedDistribution::traced(TTFT.into_iter()),
            upstream_ttft: Distribution::new(TTFT),
            tpot: Distribution::new(GAP),
            gap: Distribution::new(GAP),
            e2e: TracedDistribution::traced(E2E.into_iter()),
            overhead: Distribution::new(OVERHEAD),
            settle: Distribution::new(SETTLE),
        }
    }
}

impl BackendMetrics {
    /// Times are the backend's own where `pool_timings` is absent.
    pub(super) fn new(latencies: Arc<Latencies>, pool_timings: Option<Arc<Timings>>) -> Self {
        Self {
            requests: Series::new(MOST_OUTCOMES),
            attempts: Series::new(MOST_OUTCOMES),
            fresh_retries: Counter::default(),
            bad_events: Counter::default(),
            shares_timings: pool_timings.is_some(),
            timings: pool_timings.unwrap_or_else(|| Arc::new(Timings::new())),
            tokens: Series::new(4),
            prefix: Series::new(3),
            cost: Dollars::default(),
            latencies,
            output: Rate::new(),
            spent: Rate::new(),
        }
    }

    /// True once an attempt has ended, or something was paid for.
    pub(super) fn is_used(&self) -> bool {
        !self.attempts.read().is_empty() || !self.requests.read().is_empty() || self.cost.get() > 0.0
    }

    /// Counts a request that ended with this backend's answer or failure.
    pub fn request(&self, outcome: Outcome) {
        count(&self.requests, outcome.label());
    }

    /// Counts an attempt that ended.
    pub fn attempt(&self, outcome: Outcome) {
        count(&self.attempts, outcome.label());
    }

    /// Counts an attempt that was repeated on a fresh connection.
    pub fn fresh_connection_retry(&self) {
        self.fresh_retries.inc();
    }

    /// Counts an event that was dropped from a stream.
    pub fn bad_event(&self) {
        self.bad_events.inc();
    }

    /// Records that the first delta was handed to the HTTP layer for the client `seconds` after its request, with the id of the request's
    /// recorded trace.
    pub fn ttft(&self, seconds: f64, trace: Option<u128>, now: Moment) {
        self.timings.ttft.observe_traced(seconds, trace);
        self.latencies.ttft.record(seconds, now);
    }

    /// Records that the first delta of an attempt arrived `seconds` after its dispatch.
    pub fn upstream_ttft(&self, seconds: f64, now: Moment) {
        self.timings.upstream_ttft.observe(seconds);
        self.latencies.upstream_ttft.record(seconds, now);
    }

    /// Records the end of a streamed answer, `seconds` after its request.
    pub fn streamed(&self, seconds: f64, now: Moment) {
        self.latencies.streamed.record(seconds, now);
    }

    /// Records an answer's mean time per output token after the first.
    pub fn tpot(&self, seconds: f64, now: Moment) {
        self.timings.tpot.observe(seconds);
        self.latencies.tpot.record(seconds, now);
    }

    /// Records a delta that came `seconds` after the previous one.
    pub fn gap(&self, seconds: f64) {
        self.timings.gap.observe(seconds);
    }

    /// Records a complete answer, `seconds` after its request, with the id of the request's recorded trace.
    pub fn e2e(&self, seconds: f64, trace: Option<u128>, now: Moment) {
        self.timings.e2e.observe_traced(seconds, trace);
        self.latencies.e2e.record(seconds, now);
    }

    /// Records the gateway's own share of a request's time.
    pub fn overhead(&self, seconds: f64) {
        self.timings.overhead.observe(seconds);
    }

    /// Records the seconds that settling an answer took.
    pub fn settle(&self, seconds: f64) {
        self.timings.settle.observe(seconds);
    }

    /// Counts an answer's tokens. Kinds that the backend never reported stay absent.
    pub fn usage(&self, usage: &Usage, now: Moment) {
        self.output.record(usage.completion_tokens, now);
        count_tokens(&self.tokens, usage);
    }

    /// Counts the cached tokens of an answer to a prompt of `prompt` tokens: as `predicted` and as `reported`.
    pub fn prefix(&self, prompt: u64, predicted: u64, reported: u64) {
        count_prefix(&self.prefix, prompt, predicted, reported);
    }

    /// Totals recorded by [`prefix`](Self::prefix).
    pub(super) fn prefix_hits(&self) -> PrefixHits {
        let known = self.prefix.read();
        let tokens = |kind| known.get(kind).map_or(0, Counter::get);
        PrefixHits { prompt: tokens("prompt"), predicted: tokens("predicted"), reported: tokens("reported") }
    }

    /// Share of prompt tokens that the engine reported as cached, over all answers; `None` where none reported any.
    pub fn prefix_hit_ratio(&self) -> Option<f64> {
        let tokens = |wanted| self.tokens.read().get(wanted).map(Counter::get);
        let (cached, prompt) = (tokens("cached")?, tokens("prompt")?);
        (prompt > 0).then(|| cached as f64 / prompt as f64)
    }

    /// Adds the cost of a request, in US dollars.
    pub fn cost(&self, usd: f64, now: Moment) {
        // A counter that decreased, or became NaN, would break every rate computed from it.
        if usd.is_finite() && usd > 0.0 {
            self.cost.inc_by(usd);
            self.spent.record((usd * NANO) as u64, now);
        }
    }

    /// Token cost and output of the last minute's answers, or of the gateway's whole life while it is younger.
    pub fn spending(&self, now: Moment) -> Spending {
        let seconds = (now.nanos() as f64 / 1e9).clamp(1.0, MINUTE);
        Spending {
            usd_per_s: self.spent.total(RateSpan::Minute, now) as f64 / NANO / seconds,
            output_per_s: self.output.total(RateSpan::Minute, now) as f64 / seconds,
            is_known: self.cost.get() > 0.0,
            gpu_usd_per_s: 0.0,
        }
    }

    /// Requests that ended here so far.
    pub fn requests_total(&self) -> u64 {
        self.requests.list().iter().map(|(_, counter)| counter.get()).sum()
    }

    /// Attempts that failed here so far.
    pub fn errors_total(&self) -> u64 {
        let fine = [Outcome::Complete, Outcome::ClientGone, Outcome::Escalated, Outcome::Outrun].map(Outcome::label);
        self.attempts
            .list()
            .iter()
            .filter(|(outcome, _)| !fine.contains(outcome))
            .map(|(_, counter)| counter.get())
            .sum()
    }

    /// Counts since the start.
    pub fn totals(&self) -> BackendTotals {
        BackendTotals {
            requests: self.requests_total(),
            errors: self.errors_total(),
            output_tokens: self.tokens.read().get("completion").map_or(0, Counter::get),
            prefix: self.prefix_hits(),
        }
    }

    /// Output tokens per second over the last ten seconds, counted at the end of their answers.
    pub fn tokens_per_second(&self, now: Moment) -> f64 {
        self.output.per_second(RateSpan::TenSeconds, now)
    }

    /// Recent latencies of this backend, over all models on it.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }
}

/// Increments the series of `label`.
pub(super) fn count(series: &Series<&'static str, Counter>, label: &'static str) {
    series.get(label, |_| "other", |_| Counter::default()).inc();
}

/// Adds the tokens of a prompt to the series of their kinds, capped at the prompt: predictions use our own count, which
/// may exceed the engine's.
pub(super) fn count_prefix(series: &Series<&'static str, Counter>, prompt: u64, predicted: u64, reported: u64) {
    for (kind, tokens) in [("prompt", prompt), ("predicted", predicted), ("reported", reported)] {
        series.get(kind, |kind| kind, |_| Counter::default()).inc_by(tokens.min(prompt));
    }
}

/// Adds an answer's tokens to the series of their kinds. Unreported kinds stay absent.
pub(super) fn count_tokens(series: &Series<&'static str, Counter>, usage: &Usage) {
    for (kind, tokens) in [
        ("prompt", Some(usage.prompt_tokens)),
        ("cached", usage.cached_tokens),
        ("completion", Some(usage.completion_tokens)),
        ("reasoning", usage.reasoning_tokens),
    ] {
        if let Some(tokens) = tokens {
            series.get(kind, |kind| kind, |_| Counter::default()).inc_by(tokens);
        }
    }
}

/// Counts of a backend since the start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendTotals {
    /// Requests that ended here.
    pub requests: u64,
    /// Attempts that failed here.
    pub errors: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Cached prompt tokens.
    pub prefix: PrefixHits,
}

/// Prompt tokens since the start, of answers that report how many were cached.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixHits {
    /// All of them.
    pub prompt: u64,
    /// Tokens predicted to be cached, at the placement.
    pub predicted: u64,
    /// Tokens reported as cached.
    pub reported: u64,
}

impl PrefixHits {
    /// Predicted and reported shares of the prompt tokens; `None` before any were reported.
    pub fn ratios(&self) -> Option<(f64, f64)> {
        let of = |tokens: u64| tokens as f64 / self.prompt as f64;
        (self.prompt > 0).then(|| (of(self.predicted), of(self.reported)))
    }
}

impl Add for PrefixHits {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prompt: self.prompt + other.prompt,
            predicted: self.predicted + other.predicted,
            reported: self.reported + other.reported,
        }
    }
}
