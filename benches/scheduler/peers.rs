//! Gateways that exchange their loads and which prompts their engines have computed, as they do over Redis.

use std::{cell::RefCell, rc::Rc, time::Duration};

use signalbox::{
    fleet::{ComputedPrompt, EngineKey, EngineLoad, Registry},
    sim::{
        Gauges,
        cluster::{Answer, AttemptId, Command, Scheduler},
        traffic::Request,
    },
    types::Moment,
};

/// Time between two exchanges.
const PERIOD: Duration = Duration::from_millis(100);

/// Messages of a play's gateways, in order.
pub(crate) type Bus = Rc<RefCell<Vec<Message>>>;

/// A message of a gateway.
pub(crate) struct Message {
    gateway: usize,
    prompts: Vec<ComputedPrompt>,
    loads: Vec<(EngineKey, EngineLoad)>,
}

/// A gateway that sends and receives once in a period, at its first event after it.
pub(crate) struct Exchanging {
    inner: Box<dyn Scheduler>,
    registry: Registry,
    bus: Bus,
    gateway: usize,
    /// True if it sends its loads.
    loads: bool,
    next: Moment,
    /// Messages received so far.
    received: usize,
}

impl Exchanging {
    pub(crate) fn new(
        make: impl FnOnce(&Registry) -> Box<dyn Scheduler>,
        (bus, gateway): (Bus, usize),
        loads: bool,
    ) -> Self {
        let registry = Registry::default();
        registry.outbox().set_open(true);
        let inner = make(&registry);
        Self { inner, registry, bus, gateway, loads, next: Moment::default(), received: 0 }
    }

    fn exchange(&mut self, now: Moment) {
        if now < self.next {
            return;
        }
        self.next = now.plus(PERIOD);
        let prompts = self.registry.outbox().take();
        let loads = if self.loads { self.registry.engine_loads(now) } else { Vec::new() };
        self.bus.borrow_mut().push(Message { gateway: self.gateway, prompts, loads });
        let all = self.bus.borrow();
        for message in all[self.received..].iter().filter(|message| message.gateway != self.gateway) {
            self.registry.computed_elsewhere(&message.prompts);
            self.registry.record_engine_loads([(message.gateway as u64, &*message.loads)], now);
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
        self.exchange(now);
        self.inner.scraped(now, engine, gauges, out);
    }

    fn pause(&self, usual: Duration, now: Moment) -> Duration {
        self.inner.pause(usual, now)
    }

    fn wake(&mut self, now: Moment, out: &mut Vec<Command>) {
        self.exchange(now);
        self.inner.wake(now, out);
    }
}
