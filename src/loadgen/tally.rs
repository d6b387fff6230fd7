//! What was measured, request by request, kept as numbers.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{Answer, Counted, Limits};
use crate::{
    measure::{Span, Summary, Window},
    types::Moment,
};

/// Kinds of failures that are told apart, at most.
const KINDS: usize = 32;
/// What all other kinds are counted as.
const OTHER: &str = "other";

/// How often something failed, and how it did so first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// How often.
    pub count: u64,
    /// What was said of the first one.
    pub example: String,
}

/// Everything measured in a run. Latencies are in seconds; those of answers in order of their ends.
#[derive(Debug)]
pub struct Tally {
    start: Instant,
    limits: Limits,
    /// Requests that ended after the warm-up.
    pub requests: u64,
    /// Requests of the warm-up that ended.
    pub warmup: u64,
    /// Requests that were under way when the run was stopped.
    pub unfinished: u64,
    /// Failures, by kind.
    pub failures: BTreeMap<String, Kind>,
    /// Answers that a cache gave, or that were shared.
    pub replayed: u64,
    /// Whether a simulated engine gave any.
    pub simulated: bool,
    /// How late each request was sent.
    pub(super) late: Vec<f64>,
    /// Times to first token, from the moment meant and from the sending.
    pub(super) ttft: Vec<[f64; 2]>,
    /// Times to the end of a complete answer, likewise.
    pub(super) e2e: Vec<[f64; 2]>,
    /// For each complete answer: its time to the first token (or, whole, to its end) and its time per token.
    pub(super) kept: Vec<[Option<f64>; 2]>,
    gaps: Window,
    gap_most: f64,
    /// Tokens of prompts and answers, as servers counted them.
    pub(super) tokens: [u64; 2],
    /// Complete answers without usage: their tokens are in no figure.
    pub(super) uncounted: u64,
    /// When the first request was meant to be sent, and the last answer ended.
    pub(super) span: Option<(Duration, Duration)>,
    /// What to compare with a gateway's own figures: the warm-up is in them too.
    pub counted: Counted,
}

impl Tally {
    /// Nothing yet.
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

    /// An answer, `whole` or streamed, to the request that was meant to be sent `at` this time.
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
            // The window stands still, so that all of the run is in one span of it.
            self.gaps.record(f64::from(*gap), Moment::default());
            self.gap_most = self.gap_most.max(f64::from(*gap));
        }
        if let Some(failure) = &answer.failure {
            return self.fail(failure.kind(), || failure.message());
        }
        let e2e = both(end);
        self.e2e.push(e2e);
        let begun = if whole { Some(e2e) } else { ttft };
        self.kept.push([begun.map(|[meant, _]| meant), answer.tpot()]);
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

    /// Gaps between tokens, and the longest one; `None` where there are none.
    pub(super) fn gaps(&self) -> Option<(Summary, f64)> {
        Some((self.gaps.summary(Span::Hour, Moment::default())?, self.gap_most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::Failure;

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
