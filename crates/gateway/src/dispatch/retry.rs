//! Selects the next attempt after a failure: another backend of the same pool, the same backend after a pause, or
//! another pool.

use std::time::Duration;

use http::StatusCode;

use super::{
    attempt::Spot,
    same_fault::{Likeness, likeness},
};
use crate::{
    placement::{PlacementRequest, Reservation, come_back, enter},
    stages::Call,
};
use signalbox_schedule::retry::{WORTH_WAITING, pause};
use signalbox_types::{
    Blame, Fault, Retry,
    fault::{
        ABSENT, ACCOUNT, DENIED, FULL, INEXPRESSIBLE, LOST, MISSING, NOT_READY, STALLED, UNREACHABLE, UNSUPPORTED,
    },
};

/// Most engines that one request may lose, since the request may be what crashes them one after the other. With three,
/// a request survives two engines that are stopped together.
const MAX_LOST_CONNECTIONS: usize = 3;
/// Most attempts at one backend: if there are others, and if it is the only one.
const MOST_AGAIN: usize = 2;
const MOST_ALONE: usize = 4;

/// Failures of one request so far.
#[derive(Default)]
pub(super) struct Failures {
    lost: usize,
    /// The first fault. Faults of further backends say less about the cause.
    first: Option<Fault>,
    /// Failures that the request itself may have caused, with their backends.
    alike: Vec<(Spot, Likeness)>,
    /// Targets whose retry budgets were charged, once for each retry.
    charged: Vec<usize>,
}

impl Failures {
    /// Reserves a backend for a further attempt after `fault`.
    ///
    /// Moving to an untried backend in good standing is free, and limited by that backend's own admission. The retry
    /// budget is charged for asking the same backend again, and for a backend that failed lately.
    ///
    /// # Errors
    /// The fault to answer with if no further attempt is possible.
    pub(super) async fn next(
        &mut self,
        call: &Call,
        asked: &mut PlacementRequest,
        spot: Spot,
        fault: Fault,
    ) -> Result<Reservation, Fault> {
        self.lost += usize::from(fault.kind == LOST);
        if let INEXPRESSIBLE | ABSENT = fault.kind {
            return self.past(call, asked, fault).await;
        }
        if let Some(refusal) = self.refused_alike(call, asked, spot, &fault) {
            return Err(refusal);
        }
        if fault.retry == Retry::Never || self.lost >= MAX_LOST_CONNECTIONS {
            return Err(self.answer(fault));
        }
        if fault.retry == Retry::LongerContext && !asked.keep_longer_than(spot.target) {
            return Err(self.answer(fault));
        }
        let now = asked.state.clock.now();
        let beside = (fault.retry == Retry::OtherBackend).then(|| asked.place_beside(spot.target, now)).flatten();
        if let Some(placed) = beside {
            return Ok(self.go_on(asked, fault, placed, "elsewhere"));
        }
        let now = asked.state.clock.now();
        let is_full = |spot: Spot| !asked.backend(spot.target, spot.backend).breaker.is_open(now);
        if fault.kind == FULL && is_full(spot) {
            return self.wait_for_room(call, asked, spot, fault).await;
        }
        if let Some(placed) = self.again(call, asked, spot, &fault).await {
            return Ok(self.go_on(asked, fault, placed, "again"));
        }
        // A request that was never sent causes no load.
        let is_free = fault.kind == UNREACHABLE || asked.moves_free(asked.state.clock.now());
        if asked.has_untried() && (is_free || self.charge(asked, spot.target)) {
            if let Ok(placed) = enter(asked, &call.record).await {
                return Ok(self.go_on(asked, fault, placed, "elsewhere"));
            }
            if !is_free {
                self.refund(asked);
            }
        }
        // The upstream's fault says more than a lack of room elsewhere.
        let fault = self.answer(fault);
        let come_back = (fault.kind == FULL).then(|| come_back(asked, spot.target, asked.state.clock.now()));
        Err(Fault { retry_after: fault.retry_after.or(come_back), ..fault })
    }

    /// Reserves a backend of another API after one that cannot express the request, or of another account after one that does
    /// not have its object. It was no candidate, so that its refusal is the answer only if there is nothing else to say:
    /// callers do not retry what is said to be their own fault.
    async fn past(&mut self, call: &Call, asked: &PlacementRequest, fault: Fault) -> Result<Reservation, Fault> {
        if !asked.has_untried() {
            return Err(self.first.take().unwrap_or(fault));
        }
        let placed = enter(asked, &call.record).await.map_err(|waited| self.first.take().unwrap_or(waited))?;
        asked.serving.pool_meter(placed.pool).further("elsewhere");
        Ok(placed)
    }

    /// Reserves a backend after an engine was full: the same one, or one of another pool, as soon as there is room.
    ///
    /// The wait ends as that of a new request does, with a fault that says when to come back: the engine's own refusal
    /// knows nothing of the queue. No retry is charged, since nothing failed.
    async fn wait_for_room(
        &mut self,
        call: &Call,
        asked: &mut PlacementRequest,
        spot: Spot,
        fault: Fault,
    ) -> Result<Reservation, Fault> {
        let others_failed = self.first.as_ref().is_some_and(|first| first.kind != FULL);
        if let Some(placed) = asked.place_elsewhere(spot.target, asked.state.clock.now()) {
            return Ok(self.go_on(asked, fault, placed, "elsewhere"));
        }
        if fault.retry_after.is_some_and(|after| after > WORTH_WAITING) {
            return Err(self.answer(fault));
        }
        asked.allow_again(spot.target, spot.backend);
        match enter(asked, &call.record).await {
            Ok(placed) => Ok(self.go_on(asked, fault, placed, "again")),
            Err(_) if others_failed => Err(self.answer(fault)),
            Err(waited) if waited.retry_after.is_some() => Err(waited),
            // No further attempt may be made.
            Err(_) => {
                let after = come_back(asked, spot.target, asked.state.clock.now());
                Err(Fault { retry_after: fault.retry_after.max(Some(after)), unmasked: None, ..fault })
            }
        }
    }

    /// Records a failure while other attempts are still under way.
    pub(super) fn note(&mut self, fault: Fault) {
        self.lost += usize::from(fault.kind == LOST);
        if !matches!(fault.kind, INEXPRESSIBLE | ABSENT) {
            self.first.get_or_insert(fault);
        }
    }

    fn go_on(&mut self, asked: &PlacementRequest, fault: Fault, placed: Reservation, why: &'static str) -> Reservation {
        self.first.get_or_insert(fault);
        asked.serving.pool_meter(placed.pool).further(why);
        placed
    }

    /// Returns the fault for the caller: the first one, unless the last one says what is wrong with the request.
    pub(super) fn answer(&mut self, last: Fault) -> Fault {
        match self.first.take() {
            Some(first) if last.blame != Blame::Client => first,
            _ => last,
        }
    }

    /// Takes one retry from the caller's budget in the pool of `target`. Returns false if none is left.
    pub(super) fn charge(&mut self, asked: &PlacementRequest, target: usize) -> bool {
        let taken = asked.retries(target).take(asked.caller.as_ref());
        if taken {
            self.charged.push(target);
        }
        taken
    }

    /// Gives back the retry that was charged last, if any, to the budget it was taken from.
    pub(super) fn refund(&mut self, asked: &PlacementRequest) {
        if let Some(target) = self.charged.pop() {
            asked.retries(target).give_back(asked.caller.as_ref());
        }
    }

    /// Returns a refusal if the request failed the same way on another backend and one of the two serves other
    /// requests. The request is then at fault, whatever status the engines sent. Its failures in the breakers are
    /// retracted and its retries are given back.
    fn refused_alike(&mut self, call: &Call, asked: &PlacementRequest, spot: Spot, fault: &Fault) -> Option<Fault> {
        let likeness = likeness(fault)?;
        let now = asked.state.clock.now();
        let of = |spot: Spot| asked.backend(spot.target, spot.backend);
        let is_same = |(other, it): &&(Spot, Likeness)| *it == likeness && *other != spot;
        let is_serving = |spot: Spot| of(spot).breaker.is_serving(now);
        let before = self.alike.iter().find(is_same).map(|(other, _)| *other);
        if !self.alike.contains(&(spot, likeness)) {
            self.alike.push((spot, likeness));
        } else if likeness.is_counted() && is_serving(spot) {
            // However often one request is tried there, it is one failure.
            of(spot).breaker.retract(asked.arrived);
        }
        if !before.is_some_and(|before| is_serving(before) || is_serving(spot)) {
            return None;
        }
        for (spot, likeness) in self.alike.drain(..) {
            if likeness.is_counted() {
                of(spot).breaker.retract(asked.arrived);
            }
        }
        while !self.charged.is_empty() {
            self.refund(asked);
        }
        call.record.progress().attempts_excused();
        Some(Fault {
            status: StatusCode::BAD_REQUEST,
            kind: "upstream_refused",
            blame: Blame::Client,
            retry: Retry::Never,
            ..fault.clone()
        })
    }

    /// Reserves the same backend once more after a pause, if that may help and the budget has a retry left.
    async fn again(
        &mut self,
        call: &Call,
        asked: &mut PlacementRequest,
        spot: Spot,
        fault: &Fault,
    ) -> Option<Reservation> {
        let status = fault.status;
        let limited = status == StatusCode::TOO_MANY_REQUESTS;
        let passing = limited || status == StatusCode::REQUEST_TIMEOUT || status.is_server_error();
        let others = asked.has_untried();
        let most = match others {
            // A request that already has an answer does not wait for a better one.
            _ if asked.escalates => 1,
            true => MOST_AGAIN,
            false => MOST_ALONE,
        };
        let made = asked.times_tried(spot.target, spot.backend);
        let is_gone = others && matches!(fault.kind, UNREACHABLE | STALLED | NOT_READY);
        let is_over = made >= most || is_gone || matches!(fault.kind, MISSING | UNSUPPORTED | DENIED | ACCOUNT | FULL);
        if fault.retry != Retry::OtherBackend || !passing || is_over {
            return None;
        }
        // A backend whose breaker is open is left alone, unless it sent a delay for retries.
        let now = asked.state.clock.now();
        let is_down = asked.backend(spot.target, spot.backend).breaker.is_open(now);
        if is_down && fault.retry_after.is_none() && asked.has_sound(now) {
            return None;
        }
        let pause = pause(fault.retry_after, made as u32, limited, fastrand::f64())?;
        // A backend that answers before the pause is over is the better choice.
        let waits = fault.retry_after.is_some() && others;
        if waits && asked.answers_elsewhere(spot.target, pause, now) {
            return None;
        }
        let left = |pause: &Duration| {
            let age = now.since(asked.arrived);
            asked.route.timeouts.total.is_none_or(|total| age + *pause < total)
        };
        let pause = Some(pause).filter(left)?;
        if !self.charge(asked, spot.target) {
            return None;
        }
        call.record.wait(pause);
        tokio::time::sleep(pause).await;
        if let Some(placed) = asked.place_again(spot.target, spot.backend, asked.state.clock.now()) {
            return Some(placed);
        }
        // Another request took the room, so this one waits for some.
        asked.allow_again(spot.target, spot.backend);
        let placed = enter(asked, &call.record).await.ok();
        if placed.is_none() {
            self.refund(asked);
        }
        placed
    }
}
