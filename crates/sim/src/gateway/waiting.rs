//! Waiting requests of a simulated gateway: queued for room, or held back for batching.

use std::{mem, time::Duration};

use super::{Chosen, Command, Gateway};
use signalbox_schedule::admission::{RECHECK_INTERVAL, TryAdmit, Wait, WaitLimit, Waiting, due, late};
use signalbox_telemetry::Shed;
use signalbox_types::Moment;

impl Gateway {
    pub(super) fn wait(
        &mut self,
        now: Moment,
        number: u32,
        preferred: usize,
        chosen: Option<&Chosen>,
        out: &mut Vec<Command>,
    ) {
        let limits = self.snapshot.policy.limits;
        let Some(open) = self.open.get_mut(&number) else { return };
        open.begin_to_wait(chosen.is_some_and(|chosen| chosen.held));
        let WaitLimit { time, ends_late } = open.wait_limit(limits.queue_wait, now);
        open.ends_late = ends_late;
        let deadline = now.plus(time.max(Duration::from_nanos(1)));
        let pool = open.route().targets[preferred].pool;
        let overload = self.snapshot.pools[pool].spec.overload;
        let prefill = chosen.map_or(0.0, |chosen| chosen.placement.forecast.work.prefill);
        let (ttft_limit, _) = open.limits(preferred, &self.snapshot.pools, now);
        let waiting = Waiting {
            caller: open.session(),
            work: prefill,
            priority: open.priority(),
            due: due(now, prefill),
            deadline: Some(deadline),
            late: late(overload, now, prefill, ttft_limit),
            item: number,
        };
        let Ok(displaced) = self.queues.join(pool, waiting, now) else {
            // There may be room that no waiting request can use.
            return self.give_up(now, number, Shed::Full, out);
        };
        out.push(Command::Wake(deadline));
        self.look_again(now, out);
        if let Some(displaced) = displaced {
            self.give_up(now, displaced, Shed::Full, out);
        }
        self.admit_waiting(now, out);
    }

    /// Schedules a retry of the waiting requests, unless one is scheduled.
    fn look_again(&mut self, now: Moment, out: &mut Vec<Command>) {
        if self.look_at <= now {
            self.look_at = now.plus(RECHECK_INTERVAL);
            out.push(Command::Wake(self.look_at));
        }
    }

    /// Refuses a request whose wait is over. A request that was only held back is dispatched instead.
    fn give_up(&mut self, now: Moment, number: u32, reason: Shed, out: &mut Vec<Command>) {
        let chosen = self.choose(now, number);
        if !chosen.is_some_and(|chosen| self.launch(now, number, &chosen, false, out)) {
            self.refuse(number, reason.label(), out);
        }
    }

    /// Admits the waiting requests that find room now.
    pub(super) fn admit_waiting(&mut self, now: Moment, out: &mut Vec<Command>) {
        if self.queues.is_empty() {
            return;
        }
        let mut queues = mem::take(&mut self.queues);
        queues.admit(&mut Admission { gateway: self, out }, now);
        self.queues = queues;
    }

    /// Expires waits, and retries the waiting requests.
    pub(super) fn pass_time(&mut self, now: Moment, out: &mut Vec<Command>) {
        for number in self.queues.expired(now) {
            if self.open.get(&number).is_some_and(|open| open.ends_late) {
                self.refuse(number, Shed::Slo.label(), out);
            } else {
                self.give_up(now, number, Shed::Timeout, out);
            }
        }
        if !self.queues.is_empty() && self.look_at <= now {
            self.admit_waiting(now, out);
            self.look_again(now, out);
        }
    }
}

/// A gateway while its queues are taken out for a retry.
struct Admission<'a> {
    gateway: &'a mut Gateway,
    out: &'a mut Vec<Command>,
}

impl TryAdmit<u32> for Admission<'_> {
    fn try_admit(&mut self, number: &u32, now: Moment) -> Result<(), Wait> {
        let chosen = self.gateway.choose(now, *number).ok_or(Wait::Full)?;
        if chosen.held {
            return Err(Wait::Held(chosen.weighed));
        }
        self.gateway.launch(now, *number, &chosen, false, self.out).then_some(()).ok_or(Wait::Full)
    }

    fn was_held(&self, number: &u32) -> bool {
        self.gateway.open.get(number).is_some_and(|open| open.kept)
    }

    fn kind(&self, number: &u32) -> u64 {
        self.gateway.open.get(number).map_or(0, |open| open.kind)
    }
}
