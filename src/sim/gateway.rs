//! The gateway's own scheduling in a simulated cluster: the same pools, tickets and predictions that serve traffic, on the
//! simulation's clock.

use std::{collections::HashMap, sync::Arc};

use super::{
    Gauges,
    cluster::{Answer, AttemptId, Command, Scheduler},
    traffic::Request,
};
use crate::{
    fleet::{Ask, Engine, Registry, Scratch, Snapshot, Ticket},
    policy::{Policy, Target},
    prompt::Blocks,
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
    layout: Layout,
    kv_tokens: Vec<u64>,
    dice: fastrand::Rng,
    scratch: Scratch,
    /// By attempt.
    flights: Vec<Option<Flight>>,
    /// Requests that have not begun to be answered, or are being.
    open: HashMap<u32, Open>,
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
    /// Backends tried, by target.
    tried: Vec<usize>,
    attempts: Vec<AttemptId>,
}

impl Gateway {
    /// A gateway that sends every request to the first pool of `policy`, and on to the next ones where that has none left. The
    /// policy's engines stand for the simulation's, in the same order; `kv_tokens` are the sizes of their KV caches, and
    /// `block_tokens` the size of the blocks that requests are hashed in. `seed` decides ties.
    pub fn new(policy: Policy, kv_tokens: Vec<u64>, block_tokens: u32, seed: u64) -> Self {
        let registry = Registry::default();
        let targets = (0..policy.pools.len()).map(|pool| Target { pool, serves: None, model: None }).collect();
        let engines = policy.engines.iter().map(|engine| registry.engine(&engine.name, &engine.url)).collect();
        Self {
            snapshot: Snapshot::new(policy, &registry),
            engines,
            targets,
            layout: Layout::Fixed(block_tokens.saturating_mul(TOKEN_BYTES as u32)),
            kv_tokens,
            dice: fastrand::Rng::with_seed(seed),
            scratch: Scratch::default(),
            flights: Vec::new(),
            open: HashMap::new(),
        }
    }

    /// The policy, alive.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn place(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        let Some(open) = self.open.get_mut(&number) else { return };
        for target in &self.targets {
            let pool = &self.snapshot.pools[target.pool];
            let ask = Ask {
                target,
                tried: &open.tried,
                prompt: open.blocks.prompt(),
                session: None,
                room_only: false,
                max_tokens: None,
                whole: open.whole,
                ttft_limit: None,
                tpot_limit: None,
            };
            let Some(placement) = pool.place(&ask, now, self.dice.f64(), &mut self.scratch) else { continue };
            let backend = &pool.backends[placement.backend];
            let engine = backend.spec.engine;
            let ticket =
                Ticket::take(pool.learned.clone(), backend.clone(), placement.forecast, open.blocks.clone(), now);
            open.tried.push(placement.backend);
            open.attempts.push(self.flights.len() as AttemptId);
            let flight = Flight { request: number, ticket, engine, first_token: None, whole: open.whole };
            self.flights.push(Some(flight));
            out.push(Command::Send { request: number, engine });
            return;
        }
        out.push(Command::Refuse(number));
        self.open.remove(&number);
    }
}

impl Scheduler for Gateway {
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        let bytes = u64::from(request.job.prompt_tokens) * TOKEN_BYTES;
        let blocks = Blocks::new(request.job.blocks.clone(), bytes, self.layout);
        let open = Open { blocks, whole: request.whole, tried: Vec::new(), attempts: Vec::new() };
        self.open.insert(number, open);
        self.place(now, number, out);
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, _: &mut Vec<Command>) {
        if let Some(Some(flight)) = self.flights.get_mut(attempt as usize) {
            flight.first_token = Some(now);
            flight.ticket.first_token(now);
        }
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, answer: Answer, _: &mut Vec<Command>) {
        let Some(flight) = self.flights[attempt as usize].take() else { return };
        let Some(open) = self.open.remove(&flight.request) else { return };
        self.engines[flight.engine].breaker.succeeded();
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
        let engine = &self.engines[flight.engine];
        engine.breaker.failed(now, true);
        engine.gone();
        let Flight { request, first_token, ticket, .. } = flight;
        drop(ticket);
        if first_token.is_some() {
            self.open.remove(&request);
            return;
        }
        if let Some(open) = self.open.get_mut(&request)
            && open.tried.len() >= self.engines.len()
        {
            open.tried.clear();
        }
        self.place(now, request, out);
    }

    fn left(&mut self, _: Moment, number: u32, out: &mut Vec<Command>) {
        let Some(open) = self.open.remove(&number) else { return };
        for attempt in open.attempts {
            if self.flights[attempt as usize].take().is_some() {
                out.push(Command::Cancel(attempt));
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
            kv_capacity_tokens: self.kv_tokens.get(engine).copied(),
            prefix_queries: Some(gauges.prefix_queries as f64),
            prefix_hits: Some(gauges.prefix_hits as f64),
            preemptions: Some(f64::from(gauges.preemptions as u32)),
            ..EngineSignals::unknown(EngineKind::Vllm)
        };
        at.read(signals, now);
    }

    fn wake(&mut self, _: Moment, _: &mut Vec<Command>) {}
}
