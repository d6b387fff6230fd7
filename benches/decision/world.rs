//! A pool under load: waiting and decoding requests, scraped gauges, and prompts with shared prefixes.

use std::{collections::VecDeque, time::Duration};

use signalbox::{
    config::Config,
    fleet::{PlacementQuery, Pool, Registry, Scratch, Snapshot, Ticket},
    policy::{Target, compile},
    prompt::{BlockHasher, Blocks},
    types::{EngineKind, EngineSignals, Moment, Usage},
};

use crate::figures::Figures;

/// Number of prompts, and of the families that share prefixes.
const PROMPTS: usize = 512;
const FAMILIES: u64 = 32;
/// Requests per backend that wait for their first token, and that decode.
const WAITING: usize = 3;
const DECODING: usize = 12;
/// One in this many answers comes whole.
const WHOLE: usize = 8;
/// Requests per second and backend.
const RATE: f64 = 8.0;
/// Scrape interval.
const READ_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct World {
    registry: Registry,
    snapshot: Snapshot,
    prompts: Vec<Blocks>,
    tokens: u64,
    target: Target,
    scratch: Scratch,
    dice: fastrand::Rng,
    now: Moment,
    read: Moment,
    waiting: VecDeque<Ticket>,
    decoding: VecDeque<Ticket>,
}

impl World {
    /// Creates a pool, and prompts of `tokens` tokens with four bytes each.
    pub(crate) fn new(backends: usize, tokens: u64) -> Self {
        let urls: Vec<String> = (0..backends).map(|engine| format!("http://engine-{engine}:8000/v1")).collect();
        let text = format!("pools: {{ main: {{ model: m, backends: [{}] }} }}", urls.join(", "));
        let policy = Config::parse("bench.yaml", &text, &|_| None, &|_| Ok(String::new()))
            .and_then(|config| compile(&config))
            .unwrap();
        let registry = Registry::default();
        let mut dice = fastrand::Rng::with_seed(1);
        let prompts = (0..PROMPTS as u64).map(|number| prompt(number, tokens as usize * 4, &mut dice)).collect();
        Self {
            snapshot: Snapshot::new(policy, &registry),
            registry,
            prompts,
            tokens,
            target: Target::whole(0),
            scratch: Scratch::default(),
            dice,
            now: Moment::default().plus(READ_EVERY),
            read: Moment::default(),
            waiting: VecDeque::new(),
            decoding: VecDeque::new(),
        }
    }

    /// Places `rounds` requests one after another and measures each step.
    pub(crate) fn run(&mut self, rounds: usize) -> [(&'static str, Figures); 4] {
        let mut steps = ["place", "take", "first token", "finish"].map(|step| (step, Figures::with_capacity(rounds)));
        let [(_, place), (_, take), (_, first), (_, finish)] = &mut steps;
        for round in 0..rounds {
            self.advance();
            let pool = &self.snapshot.pools[0];
            let backends = pool.backends.len();
            let blocks = &self.prompts[self.dice.usize(..PROMPTS)];
            let outputs = pool.learned.outputs.of(&self.target, &"route".into());
            let ask = PlacementQuery {
                target: &self.target,
                tried: &[],
                prompt: blocks.prompt(),
                session: None,
                room_only: false,
                outputs: &outputs,
                max_tokens: Some(400),
                whole: round % WHOLE == 0,
                bounded: false,
                ttft_limit: None,
                tpot_limit: None,
            };
            let chance = self.dice.f64();
            let placed = place.measure(|| pool.place(&ask, self.now, chance, &mut self.scratch)).unwrap();
            let backend = pool.backends[placed.backend].clone();
            let (learned, outputs, blocks) = (pool.learned.clone(), outputs.clone(), blocks.clone());
            self.waiting
                .push_back(take.measure(|| Ticket::take(learned, outputs, backend, placed.forecast, blocks, self.now)));
            if self.waiting.len() > WAITING * backends {
                let mut ticket = self.waiting.pop_front().unwrap();
                if !ticket.forecast().work.whole {
                    first.measure(|| ticket.first_token(self.now));
                }
                self.decoding.push_back(ticket);
            }
            if self.decoding.len() > DECODING * backends {
                let ticket = self.decoding.pop_front().unwrap();
                let work = ticket.forecast().work;
                let usage = Usage {
                    prompt_tokens: self.tokens,
                    cached_tokens: Some(self.tokens - work.uncached_tokens.min(self.tokens)),
                    completion_tokens: self.dice.u64(50..400),
                    ..Usage::default()
                };
                let tpot = (!work.whole).then(|| 0.012 + 0.006 * self.dice.f64());
                finish.measure(|| ticket.finish(Some(&usage), tpot, self.now));
            }
        }
        steps
    }

    /// Advances the time to the next request and scrapes the engines when due.
    fn advance(&mut self) {
        let pool: &Pool = &self.snapshot.pools[0];
        self.now = self.now.plus(Duration::from_secs_f64(1.0 / (RATE * pool.backends.len() as f64)));
        if self.now.since(self.read) < READ_EVERY {
            return;
        }
        self.read = self.now;
        for engine in self.registry.engines() {
            let others = f64::from(self.dice.u32(0..3));
            let signals = EngineSignals {
                running: Some(f64::from(engine.load.in_flight()) + others),
                waiting: Some(0.0),
                kv_usage: Some(0.5),
                kv_capacity_tokens: Some(1_000_000),
                ..EngineSignals::unknown(EngineKind::Vllm)
            };
            engine.record_reading(signals, self.now);
        }
    }
}

/// Makes a prompt: a prefix of random length that its family shares, and an end of its own.
fn prompt(number: u64, bytes: usize, dice: &mut fastrand::Rng) -> Blocks {
    let mut text = text(number % FAMILIES, bytes);
    let shared = dice.usize(..bytes);
    fastrand::Rng::with_seed(1_000 + number).fill(&mut text[shared..]);
    let mut hasher = BlockHasher::new(b"salt");
    hasher.push(&text);
    hasher.finish()
}

/// Random bytes by seed.
pub(crate) fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let mut text = vec![0; bytes];
    fastrand::Rng::with_seed(seed).fill(&mut text);
    text
}

/// Block hashes of random bytes by seed.
pub(crate) fn hashes(seed: u64, bytes: usize) -> Vec<u64> {
    let mut hasher = BlockHasher::new(b"salt");
    hasher.push(&text(seed, bytes));
    hasher.finish().prompt().blocks.to_vec()
}
