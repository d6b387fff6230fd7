//! Attempts until one has begun to answer: one after the other where they fail, beside one another where one says nothing.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until};

use super::{
    attempt::Attempt,
    deadline::Deadline,
    early::Clocks,
    hold_back::steady,
    job::{Job, Spot},
    next::Failures,
};
use crate::{
    fleet::Failure,
    gateway::{
        asked::{Asked, Placed},
        relay::Committed,
    },
    schedule::{admission::LOOK, hedge::Alternative},
    types::{Blame, Fault, Moment, Retry},
};

/// Most attempts at a request that are under way at once.
const MOST_BESIDE: usize = 3;
/// How often it is looked again whether a request was lost.
const AGAIN: Duration = Duration::from_secs(5);

/// Tries backends, from the first one placed on, until one has begun to answer.
pub(super) async fn commit(job: &Job, asked: &mut Asked, first: Placed) -> Result<Committed, Fault> {
    let record = &job.call.record;
    let deadline = Deadline::new(&asked.route.timeouts, asked.desk.clock.now().since(asked.arrived));
    let mut race = Race { job, asked, failures: Failures::default(), awaited: Vec::new(), late: Vec::new() };
    let mut under_way = FuturesUnordered::new();
    let mut clocks = race.begin(&first);
    under_way.push(race.attempt().run(first));
    loop {
        let look = clocks.next().map_or(deadline.at, |at| at.min(deadline.at));
        let ended = tokio::select! {
            biased;
            Some(ended) = under_way.next() => Some(ended),
            () = sleep_until(look) => None,
        };
        let ended = match ended {
            Some((spot, Ok(committed))) => {
                // The others end as outrun.
                record.won(true);
                under_way.clear();
                record.won(false);
                race.awaited.clear();
                race.late.clear();
                match steady(job, race.asked, committed).await {
                    Ok(committed) => return Ok(committed),
                    Err(fault) => Some((spot, fault)),
                }
            }
            Some((spot, Err(fault))) => Some((spot, fault)),
            None => None,
        };
        let placed = match ended {
            Some((spot, fault)) => {
                let is_other =
                    |(other, _): &(Spot, Moment)| (other.target, other.backend) != (spot.target, spot.backend);
                race.awaited.retain(is_other);
                race.late.retain(is_other);
                // What is wrong with the request is wrong everywhere; all else leaves the others their chance.
                let hopeless = fault.retry == Retry::Never && fault.blame == Blame::Client;
                if !under_way.is_empty() && !hopeless {
                    race.failures.note(fault);
                    if race.awaited.is_empty() {
                        // Those that are left are late: they are not to be depended on.
                        clocks.limit_at = Some(Instant::now());
                    }
                    continue;
                }
                let next = race.failures.next(&job.call, race.asked, spot, fault);
                match tokio::time::timeout_at(deadline.at, next).await {
                    Ok(placed) => Some(placed?),
                    Err(_) => return Err(race.failures.tell(deadline.missed())),
                }
            }
            None if Instant::now() >= deadline.at => return Err(race.failures.tell(deadline.missed())),
            None => race.beside(&mut clocks, under_way.len()),
        };
        if let Some(placed) = placed {
            clocks = race.begin(&placed);
            under_way.push(race.attempt().run(placed));
        }
    }
}

/// The attempts at one request.
struct Race<'a> {
    job: &'a Job,
    asked: &'a mut Asked,
    failures: Failures,
    /// Those whose answer is still to begin, and since when they are asked.
    awaited: Vec<(Spot, Moment)>,
    /// Those that are late.
    late: Vec<(Spot, Moment)>,
}

impl<'a> Race<'a> {
    /// Notes that an attempt begins.
    fn begin(&mut self, placed: &Placed) -> Clocks {
        let now = self.asked.desk.clock.now();
        let learned = &self.asked.pool(placed.target).1.learned;
        if self.asked.is_new() {
            learned.retries.earn();
            learned.hedges.earn();
        }
        self.asked.tries(placed);
        self.awaited.push((Spot { target: placed.target, backend: placed.backend }, now));
        Clocks::start(self.asked, placed.target, &placed.forecast, self.job.streams(), now)
    }

    fn attempt(&self) -> Attempt<'a> {
        Attempt { job: self.job, desk: self.asked.desk.clone(), prompt_bytes: self.asked.blocks.prompt().bytes }
    }

    /// It is time to look whether another is to be asked beside those `under_way`: the place for it, if so.
    fn beside(&mut self, clocks: &mut Clocks, under_way: usize) -> Option<Placed> {
        let (now, at) = (self.asked.desk.clock.now(), Instant::now());
        if clocks.hedge_at.is_some_and(|hedge| hedge <= at) {
            clocks.not_hedged(now);
            // How long a model thinks is not predicted.
            if under_way == 1
                && !self.job.reasons()
                && let Some(placed) = self.hedge(clocks)
            {
                self.count(&placed, "hedge");
                return Some(placed);
            }
        }
        if clocks.limit_at.is_none_or(|limit| limit > at) {
            return None;
        }
        if self.job.reasons() && clocks.allow_thinking() {
            return None;
        }
        // A stream is late by our own measure, too; of a whole answer nobody knows how long it takes.
        for (spot, since) in self.awaited.drain(..) {
            let pool = self.asked.pool(spot.target).1;
            let backend = &pool.backends[spot.backend];
            if self.job.streams() {
                backend.engine.breaker.failed(now, Failure::Error);
                self.job.call.record.note(|line| line.late(&pool.spec.name, backend.name()));
            }
            self.late.push((spot, since));
        }
        clocks.limit_at = None;
        if under_way >= MOST_BESIDE || !self.job.call.is_repeatable() {
            return None;
        }
        let untried = self.asked.has_untried();
        let placed = if untried { self.asked.place(now) } else { self.place_of_lost(now) };
        if placed.is_none() && !untried {
            clocks.limit_at = Some(at + AGAIN);
        } else if placed.is_none() {
            // There is no room now; there may be in a moment.
            clocks.limit_at = Some(at + LOOK);
        }
        let placed = placed.filter(|placed| self.asked.pool(placed.target).1.learned.retries.take())?;
        self.count(&placed, "late");
        Some(placed)
    }

    /// With nobody left to ask: a place where this request was asked in vain while newer ones were served, so that it must have been lost.
    /// Only for streams that begin when the prompt is read: a long answer that comes whole, or a long thought, is overtaken and not lost.
    fn place_of_lost(&mut self, now: Moment) -> Option<Placed> {
        if !self.job.streams() || self.job.reasons() {
            return None;
        }
        let served_others = |(spot, since): &(Spot, Moment)| {
            self.asked.pool(spot.target).1.backends[spot.backend].engine.load.has_served_after(*since)
        };
        let at = self.late.iter().position(served_others)?;
        let (spot, _) = self.late[at];
        let placed = self.asked.place_again(spot.target, spot.backend, now)?;
        self.late.swap_remove(at);
        Some(placed)
    }

    fn count(&self, placed: &Placed, why: &'static str) {
        self.asked.serving.pool_meter(placed.pool).further(why);
    }

    /// The place for a hedge, if one pays, is in the budget, and costs nobody money.
    fn hedge(&self, clocks: &Clocks) -> Option<Placed> {
        let now = self.asked.desk.clock.now();
        if !self.job.call.is_repeatable() {
            return None;
        }
        // Without spilling, other pools are for failures alone.
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
