//! The gateway's own scheduling in a simulated cluster: the same pools, tickets and predictions that serve traffic, on the
//! simulation's clock.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    Gauges, Profile,
    cluster::{Answer, AttemptId, Command, Scheduler},
    traffic::Request,
};
use crate::{
    fleet::{Ask, Engine, Failure, Registry, Scratch, Snapshot, Ticket},
    policy::{Policy, Route, Target},
    prompt::Blocks,
    schedule::{
        budget::Budget,
        hedge::{self, Alternative, Awaited},
        predict::OutputLengths,
    },
    types::{EngineKind, EngineSignals, Layout, Moment, Usage},
};

/// Bytes of a token of simulated prompts. The gateway does not know; it learns.
const TOKEN_BYTES: u64 = 4;

/// A gateway that runs a policy over simulated engines.
pub struct Gateway {
    snapshot: Snapshot,
    /// At the places the simulation gives them.
    engines: Vec<Arc<Engine>>,
    /// Pools in the order they are tried.
    targets: Vec<Target>,
    /// How long answers are, by target.
    outputs: Vec<Arc<OutputLengths>>,
    /// The route's limit on the time to the first token.
    bound: Option<Duration>,
    layout: Layout,
    profiles: Vec<Profile>,
    dice: fastrand::Rng,
    scratch: Scratch,
    /// By attempt.
    flights: Vec<Option<Flight>>,
    /// Requests that have not begun to be answered, or are being.
    open: HashMap<u32, Open>,
    hedges: Budget,
    /// When first tokens are late: of which requests.
    late: BinaryHeap<Reverse<(Moment, u32)>>,
}

struct Flight {
    request: u32,
    ticket: Ticket,
    engine: usize,
    first_token: Option<Moment>,
    whole: bool,
}

struct Open {
    blocks: Blocks,
    whole: bool,
    session: Option<u64>,
    /// Tokens of its prompt and its answer.
    tokens: u32,
    /// Places of the backends tried, by target.
    tried: Vec<Vec<usize>>,
    /// The target it was sent to last.
    target: usize,
    attempts: Vec<AttemptId>,
    /// What is expected of the first try, while a hedge may still be sent.
    awaited: Option<Awaited>,
}

impl Gateway {
    /// A gateway that sends every request by `route`, a route of `policy`. The policy's engines stand for the simulation's, in the
    /// same order, of which these are the `profiles`; all have blocks of one size. `seed` decides ties.
    pub fn new(policy: Policy, route: &Route, profiles: &[Profile], seed: u64) -> Self {
        let registry = Registry::default();
        let block_tokens = profiles.first().map_or(1, |profile| profile.block_tokens);
        let engines = policy.engines.iter().map(|engine| registry.engine(&engine.name, &engine.url)).collect();
        let snapshot = Snapshot::new(policy, &registry);
        let outputs = |target: &Target| snapshot.pools[target.pool].learned.outputs.of(target, &route.name);
        Self {
            outputs: route.targets.iter().map(outputs).collect(),
            snapshot,
            engines,
            targets: route.targets.clone(),
            bound: route.bound,
            layout: Layout::Fixed(block_tokens.saturating_mul(TOKEN_BYTES as u32)),
            profiles: profiles.to_vec(),
            dice: fastrand::Rng::with_seed(seed),
            scratch: Scratch::default(),
            flights: Vec::new(),
            open: HashMap::new(),
            hedges: hedge::budget(),
            late: BinaryHeap::new(),
        }
    }

    /// The policy, alive.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Sends a request to the first target that has a backend left.
    fn place(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        for target in 0..self.targets.len() {
            if self.send(now, number, target, None, out) {
                return;
            }
        }
        out.push(Command::Refuse(number));
        self.open.remove(&number);
    }

    /// Sends a request to a backend of a target. As a hedge, where `awaited` is late, only if that pays. False where nothing was
    /// sent.
    fn send(
        &mut self,
        now: Moment,
        number: u32,
        target: usize,
        awaited: Option<&Awaited>,
        out: &mut Vec<Command>,
    ) -> bool {
        let Some(open) = self.open.get_mut(&number) else { return false };
        let pool = &self.snapshot.pools[self.targets[target].pool];
        let ask = Ask {
            target: &self.targets[target],
            tried: &open.tried[target],
            prompt: open.blocks.prompt(),
            session: open.session,
            room_only: false,
            outputs: &self.outputs[target],
            max_tokens: None,
            whole: open.whole,
            ttft_limit: self.bound.into_iter().chain(pool.spec.objectives.ttft()).min(),
            tpot_limit: pool.spec.objectives.tpot(),
        };
        let Some(placement) = pool.place(&ask, now, self.dice.f64(), &mut self.scratch) else { return false };
        let work = placement.forecast.work;
        match awaited {
            None => self.hedges.earn(),
            Some(awaited) => {
                let other = Alternative { ttft: work.prediction.seconds, uncached: work.uncached_tokens };
                if !(awaited.pays(&other, now) && self.hedges.take()) {
                    return false;
                }
            }
        }
        let backend = &pool.backends[placement.backend];
        let engine = backend.spec.engine;
        let (learned, outputs) = (pool.learned.clone(), self.outputs[target].clone());
        let ticket = Ticket::take(learned, outputs, backend.clone(), placement.forecast, open.blocks.clone(), now);
        open.tried[target].push(placement.backend);
        open.target = target;
        open.attempts.push(self.flights.len() as AttemptId);
        if awaited.is_none() && !open.whole {
            let model = pool.learned.predictor.model();
            let quantile = |level| model.ttft_quantile(level, &work.prediction);
            let awaited = Awaited { dispatched: now, p95: quantile(0.95), p99: quantile(0.99) };
            for at in [awaited.due(), awaited.stalled_at()].into_iter().flatten() {
                self.late.push(Reverse((at, number)));
                out.push(Command::Wake(at));
            }
            open.awaited = Some(awaited);
        }
        self.flights.push(Some(Flight { request: number, ticket, engine, first_token: None, whole: open.whole }));
        out.push(Command::Send { request: number, engine });
        true
    }

    /// Cancels the attempts at a request, but for the one that answers.
    fn cancel(&mut self, now: Moment, number: u32, but: Option<AttemptId>, out: &mut Vec<Command>) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.awaited = None;
        for &attempt in open.attempts.iter().filter(|&&attempt| Some(attempt) != but) {
            if let Some(flight) = self.flights[attempt as usize].take() {
                flight.ticket.give_up(now);
                out.push(Command::Cancel(attempt));
            }
        }
    }
}

impl Scheduler for Gateway {
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        let bytes = u64::from(request.job.prompt_tokens) * TOKEN_BYTES;
        let open = Open {
            blocks: Blocks::new(request.job.blocks.clone(), bytes, self.layout),
            whole: request.whole,
            session: request.session,
            tokens: request.job.prompt_tokens.saturating_add(request.job.output_tokens),
            tried: vec![Vec::new(); self.targets.len()],
            target: 0,
            attempts: Vec::new(),
            awaited: None,
        };
        self.open.insert(number, open);
        self.place(now, number, out);
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        if let Some(Some(flight)) = self.flights.get_mut(attempt as usize) {
            flight.first_token = Some(now);
            flight.ticket.first_token(now);
            let request = flight.request;
            self.cancel(now, request, Some(attempt), out);
        }
    }

    fn streamed(&mut self, attempt: AttemptId, tokens: u32) {
        if let Some(Some(flight)) = self.flights.get_mut(attempt as usize) {
            flight.ticket.streamed(tokens.into());
        }
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, answer: Answer, _: &mut Vec<Command>) {
        let Some(flight) = self.flights[attempt as usize].take() else { return };
        let Some(open) = self.open.remove(&flight.request) else { return };
        self.engines[flight.engine].breaker.succeeded(now);
        let tokens = u64::from(answer.output_tokens);
        let prompt_tokens = open.blocks.prompt().bytes / TOKEN_BYTES;
        let usage = Usage {
            prompt_tokens,
            cached_tokens: Some(u64::from(answer.cached_tokens)),
            completion_tokens: tokens,
            reasoning_tokens: None,
        };
        let first = flight.first_token.filter(|_| !flight.whole && tokens > 1);
        let tpot = first.map(|first| now.since(first).as_secs_f64() / (tokens - 1) as f64);
        flight.ticket.finish(Some(&usage), tpot, now);
    }

    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        let Some(flight) = self.flights[attempt as usize].take() else { return };
        let Flight { request, first_token, ticket, engine, .. } = flight;
        ticket.give_up(now);
        let longest = self.profiles.get(engine).map_or(u32::MAX, Profile::longest);
        if self.open.get(&request).is_some_and(|open| open.tokens > longest) {
            // The engine says 400, which goes to the client as it came and is nobody's fault but its own.
            self.open.remove(&request);
            out.push(Command::Refuse(request));
            return;
        }
        let engine = &self.engines[engine];
        engine.breaker.failed(now, Failure::Unreachable);
        engine.gone();
        if first_token.is_some() {
            self.open.remove(&request);
            return;
        }
        let attempts = self.open.get(&request).map_or(&[][..], |open| &open.attempts);
        if attempts.iter().all(|&attempt| self.flights[attempt as usize].is_none()) {
            // Else the other of two tries goes on.
            self.place(now, request, out);
        }
    }

    fn left(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        self.cancel(now, number, None, out);
        self.open.remove(&number);
    }

    fn wake(&mut self, now: Moment, out: &mut Vec<Command>) {
        while let Some(&Reverse((at, number))) = self.late.peek()
            && at <= now
        {
            self.late.pop();
            let Some(open) = self.open.get(&number) else { continue };
            if let Some(awaited) = open.awaited
                && self.send(now, number, open.target, Some(&awaited), out)
                && let Some(open) = self.open.get_mut(&number)
            {
                open.awaited = None;
            }
        }
    }

    fn scraped(&mut self, now: Moment, engine: usize, gauges: Option<Gauges>, _: &mut Vec<Command>) {
        let at = &self.engines[engine];
        at.heard(gauges.is_some());
        let Some(gauges) = gauges else { return };
        let signals = EngineSignals {
            running: Some(f64::from(gauges.running)),
            waiting: Some(f64::from(gauges.waiting)),
            kv_usage: Some(gauges.kv_usage),
            kv_capacity_tokens: self.profiles.get(engine).map(|profile| u64::from(profile.kv_tokens)),
            prefix_queries: Some(gauges.prefix_queries as f64),
            prefix_hits: Some(gauges.prefix_hits as f64),
            preemptions: Some(f64::from(gauges.preemptions as u32)),
            ..EngineSignals::unknown(EngineKind::Vllm)
        };
        at.read(signals, now);
    }
}
