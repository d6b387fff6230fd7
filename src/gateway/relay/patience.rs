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

use crate::types::{Fault, fault::DEADLINE};

/// The time limits of an answer that has begun.
pub(super) struct Patience {
    idle: Duration,
    /// When something was heard last. The timer is not reset for each time: it looks here when it fires.
    last: Instant,
    timer: Pin<Box<Sleep>>,
    total: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    /// From now on: `idle` between two signs of life, `total` for all of it.
    pub(super) fn new(idle: Duration, total: Option<Duration>) -> Self {
        Self {
            idle,
            last: Instant::now(),
            timer: Box::pin(sleep(idle)),
            total: total.map(|total| Box::pin(sleep(total))),
        }
    }

    /// A sign of life.
    pub(super) fn heard(&mut self) {
        self.last = Instant::now();
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

    /// Waits until time is up.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        if let Poll::Ready(fault) = self.poll_total(cx) {
            return Poll::Ready(fault);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let due = self.last + self.idle;
            if due <= Instant::now() {
                let message = format!("the backend sent nothing for {} s (timeouts.idle)", self.idle.as_secs_f64());
                return Poll::Ready(late("stream_stalled", message));
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
