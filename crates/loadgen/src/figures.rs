//! Metrics of a run: percentiles, rates and goodput.

use std::{collections::BTreeMap, time::Duration};

use super::{Kind, Tally};

/// A distribution, in seconds; NaN without samples. Percentiles are of all samples (nearest rank), except for gaps between tokens, which are
/// within 2 %.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Row {
    /// Number of samples.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl Row {
    /// An empty distribution.
    const NONE: Self =
        Self { count: 0, mean: f64::NAN, p50: f64::NAN, p90: f64::NAN, p95: f64::NAN, p99: f64::NAN, max: f64::NAN };

    /// Distribution of `samples`.
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let Some(max) = samples.last().copied() else { return Self::NONE };
        let at = |share: f64| samples[((samples.len() as f64 * share).ceil() as usize).clamp(1, samples.len()) - 1];
        Self {
            count: samples.len() as u64,
            mean: samples.iter().sum::<f64>() / samples.len() as f64,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max,
        }
    }
}

/// Service level objective of an answer.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Slo {
    /// Limit on TTFT; without streaming, on the time to the end.
    pub ttft: Option<Duration>,
    /// Limit on the mean time between tokens.
    pub tpot: Option<Duration>,
    /// Limit on the time to the end.
    pub e2e: Option<Duration>,
}

impl Slo {
    /// True if a limit is set.
    pub fn is_some(&self) -> bool {
        self.ttft.is_some() || self.tpot.is_some() || self.e2e.is_some()
    }

    fn kept(&self, [ttft, tpot, e2e]: [Option<f64>; 3]) -> bool {
        let within = |most: Option<Duration>, seen: f64| most.is_none_or(|most| seen <= most.as_secs_f64());
        // An answer of one token has no time between tokens and keeps the limit.
        within(self.ttft, ttft.unwrap_or(f64::INFINITY))
            && tpot.is_none_or(|tpot| within(self.tpot, tpot))
            && within(self.e2e, e2e.unwrap_or(f64::INFINITY))
    }
}

/// Metrics of a run. Rates are over the time from the first request that counts to the end of the last answer.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Requests after the warm-up that ended.
    pub requests: u64,
    /// Failed requests.
    pub failed: u64,
    /// Failures by kind.
    pub failures: BTreeMap<String, Kind>,
    /// Requests of the warm-up.
    pub warmup: u64,
    /// Requests in progress when the run was stopped.
    pub unfinished: u64,
    /// Answers from a cache.
    pub replayed: u64,
    /// True if simulated engines answered.
    pub simulated: bool,
    /// Delay of sending after the intended time.
    pub late: Row,
    /// TTFT from the intended time of sending.
    pub ttft: Row,
    /// TTFT from the actual sending.
    pub ttft_from_sending: Row,
    /// Time per output token after the first, by answer.
    pub tpot: Row,
    /// Gaps between two deltas.
    pub gap: Row,
    /// Time to the end of a complete answer, from the intended time of sending.
    pub e2e: Row,
    /// Time to the end of a complete answer, from the actual sending.
    pub e2e_from_sending: Row,
    /// Duration, in seconds.
    pub seconds: f64,
    /// Complete answers per second.
    pub answers_per_second: f64,
    /// Tokens of prompts and answers, as servers counted them.
    pub tokens: [u64; 2],
    /// Tokens of prompts and answers per second.
    pub tokens_per_second: [f64; 2],
    /// Complete answers without a token count of the server.
    pub uncounted: u64,
    /// The objective.
    pub slo: Slo,
    /// Answers per second that kept the objective.
    pub goodput: f64,
    /// Share of requests that met the SLO, 0 to 1.
    pub attainment: f64,
}

impl Figures {
    /// Share of requests that failed, 0 to 1; 1 where no request ended.
    pub fn failed_share(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.failed as f64 / self.requests as f64 }
    }
}

impl Figures {
    /// Computes the metrics of `tally`. A failed request keeps no limit and enters no percentile except those of its first token and of its
    /// gaps, as far as it came.
    pub fn of(tally: Tally, slo: Slo) -> Self {
        let seconds = tally.span.map_or(0.0, |(first, last)| last.saturating_sub(first).as_secs_f64());
        let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let kept = tally.kept.iter().filter(|seen| slo.kept(**seen)).count() as f64;
        let side = |pairs: &[[f64; 2]], side: usize| Row::of(pairs.iter().map(|pair| pair[side]).collect());
        let gap = tally.gaps().map_or(Row::NONE, |(seen, max)| Row {
            count: seen.count,
            mean: seen.mean,
            p50: seen.p50,
            p90: seen.p90,
            p95: seen.p95,
            p99: seen.p99,
            max,
        });
        Self {
            requests: tally.requests,
            failed: tally.failures.values().map(|kind| kind.count).sum(),
            warmup: tally.warmup,
            unfinished: tally.unfinished,
            replayed: tally.replayed,
            simulated: tally.simulated,
            ttft: side(&tally.ttft, 0),
            ttft_from_sending: side(&tally.ttft, 1),
            tpot: Row::of(tally.kept.iter().filter_map(|[_, tpot, _]| *tpot).collect()),
            gap,
            e2e: side(&tally.e2e, 0),
            e2e_from_sending: side(&tally.e2e, 1),
            seconds,
            answers_per_second: rate(tally.e2e.len() as f64),
            tokens: tally.tokens,
            tokens_per_second: tally.tokens.map(|tokens| rate(tokens as f64)),
            uncounted: tally.uncounted,
            slo,
            goodput: rate(kept),
            attainment: kept / tally.requests.max(1) as f64,
            late: Row::of(tally.late),
            failures: tally.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let row = Row::of((1..=200).rev().map(f64::from).collect());
        assert_eq!((row.p50, row.p90, row.p95, row.p99, row.max), (100.0, 180.0, 190.0, 198.0, 200.0));
        assert_eq!((row.count, row.mean), (200, 100.5));
        let one = Row::of(vec![3.0]);
        assert_eq!((one.p50, one.p99, one.max), (3.0, 3.0, 3.0));
        assert!(Row::of(Vec::new()).p50.is_nan());
    }

    #[test]
    fn limits_are_kept_or_not() {
        let limit = |seconds| Some(Duration::from_secs_f64(seconds));
        let slo = Slo { ttft: limit(1.0), tpot: limit(0.05), e2e: limit(9.0) };
        let end = Some(9.0);
        assert!(slo.kept([Some(1.0), Some(0.05), end]) && slo.kept([Some(0.2), None, end]));
        assert!(!slo.kept([Some(1.1), Some(0.01), end]) && !slo.kept([Some(0.1), Some(0.06), end]));
        assert!(!slo.kept([None, None, end]) && !slo.kept([Some(1.0), Some(0.05), Some(9.1)]));
        assert!(Slo::default().kept([Some(100.0), Some(9.0), Some(1000.0)]));
    }

    proptest! {
        #[test]
        fn at_least_the_share_is_at_or_below_its_percentile(samples in proptest::collection::vec(0.0..10.0_f64, 1..300)) {
            let row = Row::of(samples.clone());
            for (share, value) in [(0.5, row.p50), (0.9, row.p90), (0.95, row.p95), (0.99, row.p99)] {
                let below = samples.iter().filter(|sample| **sample <= value).count();
                prop_assert!(below as f64 >= share * samples.len() as f64 - 1e-9);
                let under = samples.iter().filter(|sample| **sample < value).count();
                prop_assert!((under as f64) < share * samples.len() as f64);
            }
        }
    }
}
