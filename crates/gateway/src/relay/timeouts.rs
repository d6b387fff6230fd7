//! Idle and total time limits of an answer.

use std::{
    borrow::Cow,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::StatusCode;
use tokio::time::{Instant, Sleep, sleep};

use signalbox_types::{
    Fault,
    fault::{DEADLINE, STALLED},
};

/// A stream without an event for this long is not sending.
const SPEAKING: Duration = Duration::from_secs(2);

/// The time limits of an answer that has begun.
pub(super) struct StreamTimeouts {
    idle: Duration,
    content: Duration,
    /// Time of the last sign of life. None of them resets the timer; it reads this value when it fires.
    last: Instant,
    /// Time of the last event other than a ping or a comment.
    last_content: Instant,
    /// Time of the last write to the client. In a resumed stream, repeated text counts as an event but is not written.
    passed: Instant,
    timer: Pin<Box<Sleep>>,
    total: Option<Pin<Box<Sleep>>>,
}

impl StreamTimeouts {
    /// Starts the limits now: `idle` between two signs of life, `content` between two events that are not just that,
    /// `total` for the whole answer.
    pub(super) fn new(idle: Duration, content: Duration, total: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            idle,
            content,
            last: now,
            last_content: now,
            passed: now,
            timer: Box::pin(sleep(idle.min(content))),
            total: total.map(|total| Box::pin(sleep(total))),
        }
    }

    /// Records an event from upstream.
    pub(super) fn restart(&mut self) {
        self.last = Instant::now();
        self.last_content = self.last;
    }

    /// Records bytes from upstream that say only that it lives.
    pub(super) fn is_alive(&mut self) {
        self.last = Instant::now();
    }

    /// Records a write to the client.
    pub(super) fn passed(&mut self) {
        self.passed = Instant::now();
    }

    /// True if the upstream has been silent so long that it counts as stalled, however the stream ends.
    pub(super) fn is_stalled(&self) -> bool {
        self.last.elapsed() >= self.idle / 2
    }

    /// Replaces the idle limit and restarts it.
    pub(super) fn shorten(&mut self, idle: Duration) {
        self.idle = idle;
        self.restart();
        self.timer.as_mut().reset(self.last + idle);
    }

    /// Returns the fault if the total limit has passed, even while events still arrive.
    pub(super) fn overdue(&self) -> Option<Fault> {
        self.total.as_ref().filter(|total| total.deadline() <= Instant::now()).map(|_| deadline())
    }

    /// Waits until the total limit has passed.
    pub(super) fn poll_total(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        match &mut self.total {
            Some(total) => total.as_mut().poll(cx).map(|()| deadline()),
            None => Poll::Pending,
        }
    }

    /// Time at which the client will have received nothing for one idle limit.
    pub(super) fn idle_until(&self) -> Instant {
        self.passed + self.idle
    }

    /// Waits until either limit has passed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        self.poll_part(cx, 1.0)
    }

    /// Waits until `part` of the idle limit, or the total limit, has passed.
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>, part: f64) -> Poll<Fault> {
        if let Poll::Ready(fault) = self.poll_total(cx) {
            return Poll::Ready(fault);
        }
        let idle = self.idle.mul_f64(part);
        loop {
            // The client waits one idle limit in total, unless a stream is repeating text right now.
            let silent_at = (self.last + idle).min(self.idle_until().max(self.last + SPEAKING));
            let empty_at = self.last_content + self.content;
            let due = silent_at.min(empty_at);
            // Events do not reset the timer, so its deadline may lie before `due`. It must not lie after it.
            if self.timer.deadline() > due {
                self.timer.as_mut().reset(due);
            }
            ready!(self.timer.as_mut().poll(cx));
            if due <= Instant::now() {
                let message = if empty_at < silent_at {
                    let limit = self.content.as_secs_f64();
                    format!("the backend sent only signs of life for {limit} s (timeouts.content allows no more)")
                } else {
                    let (silent, limit) = (idle.as_secs_f64(), self.idle.as_secs_f64());
                    format!("the backend sent nothing for {silent} s (timeouts.idle allows {limit} s)")
                };
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
