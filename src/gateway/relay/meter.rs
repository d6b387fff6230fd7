//! The meter: rides in an answer's body and measures it. It holds the ticket, and settles the request's record once.

mod judge;
mod tokens;

use std::{sync::Arc, time::Duration};

use super::gauges::Gauges;
use crate::{
    fleet::{Backend, Failure, PoolLearned},
    gateway::{
        estimator::Estimator,
        placement::EnginePermit,
        record::{Record, millis},
    },
    protocol::EventFacts,
    telemetry::{BackendMetrics, PoolMetrics, Stage},
    types::{Blame, Clock, Fault, Moment, Name, Outcome, Price, Usage},
};

/// Bytes of a whole answer that are none of its text.
const ENVELOPE: usize = 256;

/// Measures one attempt, from before its first await to the end of its answer.
pub(in crate::gateway) struct Meter {
    clock: Clock,
    estimator: Arc<Estimator>,
    record: Arc<Record>,
    /// Its place among the attempts at the request.
    number: usize,
    metrics: Arc<BackendMetrics>,
    pool_metrics: Arc<PoolMetrics>,
    backend: Arc<Backend>,
    pool: Arc<PoolLearned>,
    /// The id of the caller's key, where it has one.
    caller: Option<Name>,
    price: Option<Price>,
    /// Of the prompt, as it was hashed.
    prompt_bytes: u64,
    /// Prompt tokens that the engine should have had cached.
    cached_tokens: u64,
    /// Released when the attempt is over.
    seat: Option<EnginePermit>,
    /// When the engine was done with the answer, where that was long before the client had it.
    vacated: Option<Moment>,
    /// True once the answer has begun; from then on the meter settles the record.
    committed: bool,
    arrived: Moment,
    started: Moment,
    overhead: Duration,
    /// When the first and the last token came from upstream.
    tokens: Option<(Moment, Moment)>,
    /// From arrival to the first token handed to the client's connection.
    handed: Option<Duration>,
    text_bytes: u64,
    /// Events with text.
    events: u64,
    usage: Option<Usage>,
    /// The choices that were written, a bit for each.
    choices: u64,
    /// Reasoning was shown as it came, and so is among the tokens seen.
    reasoning: bool,
    /// Who is to blame for its end, where that is not told by the outcome.
    blamed: Option<Blame>,
    /// Whether the attempt is over, and whether its request is, too.
    ended: bool,
    over: bool,
}

impl Meter {
    /// Takes over the request's place on the backend's engine.
    pub(in crate::gateway) fn begin(gauges: Gauges, seat: EnginePermit) -> Self {
        let Gauges { estimator, record, number, metrics, pool_metrics, backend, pool, caller, price, .. } = gauges;
        let Gauges { prompt_bytes, cached_tokens, .. } = gauges;
        let clock = record.clock();
        let now = clock.now();
        Self {
            arrived: record.arrived(),
            started: now,
            clock,
            estimator,
            record,
            number,
            metrics,
            pool_metrics,
            backend,
            pool,
            caller,
            price,
            prompt_bytes,
            cached_tokens,
            seat: Some(seat),
            vacated: None,
            committed: false,
            overhead: Duration::ZERO,
            tokens: None,
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

    /// The answer has begun. `read_at`: when the request had been read.
    pub(in crate::gateway) fn commit(&mut self, read_at: Moment) {
        self.committed = true;
        let waited = self.record.waited();
        self.overhead = self.clock.now().since(read_at).saturating_sub(waited);
        self.metrics.overhead(self.overhead.as_secs_f64());
    }

    /// Where the backend's figures are.
    pub(in crate::gateway) fn metrics(&self) -> Arc<BackendMetrics> {
        self.metrics.clone()
    }

    /// Place in the policy of the engine that answers.
    pub(in crate::gateway) fn engine(&self) -> usize {
        self.backend.spec.engine
    }

    /// Its place among the attempts at the request.
    pub(in crate::gateway) fn number(&self) -> usize {
        self.number
    }

    /// Our own share of the time to the head of the answer, in whole microseconds.
    pub(in crate::gateway) fn overhead_us(&self) -> u64 {
        self.overhead.as_micros() as u64
    }

    /// Time since the request's arrival.
    pub(in crate::gateway) fn age(&self) -> Duration {
        self.clock.now().since(self.arrived)
    }

    pub(in crate::gateway) fn fresh_connection_retry(&self) {
        self.metrics.fresh_connection_retry();
    }

    /// An event came from upstream.
    pub(in crate::gateway) fn read(&mut self, seen: &EventFacts) {
        self.choices |= seen.choices;
        self.reasoning |= seen.reasoning;
        if seen.token {
            self.text_bytes += seen.text_bytes as u64;
            self.events += 1;
        }
        if let Some(usage) = seen.usage {
            let usage = self.possible(usage, Some((self.text_bytes, self.events)));
            self.usage = Some(self.usage.map_or(usage, |before| before.with(usage)));
        }
        if seen.token {
            self.token();
            let tokens = self.backend.learned.bytes_per_token.tokens(self.text_bytes);
            self.seat.iter_mut().for_each(|seat| seat.streamed(tokens));
        }
    }

    fn token(&mut self) {
        let now = self.clock.now();
        if let Some((_, last)) = &mut self.tokens {
            self.metrics.gap(now.seconds_since(*last));
            *last = now;
        } else {
            self.tokens = Some((now, now));
            self.metrics.upstream_ttft(now.seconds_since(self.started), now);
            self.seat.iter_mut().for_each(|seat| seat.first_token(now));
        }
    }

    /// A token was handed to the client's connection.
    pub(in crate::gateway) fn hand(&mut self) {
        if self.handed.is_none() {
            let now = self.clock.now();
            let ttft = now.since(self.arrived);
            self.handed = Some(ttft);
            self.metrics.ttft(ttft.as_secs_f64(), now);
            self.pool_metrics.ttft(ttft.as_secs_f64(), now);
            self.record.note(|line| {
                line.ttft_ms = Some(millis(ttft));
                line.stage = Stage::Answer;
            });
        }
    }

    /// The usage of an answer that came whole, in so many bytes: by these it is estimated where there is none.
    pub(in crate::gateway) fn whole(&mut self, usage: Option<Usage>, bytes: usize) {
        self.text_bytes = bytes.saturating_sub(ENVELOPE) as u64;
        self.usage = usage.map(|usage| self.possible(usage, None));
    }

    /// The attempt failed before its answer had begun; the request may go on elsewhere.
    pub(in crate::gateway) fn fail(mut self, fault: &Fault) {
        self.judge(fault);
        self.end_attempt(Outcome::Failed(fault.kind));
    }

    /// The attempt broke off in mid-answer; the request may still get the rest from elsewhere.
    pub(in crate::gateway) fn break_off(&mut self, fault: &Fault) {
        self.judge(fault);
        self.end_attempt(Outcome::Failed(fault.kind));
        self.over = false;
    }

    /// The engine did nothing wrong, but its answer is of no use.
    pub(in crate::gateway) fn set_aside(&mut self) {
        self.serves();
        self.end_attempt(Outcome::Failed("another_answer"));
        self.over = false;
    }

    /// Goes on for the meter of an attempt that broke off.
    pub(in crate::gateway) fn take_over(&mut self, mut before: Self) {
        self.committed = std::mem::take(&mut before.committed);
        self.handed = before.handed.take();
        self.overhead = before.overhead;
        before.over = true;
    }

    /// The engine is done with the answer, though the client does not have it yet: the place there is free for others.
    pub(in crate::gateway) fn vacate(&mut self) {
        let (tpot, now) = (self.tpot(Outcome::Complete), self.clock.now());
        self.settle_account();
        if let Some(seat) = self.seat.take() {
            seat.finish(self.usage.as_ref(), tpot, now);
            self.vacated = Some(now);
        }
    }

    /// Whether its place on the engine is free for others.
    pub(in crate::gateway) fn is_vacated(&self) -> bool {
        self.vacated.is_some()
    }

    /// The answer is given up for a larger model's. Returns its tokens, by our own estimate where the engine has not counted them,
    /// and their cost.
    pub(in crate::gateway) fn give_up(mut self) -> (Usage, Option<f64>) {
        self.serves();
        self.backend.engine.set_reachable(true);
        self.learn(Outcome::Escalated, self.clock.now());
        let usage = self.usage.unwrap_or_else(|| self.estimate());
        self.end_attempt(Outcome::Escalated);
        (usage, self.price.map(|price| price.cost(&usage)))
    }

    /// Notes that the engine failed.
    fn blame(&self) {
        self.record
            .note(|line| line.attempts.get_mut(self.number).into_iter().for_each(|attempt| attempt.failed = true));
    }

    /// The engine refused the request for what is its client's own doing: nothing is wrong with the engine.
    pub(in crate::gateway) fn refuse(&mut self) {
        self.blamed = Some(Blame::Client);
        self.record.note(|line| line.blame = Some(Blame::Client));
    }

    /// The answer is over. Only the first call counts.
    pub(in crate::gateway) fn finish(&mut self, outcome: Outcome) {
        if self.over {
            return;
        }
        let now = self.clock.now();
        let tpot = self.tpot(outcome);
        // Before the seat is given up: whoever gets its place looks at the breaker.
        match outcome {
            _ if self.blamed == Some(Blame::Client) => self.serves(),
            Outcome::Complete => {
                self.pool.retries.earn(self.caller.as_ref());
                self.serves();
                self.backend.engine.set_reachable(true);
            }
            _ if self.ended || !outcome.blames_engine() => {}
            _ => self.fails(Failure::Error, outcome.label()),
        }
        if outcome.blames_engine() && self.blamed != Some(Blame::Client) {
            self.blame();
        }
        self.settle_account();
        if let Some(seat) = self.seat.take_if(|_| outcome == Outcome::Complete) {
            seat.finish(self.usage.as_ref(), tpot, now);
        }
        self.end_attempt(outcome);
        self.learn(outcome, now);
        self.metrics.request(outcome);
        if outcome == Outcome::Complete {
            let whole = now.seconds_since(self.arrived);
            self.metrics.e2e(whole, now);
            if self.handed.is_some() {
                self.metrics.streamed(whole, now);
            }
        }
        if let Some(tpot) = tpot {
            self.metrics.tpot(tpot, now);
        }
        let upstream_ttft = self.tokens.map(|(first, _)| first.since(self.started));
        self.record.note(|line| {
            line.answered = Some(self.number);
            line.usage = self.usage;
            line.upstream_ttft_ms = upstream_ttft.map(millis);
            line.tpot_ms = tpot.map(|seconds| seconds * 1e3);
            line.overhead_us = Some(self.overhead.as_secs_f64() * 1e6);
        });
        self.record.settle(outcome);
        self.metrics.settle(self.clock.now().seconds_since(now));
    }

    /// Tells the account what was used of it, by our estimate where the engine has not counted. Nothing came: nothing was used.
    fn settle_account(&mut self) {
        let begun = || self.tokens.map(|_| self.estimate());
        let usage = self.usage.or_else(begun).unwrap_or_default();
        self.seat.iter_mut().for_each(|seat| seat.used(usage.total()));
    }

    fn end_attempt(&mut self, outcome: Outcome) {
        self.over = true;
        let unseen = if self.ended { None } else { self.unseen(outcome) };
        if let Some(usage) = unseen {
            self.seat.iter_mut().for_each(|seat| seat.used(usage.total()));
        }
        self.settle_account();
        self.seat = None;
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.metrics.attempt(outcome);
        if let Some(usage) = &self.usage {
            self.metrics.usage(usage, self.clock.now());
            if let Some(reported) = usage.cached_tokens {
                self.metrics.prefix(usage.prompt_tokens, self.cached_tokens, reported);
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
        let ttft = self.tokens.map(|(first, _)| millis(first.since(self.started)));
        let ended_ms = millis(self.clock.now().since(self.arrived));
        self.record.note(|line| {
            if let Some(usage) = uncounted {
                line.uncounted.tokens = line.uncounted.tokens.saturating_add(usage.total());
                line.uncounted.usd += self.price.map_or(0.0, |price| price.cost(&usage));
            }
            if let Some(attempt) = line.attempts.get_mut(self.number) {
                attempt.outcome = Some(outcome.label());
                attempt.ended_ms = Some(ended_ms);
                attempt.ttft_ms = ttft;
                attempt.usage = usage;
                attempt.uncounted = uncounted;
                attempt.usage_estimated = estimate.is_some();
                attempt.cost_usd = cost;
                attempt.reported_cached_tokens = self.usage.and_then(|usage| usage.cached_tokens);
            }
        });
    }

    fn learn(&self, outcome: Outcome, now: Moment) {
        let learned = &self.backend.learned;
        if let Some(usage) = self.usage.filter(|usage| usage.prompt_tokens > 0) {
            learned.bytes_per_token.observe(self.prompt_bytes, usage.prompt_tokens);
            self.estimator.bytes_per_token.observe(self.prompt_bytes, usage.prompt_tokens);
            self.record.counted(usage.prompt_tokens);
        }
        if let Some(usage) = self.usage.filter(|_| outcome == Outcome::Complete && self.choices.is_power_of_two()) {
            learned.streamed(self.events, usage.shown_tokens(self.reasoning));
        }
        let latency = match self.tokens {
            Some((first, _)) => Some(first.since(self.started)),
            None if outcome == Outcome::Complete => Some(self.vacated.unwrap_or(now).since(self.started)),
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
