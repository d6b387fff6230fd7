//! Cascade: checks the answer of a smaller model before the client receives any of it.
//!
//! If the answer fails the check, a larger model is asked. The first answer is discarded only once the larger model has
//! begun to answer, so that it is never lost for one that may not come.
//!
//! A stream that is still under way does not wait for room at the larger pool. Its engine would be held up for nothing
//! meanwhile, and two pools that cascade into each other, or share an engine, could deadlock.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::{attempt::Job, race::commit};
use crate::{
    placement::{PlacementRequest, Tries, enter},
    relay::{Answer, Committed, Events, Held, Meter, cut},
};
use signalbox_journal::CascadeResult;
use signalbox_policy::{Cascade, Route, Timeouts};
use signalbox_protocol::{AnswerRequirements, Event, EventFacts, LONG_BODY, PartialAnswer, verdict::AnswerCriteria};
use signalbox_types::{Check, Fault};

/// Longest whole answer that is checked, in bytes.
const MAX_CHECKED_BYTES: usize = 8 << 20;
/// Time that a stream may take after its content is complete to report its usage and end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Check of a first answer, and escalation to the cascade's larger pool.
pub(super) struct Escalation<'a> {
    pub(super) job: &'a Job,
    pub(super) asked: &'a PlacementRequest,
    pub(super) cascade: &'a Cascade,
}

/// Result of checking an answer.
enum Found {
    /// The answer passes, as far as it was received.
    Good,
    /// The answer cannot be read.
    Unread,
    /// The answer fails the check `why`. `fault` is set if its stream broke off.
    Bad { why: &'static str, fault: Option<Fault> },
}

/// Content of a held-back stream so far.
#[derive(Default)]
struct Watch {
    draft: PartialAnswer,
    /// True if the stream has announced its end.
    done: bool,
}

/// Reason for keeping a first answer that fails the check.
enum Kept {
    TooLate,
    Failed,
}

impl Escalation<'_> {
    /// Returns the answer for the client: the first one or a larger model's.
    pub(super) async fn judge(&self, mut first: Committed) -> Committed {
        let to = &self.asked.serving.snapshot.pools[self.cascade.to.pool].spec.name;
        if !PartialAnswer::reads(first.endpoint) || first.decision.pool == *to {
            return first;
        }
        let until = Instant::now() + self.left(&first.meter);
        let found = match &mut first.answer {
            Answer::Whole(body) => {
                let found = self.look(body.clone()).await;
                if matches!(found, Found::Bad { .. }) {
                    first.meter.release_engine();
                }
                found
            }
            Answer::Events { events, .. } => self.hold(events, &mut first.meter, until).await,
            Answer::Opaque(_) => Found::Unread,
        };
        let (result, check) = match found {
            Found::Good => ("kept", None),
            Found::Unread => ("unchecked", None),
            Found::Bad { why, fault } => match self.escalate(&first.meter, until).await {
                Ok(second) => {
                    self.give_up(first, fault);
                    first = second;
                    ("escalated", Some(why))
                }
                Err(Kept::TooLate) => ("too_late", Some(why)),
                Err(Kept::Failed) => ("failed", Some(why)),
            },
        };
        let cascaded = CascadeResult { result, check };
        self.job.call.record.metrics().cascade(&self.asked.route.name).result(result);
        self.job.call.record.progress().cascaded(cascaded);
        first.decision.cascade = Some(cascaded);
        first
    }

    /// Time left for asking a larger model.
    fn left(&self, meter: &Meter) -> Duration {
        let last = self.asked.route.last_escalation(self.cascade, self.job.call.body.stream);
        last.saturating_sub(meter.age())
    }

    fn bar(&self) -> impl FnOnce() -> AnswerCriteria + Send + 'static {
        let (checks, min_logprob, body) = (self.cascade.checks, self.cascade.min_logprob, self.job.call.body.clone());
        move || AnswerCriteria { checks, min_logprob, wanted: AnswerRequirements::read(&body) }
    }

    /// Checks a whole answer.
    async fn look(&self, body: Bytes) -> Found {
        if body.len() > MAX_CHECKED_BYTES {
            return Found::Unread;
        }
        let (bar, length) = (self.bar(), body.len().max(self.job.call.body.bytes().len()));
        let found = aside(length, move || match PartialAnswer::whole(&body) {
            Some(draft) => bar().fails(&draft).map_or(Found::Good, bad),
            None => Found::Unread,
        });
        found.await.unwrap_or(Found::Unread)
    }

    /// Holds a stream back until enough of it has arrived, it ends or fails, or time is up.
    async fn hold(&self, events: &mut Events, meter: &mut Meter, until: Instant) -> Found {
        let Some(bar) = aside(self.job.call.body.bytes().len(), self.bar()).await else { return Found::Unread };
        let clock = self.asked.state.clock;
        let began = clock.now();
        let mut watch = Watch::default();
        events.held().for_each(|(event, seen)| watch.take(event, seen));
        let found = loop {
            let draft = &watch.draft;
            let enough = watch.done || draft.is_over() || draft.pieces().max(meter.token_count()) >= self.cascade.hold;
            // Not at every event, since the text to check grows with each one.
            if (enough || draft.pieces().is_power_of_two())
                && let Some(check) = bar.fails(draft)
            {
                break bad(check);
            }
            if enough {
                break if draft.is_blank() { Found::Unread } else { Found::Good };
            }
            match timeout_at(until, watch.next(events, meter)).await {
                Ok(Held::One) => {}
                Ok(Held::End) if watch.draft.is_blank() => break Found::Unread,
                Ok(Held::End) => break broken(cut("before its end")),
                Ok(Held::Broken(fault)) => break broken(fault),
                // No more will be known in time.
                Ok(Held::Full) | Err(_) => break bar.fails(&watch.draft).map_or(Found::Good, bad),
            }
        };
        if matches!(found, Found::Bad { fault: None, .. }) && watch.draft.is_over() {
            let last = until.min(Instant::now() + LAST_WORDS);
            while !watch.done && matches!(timeout_at(last, watch.next(events, meter)).await, Ok(Held::One)) {}
            meter.release_engine();
        }
        self.job.call.record.wait(clock.now().since(began));
        found
    }

    /// Asks the larger pool.
    async fn escalate(&self, first: &Meter, until: Instant) -> Result<Committed, Kept> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Kept::TooLate);
        }
        let PlacementRequest { route, serving, .. } = self.asked;
        let most = route.queue.unwrap_or(serving.snapshot.policy.limits.queue_wait);
        let queue_wait = if first.has_released_engine() { most.min(left) } else { Duration::ZERO };
        // The client's limit on the first token applies to the larger model too.
        let first_token = route.timeouts.first_token.filter(|_| self.job.call.body.stream);
        let total = [route.timeouts.total, first_token];
        let timeouts = Timeouts { total: total.into_iter().flatten().min(), ..route.timeouts };
        let to = vec![self.cascade.to.clone()];
        let larger = Route { targets: to, timeouts, queue: Some(queue_wait), cascade: None, ..Route::clone(route) };
        let tries = vec![Tries::none(serving, &self.cascade.to, &route.name)];
        let mut asked = PlacementRequest { route: larger.into(), tries, escalates: true, ..self.asked.clone() };
        let placed = enter(&asked, &self.job.call.record).await.map_err(|_| Kept::Failed)?;
        let bound = asked.bound(asked.state.clock.now()).filter(|_| self.job.call.body.stream);
        if bound.is_some_and(|bound| placed.entry.predicted.ttft_ms > bound.as_secs_f64() * 1e3) {
            return Err(Kept::TooLate);
        }
        commit(self.job, &mut asked, placed).await.map_err(|_| Kept::Failed)
    }

    /// Discards the first answer and records its fault, or its usage and cost.
    fn give_up(&self, first: Committed, fault: Option<Fault>) {
        let Committed { answer, meter, .. } = first;
        // Drops the upstream response first, so that the engine stops before its permit is released.
        drop(answer);
        if let Some(fault) = fault {
            meter.fail(&fault);
        } else {
            let (usage, cost) = meter.give_up();
            self.job.call.record.metrics().cascade(&self.asked.route.name).discarded(&usage, cost);
        }
    }
}

impl Watch {
    /// Holds one more event back.
    async fn next(&mut self, events: &mut Events, meter: &mut Meter) -> Held {
        let look = |event: &Event, seen: &EventFacts| {
            meter.read(seen);
            self.take(event, seen);
        };
        events.hold(look).await
    }

    fn take(&mut self, event: &Event, seen: &EventFacts) {
        self.done |= seen.done;
        if let Some(data) = event.data() {
            self.draft.push(&data);
        }
    }
}

fn bad(check: Check) -> Found {
    Found::Bad { why: check.name(), fault: None }
}

fn broken(fault: Fault) -> Found {
    Found::Bad { why: "broken", fault: Some(fault) }
}

/// Runs `work` on `length` bytes. If they are many, it runs on a blocking thread, since it would hold up a worker.
async fn aside<T: Send + 'static>(length: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if length <= LONG_BODY {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}
