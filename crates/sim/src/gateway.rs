//! The gateway's own scheduling in a simulated cluster: the same routes, pools, queues, tickets and predictions that serve traffic, on
//! the simulation's clock.

mod waiting;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    Gauges, Profile,
    attempt::{Attempt, signals},
    cluster::{Answer, AttemptId, Command, Scheduler},
    open_request::{Chosen, OpenRequest},
    queues::Queues,
    router::{Directed, Fixed, Meter, Router, Scene},
    traffic::Request,
};
use signalbox_fleet::{Engine, Failure, Registry, Scratch, Snapshot, Ticket};
use signalbox_policy::{Policy, Route};
use signalbox_prompt::Blocks;
use signalbox_schedule::{
    admission::shed,
    budget::Budget,
    hedge::{self, Alternative, Awaited},
    spill::{self, PoolOption},
};
use signalbox_telemetry::{Metrics, Shed};
use signalbox_types::{Layout, Moment, Name, Usage};

pub use super::attempt::Disposition;
use super::attempt::{NO_BACKEND, NO_ROUTE};

/// Bytes per token of simulated prompts. The gateway is not given it; it learns it.
pub(super) const TOKEN_BYTES: u64 = 4;
/// A gateway that runs a policy over simulated engines.
pub struct Gateway {
    snapshot: Snapshot,
    router: Box<dyn Router>,
    /// By index of the simulation.
    engines: Vec<Arc<Engine>>,
    meters: Vec<Meter>,
    layout: Layout,
    profiles: Vec<Profile>,
    dice: fastrand::Rng,
    scratch: Scratch,
    /// By attempt id.
    attempts: Vec<Option<Attempt>>,
    /// Requests that wait or are being answered, by number.
    open: HashMap<u32, OpenRequest>,
    queues: Queues,
    /// Time of the next retry for waiting requests.
    look_at: Moment,
    /// Last used target of each route with limits.
    spills: HashMap<Name, usize>,
    hedges: Budget,
    /// Times at which first tokens become late, with the request.
    late: BinaryHeap<Reverse<(Moment, u32)>>,
    dispositions: HashMap<u32, Disposition>,
    /// Most concurrent requests of each engine.
    busiest: Vec<u32>,
}

impl Gateway {
    /// A gateway that sends every request by `route` of `policy`. The policy's engines correspond to `profiles` in order, which all have the
    /// same block size. `seed` breaks ties.
    /// It keeps in `registry` all that it learns and sends.
    pub fn new(policy: Policy, route: &Route, profiles: &[Profile], registry: &Registry, seed: u64) -> Self {
        Self::with(policy, Box::new(Fixed(Arc::new(route.clone()))), profiles, registry, seed)
    }

    /// A gateway whose requests are routed by `router`.
    pub fn with(policy: Policy, router: Box<dyn Router>, profiles: &[Profile], registry: &Registry, seed: u64) -> Self {
        let block_tokens = profiles.first().map_or(1, |profile| profile.block_tokens);
        let engines = policy.engines.iter().map(|engine| registry.engine(&engine.name, &engine.id())).collect();
        let metrics = Metrics::new();
        Self {
            meters: policy.pools.iter().map(|pool| Meter::new(metrics.pool(&pool.name))).collect(),
            queues: Queues::new(policy.pools.len(), policy.limits.queue_length),
            snapshot: Snapshot::new(policy, registry),
            router,
            engines,
            layout: Layout::Fixed(block_tokens.saturating_mul(TOKEN_BYTES as u32)),
            profiles: profiles.to_vec(),
            look_at: Moment::default(),
            dice: fastrand::Rng::with_seed(seed),
            scratch: Scratch::default(),
            attempts: Vec::new(),
            open: HashMap::new(),
            spills: HashMap::new(),
            hedges: hedge::budget(),
            late: BinaryHeap::new(),
            dispositions: HashMap::new(),
            busiest: vec![0; profiles.len()],
        }
    }

    /// The running policy.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Disposition of a request.
    pub fn disposition(&self, number: u32) -> Disposition {
        self.dispositions.get(&number).copied().unwrap_or_default()
    }

    /// Most concurrent requests of each engine, by index.
    pub fn busiest(&self) -> &[u32] {
        &self.busiest
    }

    fn refuse(&mut self, number: u32, reason: &'static str, out: &mut Vec<Command>) {
        self.dispositions.entry(number).or_default().refused = Some(reason);
        self.open.remove(&number);
        out.push(Command::Refuse(number));
    }

    /// Dispatches a request to a backend with room, queues it, or refuses it.
    fn enter(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        let Some(preferred) = self.open.get(&number).and_then(|open| open.preferred(&self.snapshot.pools)) else {
            return self.refuse(number, NO_BACKEND, out);
        };
        let chosen = self.choose(now, number);
        if let Some(chosen) = chosen {
            if self.is_hopeless(now, number, &chosen) {
                return self.refuse(number, Shed::Slo.label(), out);
            }
            // A new request does not overtake waiting ones.
            if self.queues.is_empty() && !chosen.held && self.launch(now, number, &chosen, false, out) {
                return;
            }
        }
        self.wait(now, number, preferred, chosen.as_ref(), out);
    }

    /// The best backend with room, in the pool that spill selects.
    fn choose(&mut self, now: Moment, number: u32) -> Option<Chosen> {
        let Self { snapshot, open, dice, scratch, spills, .. } = self;
        let (pools, open) = (&snapshot.pools, open.get(&number)?);
        if !open.route().spill {
            return open.look(open.preferred(pools)?, pools, now, dice.f64(), scratch);
        }
        let targets = 0..open.route().targets.len();
        let limited = targets.len() > 1 && targets.clone().any(|at| open.limits(at, pools, now) != (None, None));
        let used = if limited { spills.get(&open.route().name).copied().unwrap_or(0) } else { 0 };
        let (picked, chosen) = spill::choose(targets, limited, used, |at| {
            let chosen = open.look(at, pools, now, dice.f64(), scratch)?;
            Some(PoolOption { avoided: chosen.avoided, attainment: chosen.attainment, chosen })
        })?;
        if limited && picked != used && open.is_new() {
            spills.insert(open.route().name.clone(), picked);
        }
        Some(chosen)
    }

    /// True if a new request with a TTFT bound is shed, since it would probably miss the bound.
    fn is_hopeless(&mut self, now: Moment, number: u32, chosen: &Chosen) -> bool {
        let Some(open) = self.open.get(&number).filter(|open| open.is_new()) else { return false };
        let Some(bound) = open.bound(now) else { return false };
        let model = self.snapshot.pools[chosen.pool].learned.predictor.model();
        let attainment = model.ttft_within(bound.as_secs_f64(), &chosen.placement.forecast.work.prediction);
        shed(Some(attainment), chosen.in_flight, self.dice.f64())
    }

    /// Reserves the chosen backend and dispatches the request; false if its room is taken.
    fn launch(&mut self, now: Moment, number: u32, chosen: &Chosen, beside: bool, out: &mut Vec<Command>) -> bool {
        let Some(open) = self.open.get_mut(&number) else { return false };
        let Chosen { target, pool: place, placement, .. } = *chosen;
        let pool = &self.snapshot.pools[place];
        let backend = &pool.backends[placement.backend];
        let (learned, outputs) = (pool.learned.clone(), open.outputs(target).clone());
        let (forecast, blocks) = (placement.forecast, open.blocks().clone());
        let taken = Ticket::take_if_room(learned, outputs, backend.clone(), forecast, blocks, now);
        let Some(ticket) = taken else { return false };
        open.tries(target, placement.backend, self.attempts.len() as AttemptId);
        let whole = open.whole();
        if !beside {
            self.hedges.earn();
            let free = pool.spec.price.is_none();
            if !whole && open.route().hedge.unwrap_or(free) {
                let model = pool.learned.predictor.model();
                let quantile = |level| model.ttft_quantile(level, &forecast.work.prediction);
                let awaited = Awaited { dispatched: now, p95: quantile(0.95), p99: quantile(0.99) };
                for at in [awaited.due(), awaited.stalled_at()].into_iter().flatten() {
                    self.late.push(Reverse((at, number)));
                    out.push(Command::Wake(at));
                }
                open.awaited = Some(awaited);
            }
        }
        let engine = backend.spec.engine;
        self.busiest[engine] = self.busiest[engine].max(backend.engine.load.in_flight());
        self.dispositions.entry(number).or_default().sent = Some((place, placement.backend));
        let (pool, backend) = (place, placement.backend);
        let sent = Attempt { request: number, ticket, sent: now, engine, pool, backend, first_token: None, whole };
        self.attempts.push(Some(sent));
        out.push(Command::Send { request: number, engine });
        true
    }

    /// Sends a hedge to a second backend of the same pool, if that pays.
    fn hedge(&mut self, now: Moment, number: u32, awaited: &Awaited, out: &mut Vec<Command>) -> bool {
        let Self { snapshot, open, dice, scratch, .. } = self;
        let Some(open) = open.get(&number) else { return false };
        let Some(chosen) = open.look(open.target(), &snapshot.pools, now, dice.f64(), scratch) else { return false };
        let work = chosen.placement.forecast.work;
        let other = Alternative { ttft: work.prediction.seconds, uncached: work.uncached_tokens };
        awaited.pays(&other, now) && self.hedges.take() && self.launch(now, number, &chosen, true, out)
    }

    /// Cancels the attempts at a request, except the one that answers.
    fn cancel(&mut self, now: Moment, number: u32, but: Option<AttemptId>, out: &mut Vec<Command>) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.awaited = None;
        for &attempt in open.attempts().iter().filter(|&&attempt| Some(attempt) != but) {
            if let Some(sent) = self.attempts[attempt as usize].take() {
                sent.ticket.give_up(now);
                out.push(Command::Cancel(attempt));
            }
        }
    }

    /// Handles a failed attempt: retries elsewhere unless the answer had begun.
    fn fail(&mut self, now: Moment, attempt: AttemptId, failure: Failure, out: &mut Vec<Command>) {
        let Some(sent) = self.attempts[attempt as usize].take() else { return };
        let Attempt { request, first_token, ticket, engine, pool, backend, .. } = sent;
        ticket.give_up(now);
        let longest = self.profiles.get(engine).map_or(u32::MAX, Profile::longest);
        if self.open.get(&request).is_some_and(|open| open.tokens() > longest) {
            // The engine answers 400, which is passed on and is no fault of the engine.
            return self.refuse(request, "context", out);
        }
        self.meters[pool].ended(false, now);
        let backend = &self.snapshot.pools[pool].backends[backend];
        if failure == Failure::Unreachable {
            backend.engine.process_ended();
        }
        backend.failed(now, now, failure);
        if first_token.is_some() {
            self.open.remove(&request);
        } else if let Some(open) = self.open.get(&request)
            && open.attempts().iter().all(|&attempt| self.attempts[attempt as usize].is_none())
        {
            // Otherwise the other attempt of a hedge goes on.
            self.enter(now, request, out);
        }
        self.admit_waiting(now, out);
    }
}

impl Scheduler for Gateway {
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        let bytes = u64::from(request.job.prompt_tokens) * TOKEN_BYTES;
        let blocks = Blocks::new(request.job.blocks.clone(), bytes, self.layout);
        let waiting: Vec<usize> = self.queues.depths().collect();
        let (snapshot, meters) = (&self.snapshot, &*self.meters);
        let scene = Scene { now, snapshot, meters, waiting: &waiting, prompt: blocks.prompt() };
        let Some(Directed { route, priority, max_tokens }) = self.router.direct(number, request, &scene) else {
            return self.refuse(number, NO_ROUTE, out);
        };
        let open = OpenRequest::new(request, blocks, route, priority, max_tokens, &self.snapshot.pools, now);
        self.open.insert(number, open);
        self.enter(now, number, out);
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        if let Some(Some(sent)) = self.attempts.get_mut(attempt as usize) {
            sent.first_token = Some(now);
            sent.ticket.first_token(now);
            let (request, pool) = (sent.request, sent.pool);
            let learned = &self.snapshot.pools[pool].backends[sent.backend].learned;
            learned.latency.observe(now.seconds_since(sent.sent), now);
            if let Some(open) = self.open.get(&request) {
                self.meters[pool].ttft(now.seconds_since(open.arrived()), now);
            }
            self.cancel(now, request, Some(attempt), out);
            self.admit_waiting(now, out);
        }
    }

    fn streamed(&mut self, attempt: AttemptId, tokens: u32) {
        if let Some(Some(sent)) = self.attempts.get_mut(attempt as usize) {
            sent.ticket.streamed(tokens.into());
        }
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, answer: Answer, out: &mut Vec<Command>) {
        let Some(sent) = self.attempts[attempt as usize].take() else { return };
        let Some(open) = self.open.remove(&sent.request) else { return };
        self.dispositions.entry(sent.request).or_default().sent = Some((sent.pool, sent.backend));
        let backend = &self.snapshot.pools[sent.pool].backends[sent.backend];
        backend.succeeded(now);
        if sent.first_token.is_none() {
            // Of an answer that comes whole, the gateway sees only its end.
            backend.learned.latency.observe(now.seconds_since(sent.sent), now);
        }
        let tokens = u64::from(answer.output_tokens);
        let usage = Usage {
            prompt_tokens: open.blocks().prompt().bytes / TOKEN_BYTES,
            cached_tokens: Some(u64::from(answer.cached_tokens)),
            completion_tokens: tokens,
            ..Usage::default()
        };
        let first = sent.first_token.filter(|_| !sent.whole && tokens > 1);
        let tpot = first.map(|first| now.seconds_since(first) / (tokens - 1) as f64);
        let objectives = &self.snapshot.pools[sent.pool].spec.objectives;
        let ttft = sent.first_token.map(|first| first.since(open.arrived()));
        let in_time = objectives.ttft().is_none_or(|most| ttft.is_none_or(|ttft| ttft <= most));
        let fast = objectives.tpot().is_none_or(|most| tpot.is_none_or(|tpot| tpot <= most.as_secs_f64()));
        self.meters[sent.pool].ended(in_time && fast, now);
        sent.ticket.finish(Some(&usage), tpot, now);
        self.admit_waiting(now, out);
    }

    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.fail(now, attempt, Failure::Unreachable, out);
    }

    fn erred(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.fail(now, attempt, Failure::Error, out);
    }

    fn left(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        self.cancel(now, number, None, out);
        self.queues.leave(number);
        self.open.remove(&number);
        self.admit_waiting(now, out);
    }

    fn wake(&mut self, now: Moment, out: &mut Vec<Command>) {
        self.pass_time(now, out);
        while let Some(&Reverse((at, number))) = self.late.peek()
            && at <= now
        {
            self.late.pop();
            let Some(open) = self.open.get(&number) else { continue };
            if let Some(awaited) = open.awaited
                && self.hedge(now, number, &awaited, out)
                && let Some(open) = self.open.get_mut(&number)
            {
                open.awaited = None;
            }
        }
    }

    fn scraped(&mut self, now: Moment, engine: usize, gauges: Option<Gauges>, _: &mut Vec<Command>) {
        let at = &self.engines[engine];
        at.set_reachable(gauges.is_some());
        if let Some(gauges) = gauges {
            at.record_reading(signals(&gauges, self.profiles.get(engine)), now);
        }
    }

    fn pause(&self, usual: Duration, now: Moment) -> Duration {
        self.engines.iter().map(|engine| engine.poll_interval(usual, now)).min().unwrap_or(usual)
    }
}
