//! Measures an answer from within its body. The meter holds the engine permit and settles the request's record once.

mod gaps;
mod judge;
mod tokens;

use std::{sync::Arc, time::Duration};

use super::gauges::Gauges;
use crate::{
    placement::EnginePermit,
    record::{AnswerEnd, AttemptEnd, Record, millis},
};
use signalbox_fleet::{Backend, Failure, PoolLearned};
use signalbox_journal::Predicted;
use signalbox_protocol::EventFacts;
use signalbox_telemetry::{BackendMetrics, PoolMetrics};
use signalbox_types::{Blame, Clock, Fault, Gaps, Moment, Name, Outcome, Price, Usage};

/// Bytes of an unstreamed answer that are not text.
const ENVELOPE: usize = 256;

/// Measures one attempt, from before its first await to the end of its answer.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the attempt, the answer or the request"
)]
pub(crate) struct Meter {
    clock: Clock,
    record: Arc<Record>,
    /// Index among the attempts at the request.
    number: usize,
    metrics: Arc<BackendMetrics>,
    pool_metrics: Arc<PoolMetrics>,
    backend: Arc<Backend>,
    pool: Arc<PoolLearned>,
    /// The ID of the caller's key, if it has one.
    caller: Option<Name>,
    price: Option<Price>,
    /// The bytes of text that the prompt weighs as much as.
    prompt_weight: u64,
    /// Forecast for the attempt when its backend was chosen.
    predicted: Predicted,
    /// Released when the attempt ends.
    permit: Option<EnginePermit>,
    /// Time at which the engine finished and its permit was released, if that was before the client had the answer.
    released: Option<Moment>,
    /// True once the answer has begun. From then on the meter settles the record.
    committed: bool,
    arrived: Moment,
    started: Moment,
    overhead: Duration,
    /// Arrival of the first and the last token from upstream.
    tokens: Option<(Moment, Moment)>,
    /// Gaps between the events that carry tokens, those of attempts that it goes on from included.
    gaps: Gaps,
    /// Time from the request's arrival until the first token was handed to the HTTP layer for the client.
    handed: Option<Duration>,
    text_bytes: u64,
    /// Events that carry a token.
    events: u64,
    usage: Option<Usage>,
    /// Choices seen, one bit each.
    choices: u64,
    /// True if reasoning was streamed, and is therefore among the tokens seen.
    reasoning: bool,
    /// Party at fault, where the outcome does not imply it.
    blamed: Option<Blame>,
    /// `ended`: the attempt is over. `over`: this meter has nothing left to settle.
    ended: bool,
    over: bool,
}

impl Meter {
    /// Starts to measure an attempt that holds an engine permit.
    pub(crate) fn begin(gauges: Gauges, permit: EnginePermit) -> Self {
        let Gauges { record, number, metrics, pool_metrics, backend, pool, caller, price, .. } = gauges;
        let Gauges { prompt_weight, predicted, .. } = gauges;
        let clock = record.clock();
        let now = clock.now();
        Self {
            arrived: record.arrived(),
            started: now,
            clock,
            record,
            number,
            metrics,
            pool_metrics,
            backend,
            pool,
            caller,
            price,
            prompt_weight,
            predicted,
            permit: Some(permit),
            released: None,
            committed: false,
            overhead: Duration::ZERO,
            tokens: None,
            gaps: Gaps::default(),
            handed: None,
            text_bytes: 0,
            events: 0,
            usage: None,
            choices: 0,
            reasoning: false,
            blamed: None,
            ended: false,
            over: false,
        }
    }

    /// Marks the answer as begun and records the gateway's overhead since `read_at`, when the request had been read.
    pub(crate) fn commit(&mut self, read_at: Moment) {
        self.committed = true;
        let waited = self.record.waited();
        self.overhead = self.clock.now().since(read_at).saturating_sub(waited);
        self.metrics.overhead(self.overhead.as_secs_f64());
    }

    /// Returns the backend's metrics.
    pub(crate) fn metrics(&self) -> Arc<BackendMetrics> {
        self.metrics.clone()
    }

    /// Index in the policy of the engine that answers.
    pub(crate) fn engine(&self) -> usize {
        self.backend.spec.engine
    }

    /// Index among the attempts at the request.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The gateway's own share of the time to the response head, in microseconds.
    pub(crate) fn overhead_us(&self) -> u64 {
        self.overhead.as_micros() as u64
    }

    /// Time since the request's arrival.
    pub(crate) fn age(&self) -> Duration {
        self.clock.now().since(self.arrived)
    }

    pub(crate) fn fresh_connection_retry(&self) {
        self.metrics.fresh_connection_retry();
    }

    /// Records an event from upstream.
    pub(crate) fn read(&mut self, seen: &EventFacts) {
        self.choices |= seen.choices;
        self.reasoning |= seen.reasoning;
        if seen.token {
            self.text_bytes += seen.text_bytes as u64;
            self.events += 1;
        }
        if let Some(usage) = seen.usage {
            let usage = self.possible(usage, self.text_bytes.saturating_add(self.events));
            self.usage = Some(self.usage.map_or(usage, |before| before.with(usage)));
        }
        if seen.token {
            self.token();
            let tokens = self.backend.learned.bytes_per_token.tokens(self.text_bytes);
            self.permit.iter_mut().for_each(|permit| permit.streamed(tokens));
        }
    }

    fn token(&mut self) {
        let now = self.clock.now();
        if let Some((_, last)) = &mut self.tokens {
            let gap = now.seconds_since(*last);
            self.metrics.gap(gap);
            self.gaps.add(gap);
            *last = now;
        } else {
            self.tokens = Some((now, now));
            self.metrics.upstream_ttft(now.seconds_since(self.started), now);
            self.permit.iter_mut().for_each(|permit| permit.first_token(now));
        }
    }

    /// Records that a token was handed to the HTTP layer for the client. Time in its buffers and in the socket's is not
    /// included.
    pub(crate) fn hand(&mut self) {
        if self.handed.is_none() {
            let now = self.clock.now();
            let ttft = now.since(self.arrived);
            self.handed = Some(ttft);
            self.metrics.ttft(ttft.as_secs_f64(), self.record.recorded_trace(), now);
            self.pool_metrics.ttft(ttft.as_secs_f64(), now);
            self.record.progress().first_token(ttft);
        }
    }

    /// Records the usage of an unstreamed answer of `bytes` bytes. Without usage, tokens are estimated from the size.
    pub(crate) fn whole(&mut self, usage: Option<Usage>, bytes: usize) {
        self.text_bytes = bytes.saturating_sub(ENVELOPE) as u64;
        self.usage = usage.map(|usage| self.possible(usage, bytes as u64));
    }

    /// Ends an attempt that failed before its answer began. The request may be retried elsewhere.
    pub(crate) fn fail(mut self, fault: &Fault) {
        self.judge(fault);
        self.end_attempt(Outcome::Failed(fault.kind));
    }

    /// Ends an attempt that broke off in mid-answer. The rest may still come from elsewhere.
    pub(crate) fn break_off(&mut self, fault: &Fault) {
        self.judge(fault);
        self.end_attempt(Outcome::Failed(fault.kind));
        self.over = false;
    }

    /// Ends an attempt whose answer does not match the stream it was to resume. The engine is not at fault.
    pub(crate) fn set_aside(&mut self) {
        self.serves();
        self.end_attempt(Outcome::Failed("another_answer"));
        self.over = false;
    }

    /// Releases the engine permit before the client has the whole answer, because the engine has finished.
    pub(crate) fn release_engine(&mut self) {
        let (tpot, now) = (self.tpot(Outcome::Complete), self.clock.now());
        self.settle_account();
        if let Some(permit) = self.permit.take() {
            permit.finish(self.usage.as_ref(), tpot, now);
            self.released = Some(now);
        }
    }

    /// True if the engine permit was released early.
    pub(crate) fn has_released_engine(&self) -> bool {
        self.released.is_some()
    }

    /// Discards the answer in favour of a larger model's. Returns its usage, estimated where the engine reported none,
    /// and its cost.
    pub(crate) fn give_up(mut self) -> (Usage, Option<f64>) {
        self.serves();
        self.backend.engine.set_reachable(true);
        self.learn(Outcome::Escalated, self.clock.now());
        let usage = self.usage.unwrap_or_else(|| self.estimate());
        self.end_attempt(Outcome::Escalated);
        (usage, self.price.map(|price| price.cost(&usage)))
    }

    /// Marks the attempt as failed in the record.
    fn blame(&self) {
        self.record.progress().attempt_failed(self.number);
    }

    /// Records that the engine refused the request through the client's fault. The engine counts as healthy.
    pub(crate) fn refuse(&mut self) {
        self.blamed = Some(Blame::Client);
        self.record.progress().blamed(Blame::Client);
    }

    /// Settles the request with `outcome`. Later calls have no effect.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        if self.over {
            return;
        }
        let now = self.clock.now();
        let tpot = self.tpot(outcome);
        let translates = outcome == Outcome::Complete && self.blamed.is_none() && self.record.awaits_translation();
        // Before the permit is released: the next request for it checks the breaker.
        match outcome {
            _ if self.blamed == Some(Blame::Client) => self.serves(),
            Outcome::Complete => {
                self.pool.retries.earn(self.caller.as_ref());
                if !translates {
                    self.serves();
                }
                self.backend.engine.set_reachable(true);
            }
            _ if self.ended || !outcome.blames_engine() => {}
            _ => self.fails(Failure::Error, outcome.label()),
        }
        if outcome.blames_engine() && self.blamed != Some(Blame::Client) {
            self.blame();
        }
        self.settle_account();
        if let Some(permit) = self.permit.take_if(|_| outcome == Outcome::Complete) {
            permit.finish(self.usage.as_ref(), tpot, now);
        }
        self.end_attempt(outcome);
        self.learn(outcome, now);
        if outcome == Outcome::Complete {
            let whole = now.seconds_since(self.arrived);
            self.metrics.e2e(whole, self.record.recorded_trace(), now);
            if self.handed.is_some() {
                self.metrics.streamed(whole, now);
            }
        }
        if let Some(tpot) = tpot {
            self.metrics.tpot(tpot, now);
        }
        let gaps = self.gaps_until(outcome, now).known();
        if let Some(gaps) = gaps {
            self.pool_metrics.gaps(gaps, now);
        }
        let upstream_ttft = self.tokens.map(|(first, _)| first.since(self.started));
        self.record.progress().answered(AnswerEnd {
            attempt: Some(self.number),
            usage: self.usage,
            upstream_ttft_ms: upstream_ttft.map(millis),
            tpot_ms: tpot.map(|seconds| seconds * 1e3),
            gaps,
            overhead_us: Some(self.overhead.as_secs_f64() * 1e6),
        });
        self.settle(outcome, translates);
        self.metrics.settle(self.clock.now().seconds_since(now));
    }

    /// Settles the tokens charged to the account: reported, else estimated, else none if no token came.
    fn settle_account(&mut self) {
        let begun = || self.tokens.map(|_| self.estimate());
        let usage = self.usage.or_else(begun).unwrap_or_default();
        self.permit.iter_mut().for_each(|permit| permit.used(usage.total()));
    }

    fn end_attempt(&mut self, outcome: Outcome) {
        self.over = true;
        let unseen = if self.ended { None } else { self.unseen(outcome) };
        if let Some(usage) = unseen {
            self.permit.iter_mut().for_each(|permit| permit.used(usage.total()));
        }
        self.settle_account();
        self.permit = None;
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // A complete one is counted with its verdict.
        if outcome != Outcome::Complete {
            self.metrics.attempt(outcome);
        }
        if let Some(usage) = &self.usage {
            self.metrics.usage(usage, self.clock.now());
            if let Some(reported) = usage.cached_tokens {
                self.metrics.prefix(usage.prompt_tokens, self.predicted.cached_tokens, reported);
            }
        }
        let estimate = (outcome == Outcome::Escalated && self.usage.is_none()).then(|| self.estimate());
        let usage = self.usage.or(estimate);
        let uncounted = usage.is_none() && (self.tokens.is_some() || outcome == Outcome::Complete);
        let uncounted = uncounted.then(|| self.estimate()).or(unseen);
        let cost = usage.and_then(|usage| Some(self.price?.cost(&usage)));
        if let Some(cost) = cost {
            self.metrics.cost(cost, self.clock.now());
        }
        let end = AttemptEnd {
            outcome: outcome.label(),
            ended_ms: millis(self.clock.now().since(self.arrived)),
            ttft_ms: self.tokens.map(|(first, _)| millis(first.since(self.started))),
            usage,
            usage_estimated: estimate.is_some(),
            cost_usd: cost,
            reported_cached_tokens: self.usage.and_then(|usage| usage.cached_tokens),
            uncounted: uncounted.map(|usage| (usage, self.price.map_or(0.0, |price| price.cost(&usage)))),
        };
        self.record.progress().attempt_ended(self.number, &end);
    }

    fn learn(&self, outcome: Outcome, now: Moment) {
        let learned = &self.backend.learned;
        if let Some(usage) = self.usage.filter(|usage| usage.prompt_tokens > 0) {
            learned.bytes_per_token.observe(self.prompt_weight, usage.prompt_tokens);
            self.record.counted(usage.prompt_tokens);
        }
        if outcome == Outcome::Complete
            && self.choices.is_power_of_two()
            && let Some(shown) = self.shown_tokens()
        {
            learned.streamed(self.events, shown);
        }
        let latency = match self.tokens {
            Some((first, _)) => Some(first.since(self.started)),
            None if outcome == Outcome::Complete => Some(self.released.unwrap_or(now).since(self.started)),
            None => None,
        };
        if let Some(latency) = latency {
            learned.latency.observe(latency.as_secs_f64(), now);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.committed {
            self.finish(self.record.dropped());
        } else if !self.over {
            self.end_attempt(if self.record.is_won() { Outcome::Outrun } else { self.record.dropped() });
        }
    }
}
