//! A scheduler wrapper that measures decision times.

use std::time::{Duration, Instant};

use super::{
    Engine, Gauges,
    cluster::{Answer, AttemptId, Command, Scheduler},
    traffic::Request,
};
use signalbox_types::Moment;

/// Delegates to a scheduler and measures the time of each arrival.
pub struct Timed {
    inner: Box<dyn Scheduler>,
    took: Duration,
    decisions: u32,
}

impl Timed {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Scheduler>) -> Self {
        Self { inner, took: Duration::ZERO, decisions: 0 }
    }

    /// Mean decision time over `all`, in microseconds of wall time.
    pub fn mean<'a>(all: impl IntoIterator<Item = &'a Self>) -> f64 {
        let sum = |(took, decisions), timed: &Self| (took + timed.took, decisions + timed.decisions);
        let (took, decisions) = all.into_iter().fold((Duration::ZERO, 0), sum);
        took.as_secs_f64() * 1e6 / f64::from(decisions.max(1))
    }
}

impl Scheduler for Timed {
    fn peek(&mut self, request: &Request, engines: &[Option<Engine>]) {
        self.inner.peek(request, engines);
    }

    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        let begun = Instant::now();
        self.inner.arrive(now, number, request, out);
        self.took += begun.elapsed();
        self.decisions += 1;
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.inner.first_token(now, attempt, out);
    }

    fn streamed(&mut self, attempt: AttemptId, tokens: u32) {
        self.inner.streamed(attempt, tokens);
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, answer: Answer, out: &mut Vec<Command>) {
        self.inner.finished(now, attempt, answer, out);
    }

    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.inner.failed(now, attempt, out);
    }

    fn erred(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.inner.erred(now, attempt, out);
    }

    fn left(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        self.inner.left(now, number, out);
    }

    fn scraped(&mut self, now: Moment, engine: usize, gauges: Option<Gauges>, out: &mut Vec<Command>) {
        self.inner.scraped(now, engine, gauges, out);
    }

    fn pause(&self, usual: Duration, now: Moment) -> Duration {
        self.inner.pause(usual, now)
    }

    fn wake(&mut self, now: Moment, out: &mut Vec<Command>) {
        self.inner.wake(now, out);
    }
}
