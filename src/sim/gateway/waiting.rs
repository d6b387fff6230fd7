//! Requests that wait in a simulated gateway: for room, or for an engine that has enough to do.

use std::time::Duration;

use super::{Chosen, Command, Gateway};
use crate::{
    schedule::admission::{Looks, due},
    sim::hall::LOOK,
    telemetry::Shed,
    types::Moment,
};

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
        open.kept = chosen.is_some_and(|chosen| chosen.held);
        let patience = open.patience(limits.queue_wait, now);
        let deadline = now.plus(patience.max(Duration::from_nanos(1)));
        let pool = open.route().targets[preferred].pool;
        let due = due(now, chosen.map_or(0.0, |chosen| chosen.placement.forecast.work.prefill));
        let Ok(displaced) = self.hall.join(pool, number, open.priority(), due, deadline, now) else {
            // There may be room that nobody who waits can use.
            return self.give_up(now, number, Shed::Full, out);
        };
        out.push(Command::Wake(deadline));
        self.look_again(now, out);
        if let Some(displaced) = displaced {
            self.give_up(now, displaced, Shed::Full, out);
        }
        self.seat(now, out);
    }

    /// Has those who wait look in a while whether time has made room, unless they will do so anyway.
    fn look_again(&mut self, now: Moment, out: &mut Vec<Command>) {
        if self.look_at <= now {
            self.look_at = now.plus(LOOK);
            out.push(Command::Wake(self.look_at));
        }
    }

    /// Refuses one that can wait no more, unless it was only kept: then it goes to an engine that has enough to do.
    fn give_up(&mut self, now: Moment, number: u32, reason: Shed, out: &mut Vec<Command>) {
        let chosen = self.choose(now, number);
        if !chosen.is_some_and(|chosen| self.launch(now, number, &chosen, false, out)) {
            self.refuse(number, reason.label(), out);
        }
    }

    /// Seats those who wait and for whom there is room now.
    pub(super) fn seat(&mut self, now: Moment, out: &mut Vec<Command>) {
        if self.hall.is_empty() {
            return;
        }
        for line in self.hall.in_order(now) {
            let mut looks = Looks::default();
            for number in line {
                if looks.are_over() {
                    break;
                }
                if looks.pass_over(self.open.get(&number).is_some_and(|open| open.kept)) {
                    continue;
                }
                match self.choose(now, number) {
                    Some(chosen) if chosen.held => looks.kept(chosen.weighed),
                    Some(chosen) if self.launch(now, number, &chosen, false, out) => self.hall.leave(number),
                    _ => looks.in_vain(),
                }
            }
        }
    }

    /// Ends the waits whose time is over, and has those who wait look whether time has made room.
    pub(super) fn pass_time(&mut self, now: Moment, out: &mut Vec<Command>) {
        for number in self.hall.expired(now) {
            let late = self.open.get(&number).and_then(|open| open.bound(now)).is_some_and(|left| left.is_zero());
            if late {
                self.refuse(number, Shed::Slo.label(), out);
            } else {
                self.give_up(now, number, Shed::Timeout, out);
            }
        }
        if !self.hall.is_empty() && self.look_at <= now {
            self.seat(now, out);
            self.look_again(now, out);
        }
    }
}
