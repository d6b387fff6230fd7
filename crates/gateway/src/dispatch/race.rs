//! Runs attempts until one has begun to answer. The next attempt follows one that failed, or runs beside one that stays
//! silent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::select_all;
use http::StatusCode;
use tokio::time::{Instant, sleep_until};

use super::{
    attempt::{Attempt, Job, Spot},
    hedge::Clocks,
    hold_back::steady,
    retry::Failures,
};
use crate::{
    breaker_log,
    placement::{PlacementRequest, Reservation},
    relay::Committed,
};
use signalbox_fleet::Failure;
use signalbox_policy::Timeouts;
use signalbox_schedule::{admission::RECHECK_INTERVAL, hedge::Alternative};
use signalbox_types::{
    Blame, Fault, Moment, Retry,
    fault::{ABSENT, DEADLINE, INEXPRESSIBLE},
};

/// Most concurrent attempts at one request.
const MAX_PARALLEL_ATTEMPTS: usize = 4;
/// Interval at which a request that cannot leave a late backend checks again.
const LATE_RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Limit for a request whose route sets none. If no other backend is left, a late answer is better than none, but one
/// that has not begun by then never will.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// Tries backends, beginning with the one in `first`, until one has begun to answer.
pub(super) async fn commit(job: &Job, asked: &mut PlacementRequest, first: Reservation) -> Result<Committed, Fault> {
    let record = &job.call.record;
    let deadline = Deadline::new(&asked.route.timeouts, asked.state.clock.now().since(asked.arrived));
    let mut race = Race { job, asked, failures: Failures::default(), awaited: Vec::new(), late: Vec::new() };
    let (mut clocks, attempt) = race.begin(&first);
    let mut under_way = vec![Box::pin(attempt.run(first))];
    loop {
        let look = clocks.next().map_or(deadline.at, |at| at.min(deadline.at));
        // Never empty: an attempt follows one that ended, or the request is over.
        let ended = tokio::select! {
            biased;
            (ended, at, _) = select_all(under_way.iter_mut()) => Some((ended, at)),
            () = sleep_until(look) => None,
        };
        let ended = ended.map(|(ended, at)| {
            drop(under_way.swap_remove(at));
            ended
        });
        let ended = match ended {
            Some((spot, Ok(mut committed))) => {
                // The other attempts are recorded as outrun.
                record.won(true);
                under_way.clear();
                record.won(false);
                race.won(spot);
                let Err(fault) = steady(job, race.asked, &mut committed).await else { return Ok(committed) };
                committed.fail(&fault);
                Some((spot, fault))
            }
            Some((spot, Err(fault))) => Some((spot, fault)),
            None => None,
        };
        let placed = match ended {
            Some((spot, fault)) => {
                // A fault of the request is the same at every backend. After any other fault, the remaining attempts
                // may still succeed.
                let hopeless = fault.retry == Retry::Never && fault.blame == Blame::Client;
                race.ended(spot, &fault);
                if !under_way.is_empty() && !hopeless {
                    race.failures.note(fault);
                    race.goes_on(&mut clocks);
                    continue;
                }
                let next = Box::pin(race.failures.next(&job.call, race.asked, spot, fault));
                match tokio::time::timeout_at(deadline.at, next).await {
                    Ok(placed) => Some(placed?),
                    Err(_) => return Err(race.failures.answer(deadline.missed())),
                }
            }
            None if Instant::now() >= deadline.at => return Err(race.failures.answer(deadline.missed())),
            None => race.beside(&mut clocks, under_way.len()),
        };
        if let Some(placed) = placed {
            let (next, attempt) = race.begin(&placed);
            clocks = next;
            under_way.push(Box::pin(attempt.run(placed)));
        }
    }
}

/// The attempts at one request.
struct Race<'a> {
    job: &'a Job,
    asked: &'a mut PlacementRequest,
    failures: Failures,
    /// Attempts whose answer has not begun.
    awaited: Vec<Awaited>,
    /// Attempts that are late.
    late: Vec<Awaited>,
}

/// An attempt whose answer has not begun.
struct Awaited {
    spot: Spot,
    since: Moment,
    has_head: Arc<AtomicBool>,
}

impl Awaited {
    /// Failure to count if the attempt is late. It depends on whether the response head has arrived.
    fn failure(&self) -> Failure {
        if self.has_head.load(Relaxed) { Failure::Error } else { Failure::Lost }
    }
}

impl<'a> Race<'a> {
    /// Records the start of an attempt and returns its clocks.
    fn begin(&mut self, placed: &Reservation) -> (Clocks, Attempt<'a>) {
        let now = self.asked.state.clock.now();
        if self.asked.is_new() {
            self.asked.pool(placed.target).1.learned.hedges.earn();
        }
        self.asked.wanted(placed.target, now);
        self.asked.tries(placed);
        let attempt = Attempt::new(self.job, self.asked, placed.pool);
        let spot = Spot { target: placed.target, backend: placed.backend };
        self.awaited.push(Awaited { spot, since: now, has_head: attempt.has_head.clone() });
        (Clocks::start(self.asked, placed, self.job.streams(), now), attempt)
    }

    /// Records that the attempt at `spot` has begun to answer. Late attempts beside it have failed.
    fn won(&mut self, spot: Spot) {
        self.awaited.clear();
        let late = std::mem::take(&mut self.late);
        // Late streams were counted when they became late.
        for late in late.iter().filter(|late| late.spot != spot && !self.job.streams()) {
            self.fails(late);
        }
    }

    /// Records that the attempt at `spot` is over, and excludes the backends that would fail the same way.
    fn ended(&mut self, spot: Spot, fault: &Fault) {
        self.awaited.retain(|it| it.spot != spot);
        self.late.retain(|it| it.spot != spot);
        match fault.kind {
            INEXPRESSIBLE => self.asked.leave_dialect(spot.target, spot.backend),
            ABSENT => self.asked.leave_account(spot.target, spot.backend),
            _ => {}
        }
    }

    /// Leaves it to the attempts under way. If all of them are late, another backend is asked at once.
    fn goes_on(&self, clocks: &mut Clocks) {
        if self.awaited.is_empty() {
            clocks.limit_at = Some(Instant::now());
        }
    }

    /// Counts a late attempt as a failure in its backend's breakers.
    fn fails(&self, late: &Awaited) {
        let now = self.asked.state.clock.now();
        let pool = &self.asked.pool(late.spot.target).1.spec.name;
        let backend = self.asked.backend(late.spot.target, late.spot.backend);
        self.job.call.record.progress().attempts_late(pool, backend.name());
        if backend.failed(late.since, now, late.failure()) {
            breaker_log::opened(&backend, "first_token_late", now);
        }
    }

    /// Returns a reservation for another attempt beside the `under_way` ones, if one is due and allowed.
    fn beside(&mut self, clocks: &mut Clocks, under_way: usize) -> Option<Reservation> {
        let (now, at) = (self.asked.state.clock.now(), Instant::now());
        if clocks.hedge_at.is_some_and(|hedge| hedge <= at) {
            clocks.not_hedged(now);
            // The duration of reasoning is not predicted.
            if under_way == 1
                && !self.job.reasons()
                && let Some(placed) = self.hedge(clocks)
            {
                self.count(&placed, "hedge");
                return Some(placed);
            }
        }
        let is_late = clocks.limit_at.is_some_and(|limit| limit <= at);
        let is_doubted = clocks.doubt_at <= at;
        if is_doubted {
            clocks.doubt_at = at + LATE_RECHECK_INTERVAL;
        }
        // A backend that is found to be down is left before its time is over.
        let is_down = || self.awaited.iter().any(|awaited| self.is_down(awaited, now));
        if !is_late && (!is_doubted || !self.asked.moves_free(now) || !is_down()) {
            return None;
        }
        if self.job.reasons() && clocks.allow_thinking() {
            return None;
        }
        // A stream is late by the gateway's own limit. A whole answer may take long and is late only once another
        // backend has answered.
        for late in std::mem::take(&mut self.awaited) {
            if self.job.streams() {
                self.fails(&late);
            }
            self.late.push(late);
        }
        clocks.limit_at = None;
        if !self.job.call.is_repeatable() {
            return None;
        }
        // Checks again soon: room or a retry may become available, or the slow backend's breaker may open.
        let untried = self.asked.has_untried();
        clocks.limit_at = Some(at + if untried { RECHECK_INTERVAL } else { LATE_RECHECK_INTERVAL });
        let is_free = self.leaves_free(now);
        let target = self.late.first().map_or(0, |late| late.spot.target);
        if under_way >= MAX_PARALLEL_ATTEMPTS || !(is_free || self.failures.charge(self.asked, target)) {
            return None;
        }
        let placed = if untried { self.asked.place(now) } else { self.place_of_lost(now) };
        match &placed {
            Some(placed) => self.count(placed, "late"),
            None if !is_free => self.failures.refund(self.asked),
            None => {}
        }
        placed
    }

    /// True if another attempt beside the late ones is free of charge: one of their backends has an open breaker, and
    /// another backend is in good standing.
    ///
    /// Otherwise the retry budget is charged, since all backends may be slow from overload.
    fn leaves_free(&self, now: Moment) -> bool {
        self.asked.moves_free(now) && self.late.iter().any(|late| self.is_down(late, now))
    }

    fn is_down(&self, awaited: &Awaited, now: Moment) -> bool {
        let backend = self.asked.backend(awaited.spot.target, awaited.spot.backend);
        backend.breaker.is_open(now) || backend.engine.breaker.is_open(now)
    }

    /// Reserves a late backend that has served newer requests, which shows that it lost this one. Used if no untried
    /// backend is left.
    ///
    /// Applies only to streams that begin once the prompt is read. A long whole answer or long reasoning can be
    /// overtaken without being lost.
    fn place_of_lost(&mut self, now: Moment) -> Option<Reservation> {
        if !self.job.streams() || self.job.reasons() {
            return None;
        }
        let served_others = |Awaited { spot, since, .. }: &Awaited| {
            self.asked.pool(spot.target).1.backends[spot.backend].engine.load.has_served_after(*since)
        };
        let at = self.late.iter().position(served_others)?;
        let spot = self.late[at].spot;
        let placed = self.asked.place_again(spot.target, spot.backend, now)?;
        self.late.swap_remove(at);
        Some(placed)
    }

    fn count(&self, placed: &Reservation, why: &'static str) {
        self.asked.serving.pool_meter(placed.pool).further(why);
    }

    /// Reserves a backend for a hedge if one pays off and is in the budget. A pool with a price is hedged only if the
    /// route says so.
    fn hedge(&self, clocks: &Clocks) -> Option<Reservation> {
        let now = self.asked.state.clock.now();
        if !self.job.call.is_repeatable() {
            return None;
        }
        // Without spilling, other pools are used only after failures.
        let chosen = self.asked.choose(now).filter(|chosen| self.asked.route.spill || chosen.target() == 0)?;
        let pool = self.asked.pool(chosen.target()).1;
        let work = &chosen.forecast().work;
        let other = Alternative { ttft: work.prediction.seconds, uncached: work.uncached_tokens };
        let may = self.asked.route.hedge.unwrap_or(pool.spec.price.is_none());
        let pays = may && !chosen.is_avoided() && clocks.awaited?.pays(&other, now) && pool.learned.hedges.take();
        if !pays {
            return None;
        }
        self.asked.take(chosen, now)
    }
}

/// Moment by which an answer must have begun.
#[derive(Copy, Clone)]
struct Deadline {
    at: Instant,
    limit: Duration,
    /// True if the policy sets the limit.
    total: bool,
}

impl Deadline {
    /// Computes the deadline of a request of this `age`.
    fn new(timeouts: &Timeouts, age: Duration) -> Self {
        let limit = timeouts.total.unwrap_or(LONGEST_WAIT);
        Self { at: Instant::now() + limit.saturating_sub(age), limit, total: timeouts.total.is_some() }
    }

    /// Fault for a missed deadline.
    fn missed(self) -> Fault {
        let seconds = self.limit.as_secs_f64();
        let (kind, message) = if self.total {
            (DEADLINE, format!("no answer came within the {seconds} s that the route allows (timeouts.total)"))
        } else {
            ("first_token_timeout", format!("no backend gave a first token within {seconds} s"))
        };
        Fault { retry: Retry::Never, ..Fault::upstream(StatusCode::GATEWAY_TIMEOUT, kind, message) }
    }
}
