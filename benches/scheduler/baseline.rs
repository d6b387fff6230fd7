//! The policies to beat, each as its project publishes it, over one and the same account of what was sent where.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use signalbox::{
    sim::{
        Gauges,
        cluster::{Answer, AttemptId, Command, Scheduler},
        traffic::Request,
    },
    types::Moment,
};

use crate::workload::BLOCK;

/// What a rule is told of an engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Requests of ours there.
    pub(crate) in_flight: u32,
    /// Of these, still without a first token.
    pub(crate) waiting: u32,
    /// Their uncached prompt tokens, as predicted.
    pub(crate) queued: u64,
    /// Tokens of all prompts of ours there.
    pub(crate) context: u64,
    /// Prompt tokens believed cached of the request to be placed.
    pub(crate) matched: u64,
    /// Tokens believed cached there in all.
    pub(crate) held: u64,
    /// As last scraped: when, and what.
    pub(crate) scraped: Option<(Moment, Gauges)>,
    /// Whether it failed within the last 5 s.
    pub(crate) down: bool,
    /// Peak-sensitive moving average of TTFT, in seconds.
    pub(crate) peak: f64,
    /// Median TTFT of late, in seconds.
    pub(crate) median: f64,
}

/// A way to choose an engine.
pub(crate) trait Rule {
    fn pick(&mut self, now: Moment, prompt_tokens: u64, seen: &[Seen], dice: &mut fastrand::Rng) -> usize;
}

impl<F: FnMut(Moment, u64, &[Seen], &mut fastrand::Rng) -> usize> Rule for F {
    fn pick(&mut self, now: Moment, prompt_tokens: u64, seen: &[Seen], dice: &mut fastrand::Rng) -> usize {
        self(now, prompt_tokens, seen, dice)
    }
}

struct Sent {
    request: u32,
    engine: usize,
    at: Moment,
    prompt_tokens: u64,
    uncached: u64,
    waiting: bool,
    open: bool,
}

/// A scheduler that sends every request at once to the engine its rule picks, and again elsewhere when that is gone.
pub(crate) struct Simple<R> {
    rule: R,
    dice: fastrand::Rng,
    seen: Vec<Seen>,
    failed_at: Vec<Option<Moment>>,
    prefixes: Vec<Prefixes>,
    late: Vec<Vec<f64>>,
    sent: Vec<Sent>,
    requests: HashMap<u32, Request>,
}

impl<R: Rule> Simple<R> {
    pub(crate) fn new(rule: R, engines: usize, kv_tokens: u32, seed: u64) -> Self {
        Self {
            rule,
            dice: fastrand::Rng::with_seed(seed ^ 0xBA5E),
            seen: vec![Seen::default(); engines],
            failed_at: vec![None; engines],
            prefixes: (0..engines).map(|_| Prefixes::new((kv_tokens / BLOCK) as usize)).collect(),
            late: vec![Vec::new(); engines],
            sent: Vec::new(),
            requests: HashMap::new(),
        }
    }

    fn place(&mut self, now: Moment, number: u32, out: &mut Vec<Command>) {
        let Some(request) = self.requests.get(&number) else { return };
        let prompt_tokens = u64::from(request.job.prompt_tokens);
        for (at, seen) in self.seen.iter_mut().enumerate() {
            seen.matched = self.prefixes[at].matched(&request.job.blocks) as u64 * u64::from(BLOCK);
            seen.held = (self.prefixes[at].used.len() as u64) * u64::from(BLOCK);
            seen.down = self.failed_at[at].is_some_and(|then| now.since(then) < Duration::from_secs(5));
        }
        let mut engine = self.rule.pick(now, prompt_tokens, &self.seen, &mut self.dice);
        if self.seen[engine].down {
            // All get the same simple health check: round what is down to the next one that is not.
            let count = self.seen.len();
            engine = (1..count).map(|step| (engine + step) % count).find(|&at| !self.seen[at].down).unwrap_or(engine);
        }
        let uncached = prompt_tokens.saturating_sub(self.seen[engine].matched).max(1);
        self.prefixes[engine].insert(&request.job.blocks);
        let seen = &mut self.seen[engine];
        seen.in_flight += 1;
        seen.waiting += 1;
        seen.queued += uncached;
        seen.context += prompt_tokens;
        self.sent.push(Sent { request: number, engine, at: now, prompt_tokens, uncached, waiting: true, open: true });
        out.push(Command::Send { request: number, engine });
    }

    fn begun(&mut self, now: Moment, attempt: AttemptId) {
        let sent = &mut self.sent[attempt as usize];
        if std::mem::replace(&mut sent.waiting, false) {
            let seen = &mut self.seen[sent.engine];
            seen.waiting -= 1;
            seen.queued -= sent.uncached;
            let ttft = now.since(sent.at).as_secs_f64();
            seen.peak = if ttft > seen.peak { ttft } else { seen.peak + 0.1 * (ttft - seen.peak) };
            let late = &mut self.late[sent.engine];
            late.push(ttft);
            if late.len() > 16 {
                late.remove(0);
            }
            let mut sorted = late.clone();
            sorted.sort_by(f64::total_cmp);
            seen.median = sorted[sorted.len() / 2];
        }
    }

    fn over(&mut self, attempt: AttemptId) -> u32 {
        let sent = &mut self.sent[attempt as usize];
        if std::mem::replace(&mut sent.open, false) {
            let seen = &mut self.seen[sent.engine];
            seen.in_flight -= 1;
            seen.context -= sent.prompt_tokens;
            if std::mem::replace(&mut sent.waiting, false) {
                seen.waiting -= 1;
                seen.queued -= sent.uncached;
            }
        }
        sent.request
    }
}

impl<R: Rule> Scheduler for Simple<R> {
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>) {
        self.requests.insert(number, request.clone());
        self.place(now, number, out);
    }

    fn first_token(&mut self, now: Moment, attempt: AttemptId, _: &mut Vec<Command>) {
        self.begun(now, attempt);
    }

    fn finished(&mut self, now: Moment, attempt: AttemptId, _: Answer, _: &mut Vec<Command>) {
        if self.sent[attempt as usize].waiting {
            self.begun(now, attempt);
        }
        let request = self.over(attempt);
        self.requests.remove(&request);
    }

    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        let waiting = self.sent[attempt as usize].waiting;
        let engine = self.sent[attempt as usize].engine;
        self.failed_at[engine] = Some(now);
        let request = self.over(attempt);
        if waiting {
            self.place(now, request, out);
        }
    }

    fn left(&mut self, _: Moment, number: u32, out: &mut Vec<Command>) {
        self.requests.remove(&number);
        let open = (0..self.sent.len() as u32)
            .rev()
            .find(|&attempt| self.sent[attempt as usize].request == number && self.sent[attempt as usize].open);
        if let Some(attempt) = open {
            self.over(attempt);
            out.push(Command::Cancel(attempt));
        }
    }

    fn scraped(&mut self, now: Moment, engine: usize, gauges: Option<Gauges>, _: &mut Vec<Command>) {
        if let Some(gauges) = gauges {
            self.seen[engine].scraped = Some((now, gauges));
        }
    }
}

/// What is believed cached on one engine: blocks by last use, no more than fit.
pub(crate) struct Prefixes {
    capacity: usize,
    clock: u64,
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

impl Prefixes {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, clock: 0, used: HashMap::new(), order: BTreeMap::new() }
    }

    pub(crate) fn matched(&self, blocks: &[u64]) -> usize {
        blocks.iter().take_while(|block| self.used.contains_key(block)).count()
    }

    pub(crate) fn insert(&mut self, blocks: &[u64]) {
        for &block in blocks.iter().rev() {
            self.clock += 1;
            if let Some(before) = self.used.insert(block, self.clock) {
                self.order.remove(&before);
            }
            self.order.insert(self.clock, block);
        }
        while self.used.len() > self.capacity {
            let Some((_, block)) = self.order.pop_first() else { break };
            self.used.remove(&block);
        }
    }
}

fn least(seen: &[Seen], cost: impl Fn(&Seen) -> f64, dice: &mut fastrand::Rng) -> usize {
    let costs: Vec<f64> = seen.iter().map(|seen| if seen.down { f64::INFINITY } else { cost(seen) }).collect();
    let smallest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let equal: Vec<usize> = (0..seen.len()).filter(|&at| costs[at] <= smallest).collect();
    equal[dice.usize(..equal.len())]
}

fn uncached(prompt_tokens: u64, seen: &Seen) -> f64 {
    prompt_tokens.saturating_sub(seen.matched).max(32) as f64
}

/// The names of all baselines.
pub(crate) const NAMES: [&str; 14] = [
    "random",
    "round robin",
    "least request",
    "P2C",
    "PeakEWMA",
    "Prequal",
    "SGLang cache_aware",
    "llm-d 3:2:2, 50 ms",
    "llm-d 3:2:2, 1 s",
    "llm-d 3:2:2, own",
    "Dynamo linear",
    "LMetric",
    "predicted TTFT",
    "Q + u(n+1)",
];

/// The baseline called `name`, over so many engines.
pub(crate) fn baseline(name: &str, engines: usize, kv_tokens: u32, seed: u64) -> Box<dyn Scheduler> {
    type Dice = fastrand::Rng;
    macro_rules! simple {
        ($rule:expr) => {
            Box::new(Simple::new($rule, engines, kv_tokens, seed))
        };
    }
    match name {
        "random" => simple!(|_: Moment, _: u64, seen: &[Seen], dice: &mut Dice| dice.usize(..seen.len())),
        "round robin" => {
            let mut turn = 0;
            simple!(move |_: Moment, _: u64, seen: &[Seen], _: &mut Dice| {
                turn += 1;
                turn % seen.len()
            })
        }
        "least request" => simple!(|_: Moment, _: u64, seen: &[Seen], dice: &mut Dice| {
            least(seen, |seen| f64::from(seen.in_flight), dice)
        }),
        "P2C" => simple!(|_: Moment, _: u64, seen: &[Seen], dice: &mut Dice| {
            let (one, other) = (dice.usize(..seen.len()), dice.usize(..seen.len()));
            if seen[one].in_flight <= seen[other].in_flight { one } else { other }
        }),
        "PeakEWMA" => simple!(|_: Moment, _: u64, seen: &[Seen], dice: &mut Dice| {
            least(seen, |seen| seen.peak * f64::from(seen.in_flight + 1), dice)
        }),
        "Prequal" => simple!(prequal),
        "SGLang cache_aware" => simple!(sglang),
        "llm-d 3:2:2, 50 ms" | "llm-d 3:2:2, 1 s" => {
            let every = Duration::from_millis(if name.ends_with("50 ms") { 50 } else { 1_000 });
            let mut kept: Vec<Option<(Moment, Gauges)>> = vec![None; engines];
            simple!(move |_: Moment, prompt: u64, seen: &[Seen], dice: &mut Dice| {
                for (kept, seen) in kept.iter_mut().zip(seen) {
                    if let Some((at, gauges)) = seen.scraped
                        && kept.is_none_or(|(before, _)| at.since(before) >= every)
                    {
                        *kept = Some((at, gauges));
                    }
                }
                let gauge = |at: usize| kept[at].map(|(_, gauges)| gauges).unwrap_or_default();
                llmd(prompt, seen, |at| f64::from(gauge(at).waiting), |at| gauge(at).kv_usage, dice)
            })
        }
        "llm-d 3:2:2, own" => simple!(move |_: Moment, prompt: u64, seen: &[Seen], dice: &mut Dice| {
            let kv = |at: usize| (seen[at].context as f64 / f64::from(kv_tokens)).min(1.0);
            llmd(prompt, seen, |at| f64::from(seen[at].waiting), kv, dice)
        }),
        "Dynamo linear" => simple!(|_: Moment, prompt: u64, seen: &[Seen], dice: &mut Dice| {
            let blocks = |tokens: f64| tokens / f64::from(BLOCK);
            least(
                seen,
                |seen| {
                    blocks(seen.queued as f64 + prompt.saturating_sub(seen.matched) as f64)
                        + blocks((seen.context + prompt) as f64)
                },
                dice,
            )
        }),
        "LMetric" => simple!(|_: Moment, prompt: u64, seen: &[Seen], dice: &mut Dice| {
            least(seen, |seen| uncached(prompt, seen) * f64::from(seen.in_flight + 1), dice)
        }),
        "predicted TTFT" => simple!(|_: Moment, prompt: u64, seen: &[Seen], dice: &mut Dice| {
            least(seen, |seen| seen.queued as f64 + uncached(prompt, seen), dice)
        }),
        "Q + u(n+1)" => simple!(|_: Moment, prompt: u64, seen: &[Seen], dice: &mut Dice| {
            least(seen, |seen| seen.queued as f64 + uncached(prompt, seen) * f64::from(seen.in_flight + 1), dice)
        }),
        other => unreachable!("no baseline is called {other}"),
    }
}

/// Hot–cold: among those below the 84th percentile of requests in flight the fastest, else the least loaded. Here all are
/// probed, which is more than Prequal asks for.
fn prequal(_: Moment, _: u64, seen: &[Seen], dice: &mut fastrand::Rng) -> usize {
    let mut loads: Vec<u32> = seen.iter().map(|seen| seen.in_flight).collect();
    loads.sort_unstable();
    let limit = loads[(loads.len() as f64 * 0.84) as usize];
    if seen.iter().any(|seen| seen.in_flight < limit) {
        least(seen, |seen| if seen.in_flight < limit { seen.median } else { f64::INFINITY }, dice)
    } else {
        least(seen, |seen| f64::from(seen.in_flight), dice)
    }
}

/// The longest match when it is long enough and load is even, else the least load or the smallest tree.
fn sglang(_: Moment, prompt: u64, seen: &[Seen], dice: &mut fastrand::Rng) -> usize {
    let most = seen.iter().map(|seen| seen.in_flight).max().unwrap_or(0);
    let fewest = seen.iter().map(|seen| seen.in_flight).min().unwrap_or(0);
    if most - fewest > 64 && f64::from(most) > 1.5 * f64::from(fewest) {
        return least(seen, |seen| f64::from(seen.in_flight), dice);
    }
    let best = seen.iter().map(|seen| seen.matched).max().unwrap_or(0);
    if best as f64 / prompt.max(1) as f64 > 0.3 {
        least(seen, |seen| -(seen.matched as f64), dice)
    } else {
        least(seen, |seen| seen.held as f64, dice)
    }
}

/// Prefix 3, queue 2, KV usage 2, each scaled to 0..1.
fn llmd(
    prompt: u64,
    seen: &[Seen],
    waiting: impl Fn(usize) -> f64,
    kv: impl Fn(usize) -> f64,
    dice: &mut fastrand::Rng,
) -> usize {
    let queues: Vec<f64> = (0..seen.len()).map(&waiting).collect();
    let most = queues.iter().copied().fold(0.0, f64::max);
    let fewest = queues.iter().copied().fold(f64::INFINITY, f64::min);
    let mut scores: Vec<Seen> = seen.to_vec();
    for (at, score) in scores.iter_mut().enumerate() {
        let queue = if most > fewest { (most - queues[at]) / (most - fewest) } else { 1.0 };
        let prefix = seen[at].matched as f64 / prompt.max(1) as f64;
        score.peak = -(3.0 * prefix + 2.0 * queue + 2.0 * (1.0 - kv(at)));
    }
    least(&scores, |seen| seen.peak, dice)
}
