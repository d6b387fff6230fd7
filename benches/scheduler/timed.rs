//! A scheduler with a stop-watch on its decisions.

use std::time::{Duration, Instant};

use signalbox::{
    sim::{
        Gauges,
        cluster::{Answer, AttemptId, Command, Scheduler},
        traffic::Request,
    },
    types::Moment,
};

/// Passes everything on, and measures what each arrival takes.
pub(crate) struct Timed {
    inner: Box<dyn Scheduler>,
    pub(crate) took: Duration,
    pub(crate) decisions: u32,
}

impl Timed {
    pub(crate) fn new(inner: Box<dyn Scheduler>) -> Self {
        Self { inner, took: Duration::ZERO, decisions: 0 }
    }
}

impl Scheduler for Timed {
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        let begun = Instant::now();
        self.inner.arrive(now, number, request, out);
        self.took += begun.elapsed();
        self.decisions += 1;
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.inner.first_token(now, attempt, out);
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, answer: Answer, out: &mut Vec<Command>) {
        self.inner.finished(now, attempt, answer, out);
    }

    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.inner.failed(now, attempt, out);
    }

    fn left(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        self.inner.left(now, number, out);
    }

    fn scraped(&mut self, now: Moment, engine: usize, gauges: Option<Gauges>, out: &mut Vec<Command>) {
        self.inner.scraped(now, engine, gauges, out);
    }

    fn wake(&mut self, now: Moment, out: &mut Vec<Command>) {
        self.inner.wake(now, out);
    }
}
