//! Progress of a request: the results that its steps reported. Its journal entry is put together from them, however early
//! it ends.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::traced::Timed;
use signalbox_journal::{Admission, AttemptEntry, CacheResult, CascadeResult, Counterfactual, Explained, RoutingFacts};
use signalbox_quota::Spent;
use signalbox_telemetry::Stage;
use signalbox_types::{Blame, Gaps, Name, Usage};

/// Most timed steps that are kept of one request, so that a request without end does not use memory without end.
const MOST_TIMED: usize = 64;

/// Results of the steps, in their order. Each step sets its own fields, by the method named after it.
#[derive(Default)]
pub(crate) struct Progress {
    /// True once the request is settled. Later reports have no effect.
    settled: bool,
    /// Edge: method and path, for the access log alone.
    pub(super) request_line: Option<Box<(http::Method, String)>>,
    /// Auth: id of the caller's key.
    pub(super) key: Option<Name>,
    /// Parse.
    pub(super) parsed: Parsed,
    /// Estimate: tokens of the prompt.
    pub(super) prompt_tokens: u64,
    /// Route; in observe mode, the one that the request would have taken.
    pub(super) route: Option<Name>,
    pub(super) explained: Option<Arc<Explained>>,
    pub(super) routing_facts: Option<RoutingFacts>,
    /// Observe: the decision that this gateway would have made.
    pub(super) counterfactual: Option<Counterfactual>,
    /// Lookup.
    pub(super) cache: Option<CacheResult>,
    /// Admit: the permit in flight, which settling releases, and the result of the wait for an engine.
    permit: Option<InFlightPermit>,
    pub(super) admission: Option<Admission>,
    /// Dispatch: true once an engine is asked, by this request or by an equal one that it shares.
    dispatched: bool,
    /// Dispatch: the attempts in the order of their start, and the tokens and cost of those without a count of usage.
    pub(super) attempts: Vec<AttemptEntry>,
    pub(super) uncounted: Spent,
    /// Dispatch: the result of the route's cascade.
    pub(super) cascade: Option<CascadeResult>,
    /// Relay, or the fault that takes its place: HTTP status, and the party at fault.
    pub(super) status: u16,
    pub(super) blame: Option<Blame>,
    /// Relay: time from arrival until the first token was handed to the HTTP layer for the client.
    pub(super) ttft: Option<Duration>,
    /// Relay, at the end of the answer.
    pub(super) answer: AnswerEnd,
    /// Any step: its time, if the request is traced.
    pub(super) timed: Vec<Timed>,
}

/// Result of reading a request's body.
#[derive(Default)]
pub(crate) struct Parsed {
    /// The model as the client named it.
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    /// Length of the text that the model reads, in bytes.
    pub(crate) prompt_bytes: usize,
}

/// Measurements of an attempt that is over.
pub(crate) struct AttemptEnd {
    pub(crate) outcome: &'static str,
    /// Time from the request's arrival to the end of the attempt, in milliseconds.
    pub(crate) ended_ms: f64,
    /// Time from dispatch to the arrival of the first token, in milliseconds.
    pub(crate) ttft_ms: Option<f64>,
    pub(crate) usage: Option<Usage>,
    /// True if `usage` is an estimate.
    pub(crate) usage_estimated: bool,
    /// Cost of `usage` in US dollars, if the price is known.
    pub(crate) cost_usd: Option<f64>,
    /// Prompt tokens that the engine reported as cached.
    pub(crate) reported_cached_tokens: Option<u64>,
    /// Estimated tokens and their cost, if the engine reported no usage for them.
    pub(crate) uncounted: Option<(Usage, f64)>,
}

/// Measurements of an answer that is over.
#[derive(Default)]
pub(crate) struct AnswerEnd {
    /// Number of the attempt that answered. `None` for a kept or shared answer.
    pub(crate) attempt: Option<usize>,
    pub(crate) usage: Option<Usage>,
    /// Time from dispatch to the arrival of the first token, in milliseconds.
    pub(crate) upstream_ttft_ms: Option<f64>,
    /// Time per token after the first, in milliseconds.
    pub(crate) tpot_ms: Option<f64>,
    /// Gaps between the chunks of a stream.
    pub(crate) gaps: Option<Gaps>,
    /// The gateway's own share of the time to the head of the answer, in microseconds.
    pub(crate) overhead_us: Option<f64>,
}

impl Progress {
    /// Edge: sets the request line of the access log.
    pub(crate) fn arrived(&mut self, request_line: (http::Method, String)) {
        self.request_line = Some(request_line.into());
    }

    /// Auth: sets the id of the caller's key.
    pub(crate) fn authenticated(&mut self, key: Name) {
        self.key = Some(key);
    }

    /// Parse.
    pub(crate) fn parsed(&mut self, parsed: Parsed) {
        self.parsed = parsed;
    }

    /// Estimate: sets the tokens of the prompt.
    pub(crate) fn estimated(&mut self, prompt_tokens: u64) {
        self.prompt_tokens = prompt_tokens;
    }

    /// Route: sets the route and its reasons. A background request has no reasons.
    pub(crate) fn routed(&mut self, route: Name, explained: Option<Arc<Explained>>, facts: Option<RoutingFacts>) {
        (self.route, self.explained, self.routing_facts) = (Some(route), explained, facts);
    }

    /// Limit: replaces the reasons for the route.
    pub(crate) fn explained(&mut self, explained: Arc<Explained>) {
        self.explained = Some(explained);
    }

    /// Observe: sets the decision that this gateway would have made.
    pub(crate) fn observed(&mut self, counterfactual: Counterfactual) {
        self.counterfactual = Some(counterfactual);
    }

    /// Lookup: sets the result of the cache lookup.
    pub(crate) fn looked_up(&mut self, cache: CacheResult) {
        self.cache = Some(cache);
    }

    /// Admit: holds the permit in flight until the request is settled.
    pub(crate) fn holds(&mut self, permit: InFlightPermit) {
        self.permit = Some(permit);
    }

    /// Admit: sets the result of the wait for an engine, which is `waiting` while it lasts.
    pub(crate) fn admitted(&mut self, admission: Admission) {
        self.admission = Some(admission);
    }

    /// Dispatch, and a lookup that shares a request under way: an engine is asked.
    pub(crate) fn dispatched(&mut self) {
        self.dispatched = true;
    }

    /// Dispatch: adds an attempt and returns its number.
    pub(crate) fn attempt_began(&mut self, attempt: AttemptEntry) -> usize {
        // There is rarely a second one.
        self.attempts.reserve_exact(1);
        self.attempts.push(attempt);
        self.attempts.len() - 1
    }

    /// Dispatch: marks an attempt as failed through its engine's fault.
    pub(crate) fn attempt_failed(&mut self, number: usize) {
        self.attempts.get_mut(number).into_iter().for_each(|attempt| attempt.failed = true);
    }

    /// Translation: the answer of a complete attempt was none.
    pub(crate) fn attempt_spoilt(&mut self, number: usize, kind: &'static str) {
        let Some(attempt) = self.attempts.get_mut(number) else { return };
        (attempt.outcome, attempt.failed) = (Some(kind), true);
    }

    /// Dispatch: marks running attempts at this backend, which missed the deadline of their first token. They count as
    /// failed if another attempt answers.
    pub(crate) fn attempts_late(&mut self, pool: &Name, backend: &Name) {
        let running = self.attempts.iter_mut().filter(|attempt| attempt.outcome.is_none());
        running
            .filter(|attempt| attempt.pool == *pool && attempt.backend == *backend)
            .for_each(|attempt| attempt.failed = true);
    }

    /// Dispatch: marks no attempt as failed, because the request was at fault.
    pub(crate) fn attempts_excused(&mut self) {
        self.attempts.iter_mut().for_each(|attempt| attempt.failed = false);
    }

    /// Dispatch: ends an attempt.
    pub(crate) fn attempt_ended(&mut self, number: usize, end: &AttemptEnd) {
        if let Some((usage, usd)) = end.uncounted {
            self.uncounted.tokens = self.uncounted.tokens.saturating_add(usage.total());
            self.uncounted.usd += usd;
        }
        let Some(attempt) = self.attempts.get_mut(number) else { return };
        attempt.outcome = Some(end.outcome);
        attempt.ended_ms = Some(end.ended_ms);
        attempt.ttft_ms = end.ttft_ms;
        attempt.usage = end.usage;
        attempt.uncounted = end.uncounted.map(|(usage, _)| usage);
        attempt.usage_estimated = end.usage_estimated;
        attempt.cost_usd = end.cost_usd;
        attempt.reported_cached_tokens = end.reported_cached_tokens;
    }

    /// Dispatch: sets the result of the cascade.
    pub(crate) fn cascaded(&mut self, cascade: CascadeResult) {
        self.cascade = Some(cascade);
    }

    /// Relay: sets the status of the response head.
    pub(crate) fn head(&mut self, status: http::StatusCode) {
        self.status = status.as_u16();
    }

    /// Relay: sets the time from arrival to the first token at the client.
    pub(crate) fn first_token(&mut self, ttft: Duration) {
        self.ttft = Some(ttft);
    }

    /// Relay: sets the measurements of the answer at its end.
    pub(crate) fn answered(&mut self, answer: AnswerEnd) {
        self.answer = answer;
    }

    /// Sets the party at fault.
    pub(crate) fn blamed(&mut self, blame: Blame) {
        self.blame = Some(blame);
    }

    /// Adds the time of a step to the trace.
    pub(super) fn timed(&mut self, step: Timed) {
        if self.timed.len() < MOST_TIMED {
            self.timed.push(step);
        }
    }

    /// Takes the results to settle the request, and releases its permit in flight. `None` if it is settled.
    pub(super) fn take(&mut self) -> Option<Self> {
        if self.settled {
            return None;
        }
        self.permit = None;
        Some(mem::replace(self, Self { settled: true, ..Self::default() }))
    }

    /// Stage that the request has reached.
    pub(super) fn stage(&self) -> Stage {
        match (self.ttft, self.dispatched) {
            (Some(_), _) => Stage::Answer,
            (None, true) => Stage::Prefill,
            (None, false) => Stage::Queued,
        }
    }
}

/// Permit for one request in flight, released on drop.
pub(crate) struct InFlightPermit(Arc<AtomicUsize>);

impl InFlightPermit {
    /// Takes one of `most` permits, if one is free.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        taken.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).ok()?;
        Some(Self(taken.clone()))
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
