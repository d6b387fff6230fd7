//! Where a request goes after an attempt that failed: another backend of the same pool, the same one after a pause, or another pool.

use std::time::Duration;

use http::StatusCode;

use super::{
    job::Spot,
    upstream_fault::{LOST, UNREACHABLE},
};
use crate::{
    gateway::{
        admit::enter,
        asked::{Asked, Placed},
        stages::Call,
    },
    schedule::retry::pause,
    types::{Blame, Fault, Retry},
};

/// Most engines that may break off on one request: it might be the request that brings them down, one after the other.
const MOST_LOST: usize = 2;
/// How often one backend is tried where there are others, and where there is no other.
const MOST_AGAIN: usize = 2;
const MOST_ALONE: usize = 4;

/// What failed so far.
#[derive(Default)]
pub(super) struct Failures {
    lost: usize,
    /// The first: what comes of going elsewhere says less of the cause.
    first: Option<Fault>,
}

impl Failures {
    /// The place for a further attempt after `fault`, which has been waited for as long as need be.
    ///
    /// # Errors
    /// The fault to answer with, where there is none.
    pub(super) async fn next(
        &mut self,
        call: &Call,
        asked: &mut Asked,
        spot: Spot,
        fault: Fault,
    ) -> Result<Placed, Fault> {
        self.lost += usize::from(fault.kind == LOST);
        let over = fault.retry == Retry::Never || self.lost >= MOST_LOST;
        if over {
            return Err(self.tell(fault));
        }
        if fault.retry == Retry::LongerContext && !asked.keep_longer_than(spot.target) {
            return Err(self.tell(fault));
        }
        // What was never sent is no load to anybody.
        let free = fault.kind == UNREACHABLE && asked.has_untried();
        let learned = asked.pool(spot.target).1.learned.clone();
        if !free && !learned.retries.take() {
            return Err(self.tell(fault));
        }
        let now = asked.desk.clock.now();
        let beside = (fault.retry == Retry::OtherBackend).then(|| asked.place_beside(spot.target, now)).flatten();
        if let Some(placed) = beside {
            return Ok(self.go_on(asked, fault, placed, "elsewhere"));
        }
        if let Some(placed) = again(call, asked, spot, &fault).await {
            return Ok(self.go_on(asked, fault, placed, "again"));
        }
        if let Ok(placed) = enter(asked, &call.record).await {
            return Ok(self.go_on(asked, fault, placed, "elsewhere"));
        }
        if !free {
            learned.retries.give_back();
        }
        // What went wrong upstream says more than that there is no other place.
        Err(self.tell(fault))
    }

    /// Notes a failure while others are still under way.
    pub(super) fn note(&mut self, fault: Fault) {
        self.lost += usize::from(fault.kind == LOST);
        self.first.get_or_insert(fault);
    }

    fn go_on(&mut self, asked: &Asked, fault: Fault, placed: Placed, why: &'static str) -> Placed {
        self.first.get_or_insert(fault);
        asked.serving.pool_meter(placed.pool).further(why);
        placed
    }

    /// The fault that the caller hears of: the first one, unless the last says what is wrong with the request.
    pub(super) fn tell(&mut self, last: Fault) -> Fault {
        match self.first.take() {
            Some(first) if last.blame != Blame::Client => first,
            _ => last,
        }
    }
}

/// The same backend once more, after a pause, where that may help.
async fn again(call: &Call, asked: &mut Asked, spot: Spot, fault: &Fault) -> Option<Placed> {
    let status = fault.status;
    let limited = status == StatusCode::TOO_MANY_REQUESTS;
    let passing = limited || status == StatusCode::REQUEST_TIMEOUT || status.is_server_error();
    let others = asked.has_untried();
    let most = match others {
        // Who has an answer already does not wait for a better one.
        _ if asked.escalates => 1,
        true => MOST_AGAIN,
        false => MOST_ALONE,
    };
    let made = asked.times_tried(spot.target, spot.backend);
    if fault.retry != Retry::OtherBackend || !passing || made >= most || (others && fault.kind == UNREACHABLE) {
        return None;
    }
    let pause = pause(fault.retry_after, made as u32, limited, fastrand::f64())?;
    let left = |pause: &Duration| {
        let age = asked.desk.clock.now().since(asked.arrived);
        asked.route.timeouts.total.is_none_or(|total| age + *pause < total)
    };
    let pause = Some(pause).filter(left)?;
    call.record.wait(pause);
    tokio::time::sleep(pause).await;
    if let Some(placed) = asked.place_again(spot.target, spot.backend, asked.desk.clock.now()) {
        return Some(placed);
    }
    // Another has its place now: it waits for one like all others.
    asked.forgive(spot.target, spot.backend);
    enter(asked, &call.record).await.ok()
}
