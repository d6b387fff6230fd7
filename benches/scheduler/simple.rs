//! A scheduler that sends each request to the engine that its rule picks, and to another engine if that one fails before the first
//! token. It may hold requests back first, and send hedges.

use std::{collections::HashMap, mem};

use signalbox::{
    sim::{
        Engine, Gauges, Job,
        cluster::{Answer, AttemptId, Command, Scheduler},
        traffic::Request,
    },
    types::Moment,
};

use crate::{
    account::{Ask, DOWN, Known, Rule},
    binding::{Binding, Held},
    learner::Learner,
};

struct Sent {
    request: u32,
    engine: usize,
    at: Moment,
    /// Requests in flight there before it.
    load: u32,
    job: Job,
    uncached: u64,
    streamed: bool,
    waiting: bool,
    open: bool,
}

/// A request under way with its attempts.
struct Pending {
    request: Request,
    attempts: Vec<AttemptId>,
}

/// The scheduler.
pub(crate) struct Simple<R> {
    rule: R,
    dice: fastrand::Rng,
    engines: Vec<Known>,
    sent: Vec<Sent>,
    pending: HashMap<u32, Pending>,
    /// Predictions of first tokens, for rules and bindings that ask for them.
    learner: Option<Learner>,
    binding: Option<Binding>,
    /// True if the content of caches is known exactly.
    exact: bool,
}

impl<R: Rule> Simple<R> {
    pub(crate) fn new(rule: R, engines: usize, kv_tokens: u32, seed: u64) -> Self {
        Self {
            rule,
            dice: fastrand::Rng::with_seed(seed ^ 0xBA5E),
            engines: (0..engines).map(|engine| Known::new(engine, kv_tokens)).collect(),
            sent: Vec::new(),
            pending: HashMap::new(),
            learner: None,
            binding: None,
            exact: false,
        }
    }

    /// Predicts times to first token.
    pub(crate) fn learning(mut self) -> Self {
        self.learner = Some(Learner::new(self.engines.len()));
        self
    }

    /// Holds requests back as `binding` says.
    pub(crate) fn bound(self, binding: Binding) -> Self {
        Self { binding: Some(binding), ..self.learning() }
    }

    /// Knows the content of all caches.
    pub(crate) fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    /// The engine that the rule picks among those that were not tried; `None` without any.
    fn pick(&mut self, now: Moment, number: u32) -> Option<usize> {
        let pending = self.pending.get(&number)?;
        let tried = |engine: usize| pending.attempts.iter().any(|&tried| self.sent[tried as usize].engine == engine);
        let left: Vec<&Known> = self.engines.iter().filter(|known| !tried(known.engine)).collect();
        let up = |known: &&&Known| known.failed.is_none_or(|then| now.since(then) >= DOWN);
        let mut choice: Vec<&Known> = left.iter().filter(up).copied().collect();
        if choice.is_empty() {
            choice = left;
        }
        let ask = Ask { now, job: &pending.request.job, learner: self.learner.as_ref() };
        (!choice.is_empty()).then(|| self.rule.pick(&ask, &choice, &mut self.dice))
    }

    /// Sends the request, holds it back, or refuses it.
    fn place(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        let Some(engine) = self.pick(now, number) else {
            self.pending.remove(&number);
            out.push(Command::Refuse(number));
            return;
        };
        let new = self.pending.get(&number).is_some_and(|pending| pending.attempts.is_empty());
        if let (Some(binding), Some(learner), true) = (&mut self.binding, &self.learner, new) {
            let job = &self.pending[&number].request.job;
            let held = binding.holds(now, job, engine, &self.engines, learner);
            let waits = held.is_some() || !binding.is_empty();
            // A request that finds the queue full goes at once, as at the gateway.
            if waits && binding.push(now, number, job, &self.engines[engine], learner, out) {
                return self.admit(now, out);
            }
        }
        self.send(now, number, engine, false, out);
    }

    fn send(&mut self, now: Moment, number: u32, engine: usize, beside: bool, out: &mut Vec<Command>) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        let job = &pending.request.job;
        let streamed = !pending.request.whole;
        let attempt = self.sent.len() as AttemptId;
        let known = &mut self.engines[engine];
        if let Some(learner) = &mut self.learner {
            let awaited = learner.sent(now, known, job, streamed);
            if let (Some(binding), true, false) = (&mut self.binding, streamed, beside) {
                binding.sent(number, awaited, out);
            }
        }
        pending.attempts.push(attempt);
        let uncached = u64::from(job.prompt_tokens).saturating_sub(known.matched(job)).max(1);
        let load = known.in_flight;
        known.send(now, job, uncached, streamed);
        let job = job.clone();
        let (waiting, open) = (true, true);
        self.sent.push(Sent { request: number, engine, at: now, load, job, uncached, streamed, waiting, open });
        out.push(Command::Send { request: number, engine });
    }

    /// Sends the held requests that need not wait any longer.
    fn admit(&mut self, now: Moment, out: &mut Vec<Command>) {
        let Some(mut binding) = self.binding.take() else { return };
        for number in binding.expired(now) {
            if let Some(engine) = self.pick(now, number) {
                self.send(now, number, engine, false, out);
            }
        }
        let mut scan = binding.scan();
        while let Some((key, number)) = scan.next() {
            let Some(engine) = self.pick(now, number) else { continue };
            let (Some(learner), Some(pending)) = (&self.learner, self.pending.get(&number)) else { continue };
            match binding.holds(now, &pending.request.job, engine, &self.engines, learner) {
                Some(Held::All) => break,
                Some(Held::This) => scan.held(),
                None => {
                    binding.remove(key, number);
                    self.binding = Some(binding);
                    self.send(now, number, engine, false, out);
                    let Some(taken) = self.binding.take() else { return };
                    binding = taken;
                }
            }
        }
        self.binding = Some(binding);
    }

    /// Sends hedges that are due and pay.
    fn hedge(&mut self, now: Moment, out: &mut Vec<Command>) {
        while let Some(number) = self.binding.as_mut().and_then(|binding| binding.due(now)) {
            let Some(engine) = self.pick(now, number) else { continue };
            let Some(pending) = self.pending.get(&number) else { continue };
            let (Some(binding), Some(learner)) = (&mut self.binding, &self.learner) else { continue };
            if binding.pays(now, number, learner.alternative(now, &self.engines[engine], &pending.request.job)) {
                self.send(now, number, engine, true, out);
            }
        }
    }

    /// Removes its prompt from the queue; returns true if it was in it.
    fn leave_queue(&mut self, now: Moment, attempt: AttemptId) -> bool {
        let sent = &mut self.sent[attempt as usize];
        let waited = mem::replace(&mut sent.waiting, false);
        if waited {
            self.engines[sent.engine].begin(now, sent.uncached, sent.streamed);
        }
        waited
    }

    fn answered(&mut self, now: Moment, attempt: AttemptId) {
        if self.leave_queue(now, attempt) {
            let Sent { engine, load, at, streamed, .. } = self.sent[attempt as usize];
            self.engines[engine].observe(now, load, now.since(at).as_secs_f64());
            if let (Some(learner), true) = (&mut self.learner, streamed) {
                learner.first_token(attempt, engine, now.seconds_since(at), now);
            }
        }
    }

    fn end(&mut self, now: Moment, attempt: AttemptId) {
        self.leave_queue(now, attempt);
        let sent = &mut self.sent[attempt as usize];
        if let Some(learner) = &mut self.learner {
            learner.ended(attempt, sent.engine);
        }
        if mem::replace(&mut sent.open, false) {
            self.engines[sent.engine].end(&mem::take(&mut sent.job));
        }
    }

    /// Cancels all attempts at a request but one.
    fn cancel(&mut self, now: Moment, number: u32, but: Option<AttemptId>, out: &mut Vec<Command>) {
        if let Some(binding) = &mut self.binding {
            binding.forget(number);
        }
        let attempts = self.pending.get(&number).map_or_else(Vec::new, |pending| pending.attempts.clone());
        for attempt in attempts.into_iter().filter(|&attempt| Some(attempt) != but) {
            if self.sent[attempt as usize].open {
                self.end(now, attempt);
                out.push(Command::Cancel(attempt));
            }
        }
    }
}

impl<R: Rule> Scheduler for Simple<R> {
    fn peek(&mut self, request: &Request, engines: &[Option<Engine>]) {
        for (known, engine) in self.engines.iter_mut().zip(engines).filter(|_| self.exact) {
            known.cached = Some(engine.as_ref().map_or(0, |engine| engine.cached_blocks(&request.job.blocks)));
        }
    }

    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        self.pending.insert(number, Pending { request: request.clone(), attempts: Vec::new() });
        self.place(now, number, out);
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.answered(now, attempt);
        self.cancel(now, self.sent[attempt as usize].request, Some(attempt), out);
        self.admit(now, out);
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, _: Answer, out: &mut Vec<Command>) {
        self.answered(now, attempt);
        self.end(now, attempt);
        self.pending.remove(&self.sent[attempt as usize].request);
        self.admit(now, out);
    }

    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        let Sent { request, engine, waiting, .. } = self.sent[attempt as usize];
        self.engines[engine].mark_failed(now);
        self.end(now, attempt);
        let others = self
            .pending
            .get(&request)
            .is_some_and(|pending| pending.attempts.iter().any(|&other| self.sent[other as usize].open));
        if waiting && !others {
            self.place(now, request, out);
        } else if !waiting {
            self.pending.remove(&request);
        }
        self.admit(now, out);
    }

    fn left(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        self.cancel(now, number, None, out);
        self.pending.remove(&number);
        if let Some(binding) = &mut self.binding {
            binding.leave(number);
        }
        self.admit(now, out);
    }

    fn wake(&mut self, now: Moment, out: &mut Vec<Command>) {
        self.admit(now, out);
        self.hedge(now, out);
        if let Some(binding) = &mut self.binding {
            binding.look_again(now, out);
        }
    }

    fn scraped(&mut self, now: Moment, engine: usize, gauges: Option<Gauges>, _: &mut Vec<Command>) {
        let known = &mut self.engines[engine];
        match gauges {
            Some(_) => known.gauges = gauges,
            None => known.mark_failed(now),
        }
    }
}
