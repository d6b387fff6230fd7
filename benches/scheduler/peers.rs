//! Gateways that exchange which prompts their engines have computed, as they do over Redis.

use std::{cell::RefCell, rc::Rc, time::Duration};

use signalbox::{
    fleet::{ComputedPrompt, Registry},
    sim::{
        Gauges,
        cluster::{Answer, AttemptId, Command, Scheduler},
        traffic::Request,
    },
    types::Moment,
};

/// Messages of a play's gateways in order, each with the number of its sender.
pub(crate) type Bus = Rc<RefCell<Vec<(usize, Vec<ComputedPrompt>)>>>;

/// A gateway that sends and receives once in a period.
pub(crate) struct Exchanging {
    inner: Box<dyn Scheduler>,
    registry: Registry,
    bus: Bus,
    gateway: usize,
    period: Duration,
    next: Moment,
    /// Messages received so far.
    received: usize,
}

impl Exchanging {
    pub(crate) fn new(
        make: impl FnOnce(&Registry) -> Box<dyn Scheduler>,
        (bus, gateway): (Bus, usize),
        period: Duration,
    ) -> Self {
        let registry = Registry::default();
        registry.outbox().set_open(true);
        let inner = make(&registry);
        Self { inner, registry, bus, gateway, period, next: Moment::default(), received: 0 }
    }

    fn exchange(&mut self, now: Moment) {
        if now < self.next {
            return;
        }
        self.next = now.plus(self.period);
        let computed = self.registry.outbox().take();
        if !computed.is_empty() {
            self.bus.borrow_mut().push((self.gateway, computed));
        }
        let all = self.bus.borrow();
        for (_, prompts) in all[self.received..].iter().filter(|(gateway, _)| *gateway != self.gateway) {
            self.registry.computed_elsewhere(prompts);
        }
        self.received = all.len();
    }
}

impl Scheduler for Exchanging {
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        self.exchange(now);
        self.inner.arrive(now, number, request, out);
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.inner.first_token(now, attempt, out);
        self.exchange(now);
    }

    fn streamed(&mut self, attempt: AttemptId, tokens: u32) {
        self.inner.streamed(attempt, tokens);
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, answer: Answer, out: &mut Vec<Command>) {
        self.inner.finished(now, attempt, answer, out);
        self.exchange(now);
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
        self.exchange(now);
    }

    fn pause(&self, usual: Duration, now: Moment) -> Duration {
        self.inner.pause(usual, now)
    }

    fn wake(&mut self, now: Moment, out: &mut Vec<Command>) {
        self.exchange(now);
        self.inner.wake(now, out);
    }
}
