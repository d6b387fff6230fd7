//! Traffic drawn by seed: singles, prompts with common prefixes, conversations and bursts of siblings.

use std::{sync::Arc, time::Duration};

use signalbox::sim::{Job, replay::hash, traffic::Request};

use crate::dice::{exponential, log_normal, log_uniform, zipf};

/// Tokens per block of the engines' prefix caches, as in Mooncake's traces.
pub(crate) const BLOCK: u32 = 512;

/// Most requests of a burst.
const LARGEST_BURST: u64 = 24;

/// A log-normal distribution of lengths in tokens.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Lengths {
    median: f64,
    sigma: f64,
    most: f64,
}

impl Lengths {
    /// Draws a distribution whose median is between `from` and `to`.
    fn draw(dice: &mut fastrand::Rng, from: f64, to: f64, most: f64) -> Self {
        Self { median: log_uniform(dice, from, to), sigma: 0.4 + 0.9 * dice.f64(), most }
    }

    fn next(&self, dice: &mut fastrand::Rng) -> f64 {
        log_normal(dice, self.median, self.sigma).clamp(4.0, self.most)
    }
}

/// A set of prefixes that prompts begin with, chosen by a Zipf distribution. Each has its own length.
#[derive(Copy, Clone, Debug)]
struct Prefixes {
    count: u64,
    exponent: f64,
    /// Shortest and longest, in blocks.
    blocks: (u64, u64),
    seed: u64,
}

impl Prefixes {
    fn draw(dice: &mut fastrand::Rng, most: f64) -> Self {
        let longest = log_uniform(dice, 2.0, (most / f64::from(BLOCK)).clamp(2.0, 32.0)) as u64;
        Self {
            count: log_uniform(dice, 1.0, 100.0) as u64,
            exponent: 0.4 + 1.2 * dice.f64(),
            blocks: (1.max(longest / 4), longest.max(1)),
            seed: dice.u64(..1 << 40),
        }
    }

    /// A prefix and its number of blocks.
    fn next(&self, dice: &mut fastrand::Rng) -> (u64, u64) {
        let prefix = self.seed + zipf(dice, self.count, self.exponent);
        (prefix, self.blocks.0 + hash(prefix, 7) % (self.blocks.1 - self.blocks.0 + 1))
    }
}

/// Kinds of traffic.
#[derive(Copy, Clone, Debug)]
enum Kind {
    /// Prompts that share nothing.
    Singles,
    /// One of some prefixes, then text of its own.
    Families(Prefixes),
    /// A system prompt, a document, then questions and answers that grow the context: turns on average, and the mean time
    /// in seconds between an answer and the next question. True if the client names its sessions.
    Conversations(Prefixes, Lengths, f64, f64, bool),
    /// An agent that fans out: bursts of requests that share a prefix which is new.
    Siblings(u64, (u64, u64)),
}

/// One kind of traffic with its share of all requests.
#[derive(Copy, Clone, Debug)]
struct Part {
    kind: Kind,
    share: f64,
    /// Tokens of a prompt that no other shares.
    own: Lengths,
    answer: Lengths,
}

/// A mix of traffic.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    parts: Vec<Part>,
    /// Seconds to which arrivals are rounded up, as traces of batches have them.
    batch: Option<f64>,
    /// Amplitude and period in seconds by which the rate swings around its mean.
    swing: (f64, f64),
    /// Share of clients that leave before the end of their answer.
    leaves: f64,
    /// Share of answers that are not streamed.
    whole: f64,
}

impl Mix {
    /// Draws a mix of prompts of at most `most` tokens.
    pub(crate) fn draw(dice: &mut fastrand::Rng, most: f64) -> Self {
        let parts = (0..=dice.usize(..3)).map(|_| Part::draw(dice, most)).collect();
        let mut sometimes = |chance, least: f64, largest: f64| {
            let value = least + (largest - least) * dice.f64();
            if dice.f64() < chance { value } else { 0.0 }
        };
        let (leaves, whole) = (sometimes(0.15, 0.05, 0.3), sometimes(0.2, 0.2, 1.0));
        let swing = (sometimes(0.3, 0.2, 0.8), 20.0 + sometimes(1.0, 0.0, 60.0));
        let batch = Some(sometimes(0.15, 0.5, 3.0)).filter(|batch| *batch > 0.0);
        Self { parts, batch, swing, leaves, whole }
    }

    /// About `count` requests at `rate` per second, in order.
    pub(crate) fn requests(&self, rate: f64, count: usize, seed: u64) -> Vec<Request> {
        let mut dice = fastrand::Rng::with_seed(seed);
        let seconds = count as f64 / rate;
        let whole: f64 = self.parts.iter().map(|part| part.share).sum();
        let mut requests = Vec::with_capacity(count + count / 4);
        for part in &self.parts {
            part.requests(rate * part.share / whole, seconds, &mut dice, &mut requests);
        }
        let (amplitude, period) = self.swing;
        for request in &mut requests {
            let mut at = request.at.as_secs_f64();
            // The inverse of a rate that swings, to first order.
            at += amplitude * period / std::f64::consts::TAU * (1.0 - (std::f64::consts::TAU * at / period).cos());
            if let Some(batch) = self.batch {
                at = (at / batch).ceil() * batch;
            }
            request.at = Duration::from_secs_f64(at);
            request.whole = dice.f64() < self.whole;
            if dice.f64() < self.leaves {
                let Job { prompt_tokens, output_tokens, .. } = request.job;
                let about = 0.3 + f64::from(prompt_tokens) * 0.000_3 + f64::from(output_tokens) * 0.02;
                request.leaves = Some(Duration::from_secs_f64(about * dice.f64()));
            }
        }
        requests.sort_by_key(|request| request.at);
        requests
    }
}

impl Part {
    fn draw(dice: &mut fastrand::Rng, most: f64) -> Self {
        let kind = match dice.u32(..4) {
            0 => Kind::Singles,
            1 => Kind::Families(Prefixes::draw(dice, most)),
            2 => {
                let prefixes = Prefixes::draw(dice, most / 4.0);
                let document = Lengths::draw(dice, 50.0, 6_000.0, most / 2.0);
                let (turns, pause) = (log_uniform(dice, 1.5, 12.0), log_uniform(dice, 2.0, 60.0));
                Kind::Conversations(prefixes, document, turns, pause, dice.bool())
            }
            _ => {
                let longest = log_uniform(dice, 2.0, (most / f64::from(BLOCK)).clamp(2.0, 32.0)) as u64;
                Kind::Siblings(3 + dice.u64(..LARGEST_BURST - 2), (1.max(longest / 4), longest))
            }
        };
        let own = if matches!(kind, Kind::Singles) { (100.0, 8_000.0) } else { (30.0, 2_000.0) };
        Self {
            kind,
            share: 0.1 + dice.f64(),
            own: Lengths::draw(dice, own.0, own.1, most),
            answer: Lengths::draw(dice, 10.0, 600.0, 3_000.0),
        }
    }

    /// Adds the requests of `seconds` seconds.
    fn requests(&self, rate: f64, seconds: f64, dice: &mut fastrand::Rng, out: &mut Vec<Request>) {
        let mut plain = |at: f64, prefix: u64, shared: u64, dice: &mut fastrand::Rng| {
            let own = self.own.next(dice);
            let blocks = (0..shared).map(|block| hash(prefix, block)).collect();
            let tokens = (shared as f64 * f64::from(BLOCK) + own) as u32;
            out.push(request(at, tokens, self.answer.next(dice) as u32, blocks));
        };
        let mut at = 0.0;
        match self.kind {
            Kind::Singles => loop {
                at += exponential(dice, 1.0 / rate);
                if at > seconds {
                    return;
                }
                plain(at, 0, 0, dice);
            },
            Kind::Families(prefixes) => loop {
                at += exponential(dice, 1.0 / rate);
                if at > seconds {
                    return;
                }
                let (prefix, blocks) = prefixes.next(dice);
                plain(at, prefix, blocks, dice);
            },
            Kind::Siblings(fan, (least, most)) => loop {
                at += exponential(dice, fan as f64 / rate);
                if at > seconds {
                    return;
                }
                let (family, blocks) = (dice.u64(..1 << 40), least + dice.u64(..=most - least));
                for _ in 0..fan {
                    plain(at + dice.f64() * 0.2, family, blocks, dice);
                }
            },
            Kind::Conversations(prefixes, document, turns, pause, named) => {
                // Begun early, so that all turns occur from the beginning.
                at = -2.0 * turns * (pause + 0.02 * self.answer.median);
                while at < seconds {
                    at += exponential(dice, turns / rate);
                    let talk = Talk { prefixes, document, turns, pause, named };
                    talk.requests(self, at, seconds, dice, out);
                }
            }
        }
    }
}

/// Parameters of conversations.
struct Talk {
    prefixes: Prefixes,
    document: Lengths,
    turns: f64,
    pause: f64,
    named: bool,
}

impl Talk {
    /// Adds one conversation that begins at `at`.
    fn requests(&self, part: &Part, mut at: f64, seconds: f64, dice: &mut fastrand::Rng, out: &mut Vec<Request>) {
        let (system, system_blocks) = self.prefixes.next(dice);
        let session = dice.u64(..1 << 40);
        let mut context = system_blocks as f64 * f64::from(BLOCK) + self.document.next(dice);
        loop {
            context += part.own.next(dice).min(2_000.0);
            let answer = part.answer.next(dice);
            if context > part.own.most {
                return;
            }
            if (0.0..seconds).contains(&at) {
                let blocks = (0..context as u64 / u64::from(BLOCK))
                    .map(|block| hash(if block < system_blocks { system } else { session }, block));
                let asked = request(at, context as u32, answer as u32, blocks.collect());
                out.push(Request { session: self.named.then_some(session), ..asked });
            }
            context += answer;
            at += answer * 0.02 + exponential(dice, self.pause);
            if dice.f64() < 1.0 / self.turns {
                return;
            }
        }
    }
}

/// Builds a request. The part of the prompt without block hashes is shared with no other request.
fn request(at: f64, prompt_tokens: u32, output_tokens: u32, blocks: Arc<[u64]>) -> Request {
    Request {
        at: Duration::from_secs_f64(at),
        job: Job { prompt_tokens, blocks, output_tokens: output_tokens.max(1), ..Job::default() },
        ..Request::default()
    }
}
