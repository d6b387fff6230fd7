//! Measurements of a run, request by request.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{Answer, Counted, Limits};
use signalbox_measure::{Span, Summary, Window};
use signalbox_types::Moment;

/// Most kinds of failure that are counted separately.
const KINDS: usize = 32;
/// Name under which all other kinds are counted.
const OTHER: &str = "other";

/// Count of a kind of failure, with an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Number of failures.
    pub count: u64,
    /// Details of the first failure of this kind.
    pub example: String,
}

/// All measurements of a run. Latencies are in seconds, in order of the ends of the answers.
#[derive(Debug)]
pub struct Tally {
    start: Instant,
    limits: Limits,
    /// Requests that ended after the warm-up.
    pub requests: u64,
    /// Requests of the warm-up that ended.
    pub warmup: u64,
    /// Requests in progress when the run was stopped.
    pub unfinished: u64,
    /// Failures, by kind.
    pub failures: BTreeMap<String, Kind>,
    /// Answers from a cache, or coalesced.
    pub replayed: u64,
    /// True if a simulated engine answered.
    pub simulated: bool,
    /// Delay of each request's sending.
    pub(super) late: Vec<f64>,
    /// TTFT from the intended time and from the sending.
    pub(super) ttft: Vec<[f64; 2]>,
    /// Time to the end of a complete answer, likewise.
    pub(super) e2e: Vec<[f64; 2]>,
    /// For each complete answer: TTFT (without streaming, time to the end), time per token, and time to the end.
    pub(super) kept: Vec<[Option<f64>; 3]>,
    gaps: Window,
    gap_most: f64,
    /// Tokens of prompts and answers, as servers counted them.
    pub(super) tokens: [u64; 2],
    /// Complete answers without usage: their tokens are not counted.
    pub(super) uncounted: u64,
    /// Intended time of the first request, and end of the last answer.
    pub(super) span: Option<(Duration, Duration)>,
    /// Latencies to compare with the gateway's, including the warm-up.
    pub counted: Counted,
}

impl Tally {
    /// An empty tally.
    pub(super) fn new(start: Instant, limits: Limits) -> Self {
        Self {
            start,
            limits,
            requests: 0,
            warmup: 0,
            unfinished: 0,
            failures: BTreeMap::new(),
            replayed: 0,
            simulated: false,
            late: Vec::new(),
            ttft: Vec::new(),
            e2e: Vec::new(),
            kept: Vec::new(),
            gaps: Window::new(),
            gap_most: 0.0,
            tokens: [0; 2],
            uncounted: 0,
            span: None,
            counted: Counted::default(),
        }
    }

    /// Adds an answer (`whole` without streaming) to the request planned for `at`.
    pub(super) fn add(&mut self, at: Duration, whole: bool, answer: &Answer) {
        self.counted.add(answer);
        if !self.limits.counts(at) {
            self.warmup += 1;
            return;
        }
        self.requests += 1;
        self.simulated |= answer.simulated;
        self.replayed += u64::from(answer.replayed);
        let since = |then: Instant| then.duration_since(self.start);
        let end = since(answer.end);
        let (first, last) = self.span.get_or_insert((at, end));
        (*first, *last) = ((*first).min(at), (*last).max(end));
        let sent = since(answer.sent);
        self.late.push(sent.saturating_sub(at).as_secs_f64());
        let both = |then: Duration| [then.saturating_sub(at).as_secs_f64(), then.saturating_sub(sent).as_secs_f64()];
        let ttft = answer.first.map(|first| both(since(first)));
        self.ttft.extend(ttft);
        for gap in &answer.gaps {
            // A constant time puts the whole run into one span of the window.
            self.gaps.record(f64::from(*gap), Moment::default());
            self.gap_most = self.gap_most.max(f64::from(*gap));
        }
        if let Some(failure) = &answer.failure {
            return self.fail(failure.kind(), || failure.message());
        }
        let e2e = both(end);
        self.e2e.push(e2e);
        let begun = if whole { Some(e2e) } else { ttft };
        self.kept.push([begun.map(|[meant, _]| meant), answer.tpot(), Some(e2e[0])]);
        match answer.usage {
            Some(usage) => {
                self.tokens[0] += usage.prompt_tokens;
                self.tokens[1] += usage.completion_tokens;
            }
            None => self.uncounted += 1,
        }
    }

    fn fail(&mut self, kind: String, message: impl Fn() -> String) {
        let full = self.failures.len() >= KINDS && !self.failures.contains_key(&kind);
        let kind = if full { OTHER.to_owned() } else { kind };
        let entry = self.failures.entry(kind).or_insert_with(|| Kind { count: 0, example: message() });
        entry.count += 1;
    }

    /// Distribution of the gaps between tokens; `None` without gaps.
    pub(super) fn gaps(&self) -> Option<(Summary, f64)> {
        Some((self.gaps.summary(Span::Hour, Moment::default())?, self.gap_most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    #[test]
    fn kinds_of_failures_are_bounded() {
        let start = Instant::now();
        let mut tally = Tally::new(start, Limits::default());
        for status in 400..500 {
            let failure = Failure::Status { status, code: String::new(), message: format!("no {status}") };
            tally.add(Duration::ZERO, false, &Answer::new(start).ended(Some(failure)));
        }
        assert_eq!(tally.failures.len(), KINDS + 1);
        assert_eq!(tally.failures["http_400"], Kind { count: 1, example: "no 400".to_owned() });
        assert_eq!(tally.failures[OTHER].count, 100 - KINDS as u64);
    }

    #[test]
    fn the_warm_up_counts_only_for_the_comparison() {
        let start = Instant::now();
        let mut tally = Tally::new(start, Limits { warmup: Duration::from_secs(1), ..Limits::default() });
        for at in [0, 2] {
            let mut answer = Answer::new(start + Duration::from_secs(at));
            answer.token(answer.sent + Duration::from_millis(100));
            answer.end = answer.sent + Duration::from_millis(100);
            tally.add(Duration::from_secs(at), false, &answer);
        }
        assert_eq!((tally.requests, tally.warmup, tally.ttft.len()), (1, 1, 1));
        assert_eq!(tally.counted.ttft.count, 2);
    }
}
