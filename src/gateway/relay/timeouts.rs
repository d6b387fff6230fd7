//! How long an answer may be silent, and how long it may take in all.

use std::{
    borrow::Cow,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::StatusCode;
use tokio::time::{Instant, Sleep, sleep};

use crate::types::{
    Fault,
    fault::{DEADLINE, STALLED},
};

/// A stream without an event for so long is not speaking.
const SPEAKING: Duration = Duration::from_secs(2);

/// The time limits of an answer that has begun.
pub(super) struct StreamTimeouts {
    idle: Duration,
    /// When something was heard last. The timer is not reset for each time: it looks here when it fires.
    last: Instant,
    /// When the client was sent something last. After a stream was resumed, what is said again is heard and not passed on.
    passed: Instant,
    timer: Pin<Box<Sleep>>,
    total: Option<Pin<Box<Sleep>>>,
}

impl StreamTimeouts {
    /// From now on: `idle` between two signs of life, `total` for all of it.
    pub(super) fn new(idle: Duration, total: Option<Duration>) -> Self {
        Self {
            idle,
            last: Instant::now(),
            passed: Instant::now(),
            timer: Box::pin(sleep(idle)),
            total: total.map(|total| Box::pin(sleep(total))),
        }
    }

    /// A sign of life.
    pub(super) fn heard(&mut self) {
        self.last = Instant::now();
    }

    /// Something was sent to the client.
    pub(super) fn passed(&mut self) {
        self.passed = Instant::now();
    }

    /// True if the upstream has been silent for so long that it counts as stalled, however the stream ends.
    pub(super) fn is_stalled(&self) -> bool {
        self.last.elapsed() >= self.idle / 2
    }

    /// From now on only `idle` is waited between two signs of life.
    pub(super) fn shorten(&mut self, idle: Duration) {
        self.idle = idle;
        self.heard();
        self.timer.as_mut().reset(self.last + idle);
    }

    /// The fault, where the time for all of it is over, however busy the answer still is.
    pub(super) fn overdue(&self) -> Option<Fault> {
        self.total.as_ref().filter(|total| total.deadline() <= Instant::now()).map(|_| deadline())
    }

    /// Waits until the time for all of it is over.
    pub(super) fn poll_total(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        match &mut self.total {
            Some(total) => total.as_mut().poll(cx).map(|()| deadline()),
            None => Poll::Pending,
        }
    }

    /// The moment at which the client has been sent nothing for one idle limit.
    pub(super) fn idle_until(&self) -> Instant {
        self.passed + self.idle
    }

    /// Waits until time is up.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        self.poll_part(cx, 1.0)
    }

    /// Waits until this part of the idle limit is over, or the time for all of it.
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>, part: f64) -> Poll<Fault> {
        if let Poll::Ready(fault) = self.poll_total(cx) {
            return Poll::Ready(fault);
        }
        let idle = self.idle.mul_f64(part);
        loop {
            // One limit in total for the client, unless an answer is being said again just now.
            let due = (self.last + idle).min(self.idle_until().max(self.last + SPEAKING));
            // The timer fires late, for it is not reset at each event, but never later than is due now.
            if self.timer.deadline() > due {
                self.timer.as_mut().reset(due);
            }
            ready!(self.timer.as_mut().poll(cx));
            if due <= Instant::now() {
                let (silent, limit) = (idle.as_secs_f64(), self.idle.as_secs_f64());
                let message = format!("the backend sent nothing for {silent} s (timeouts.idle allows {limit} s)");
                return Poll::Ready(late(STALLED, message));
            }
            self.timer.as_mut().reset(due);
        }
    }
}

fn deadline() -> Fault {
    late(DEADLINE, "the answer took longer than the route allows (timeouts.total)")
}

fn late(kind: &'static str, message: impl Into<Cow<'static, str>>) -> Fault {
    Fault::upstream(StatusCode::GATEWAY_TIMEOUT, kind, message)
}
