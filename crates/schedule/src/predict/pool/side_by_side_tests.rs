//! Late binding before engines that compute one prompt after another, or many side by side.

use super::*;
use crate::admission::{due, holds};

/// Requests of a play.
const REQUESTS: usize = 300;
/// Interval at which held requests are tried again, in seconds.
const RECHECK: f64 = 0.25;

/// An engine: a first token takes `base` seconds and `per_token` for each token of its prompt. `servers` prompts are
/// computed side by side; the others wait in the order of their arrival.
#[derive(Copy, Clone, Debug)]
struct Engine {
    base: f64,
    per_token: f64,
    servers: usize,
    /// Ratio of the longest to the shortest time of equal prompts.
    spread: f64,
}

/// Requests that come at `rate` each second, of `tokens` tokens, or of four times as many for one in `long`.
#[derive(Copy, Clone, Debug)]
struct Traffic {
    rate: f64,
    tokens: u64,
    long: usize,
}

struct Sent {
    at: f64,
    features: Features,
    prediction: Prediction,
    /// Time of its first token.
    ends: f64,
}

/// A gateway with one engine.
struct Play {
    engine: Engine,
    pool: PoolPredictor,
    backend: BackendPredictor,
    /// Times at which each of the servers is free.
    free: Vec<f64>,
    sent: Vec<Sent>,
    last_first_token: f64,
    dice: fastrand::Rng,
}

fn at(seconds: f64) -> Moment {
    Moment::from_nanos((seconds * 1e9) as u64)
}

impl Play {
    fn new(engine: Engine) -> Self {
        Self {
            engine,
            pool: PoolPredictor::new(),
            backend: BackendPredictor::new(),
            free: vec![0.0; engine.servers],
            sent: Vec::new(),
            last_first_token: 0.0,
            dice: fastrand::Rng::with_seed(7),
        }
    }

    /// Learns from the first tokens up to `now`.
    fn advance(&mut self, now: f64) {
        self.sent.sort_by(|one, other| one.ends.total_cmp(&other.ends));
        let until = self.sent.partition_point(|sent| sent.ends <= now);
        for Sent { at: came, features, prediction, ends } in self.sent.drain(..until) {
            self.pool.observe_ttft(&self.backend, &features, &prediction, ends - came, at(ends));
            self.last_first_token = ends;
        }
    }

    /// Sends a prompt of `tokens` at `now`, unless it is to be held. Returns the time of its first token.
    fn send(&mut self, now: f64, tokens: u64, may_hold: bool) -> Option<f64> {
        let oldest = self.sent.iter().map(|sent| sent.at).fold(f64::INFINITY, f64::min);
        let features = Features {
            uncached: tokens,
            prompt: tokens,
            queued: self.sent.iter().map(|sent| sent.features.uncached).sum(),
            progress: if self.sent.is_empty() { 0.0 } else { now - oldest.max(self.last_first_token) },
            ..Features::default()
        };
        let ahead = self.pool.model().ahead(&self.backend, &features, 0.0, at(now));
        if may_hold && holds(self.backend.proven_wait(ahead.wait, at(now)), ahead.prefill) {
            return None;
        }
        let takes =
            (self.engine.base + self.engine.per_token * tokens as f64) * self.engine.spread.powf(self.dice.f64() - 0.5);
        let first = self.free.iter_mut().min_by(|one, other| one.total_cmp(other)).expect("there is one");
        *first = first.max(now) + takes;
        self.sent.push(Sent { at: now, features, prediction: ahead.ttft, ends: *first });
        Some(*first)
    }

    fn next_first_token(&self) -> f64 {
        self.sent.iter().map(|sent| sent.ends).fold(f64::INFINITY, f64::min)
    }

    fn prefill(&self, now: f64, tokens: u64) -> f64 {
        let features = Features { uncached: tokens, prompt: tokens, ..Features::default() };
        self.pool.model().ahead(&self.backend, &features, 0.0, at(now)).prefill
    }
}

/// Times to first token, with the prompt's tokens, and the number of requests that were held.
fn play(engine: Engine, traffic: Traffic, may_hold: bool) -> (Vec<(u64, f64)>, usize) {
    let mut play = Play::new(engine);
    let (mut held, mut times, mut holds) = (Vec::<(Moment, f64, u64)>::new(), Vec::new(), 0);
    let (mut now, mut arrived) = (0.0, 0);
    while arrived < REQUESTS || !held.is_empty() {
        play.advance(now);
        held.sort_by_key(|waiting| waiting.0);
        held.retain(|&(_, came, tokens)| match play.send(now, tokens, may_hold) {
            Some(first) => {
                times.push((tokens, first - came));
                holds += usize::from(now > came);
                false
            }
            None => true,
        });
        let next = if arrived < REQUESTS { arrived as f64 / traffic.rate } else { f64::INFINITY };
        let recheck = if held.is_empty() { f64::INFINITY } else { now + RECHECK };
        now = next.min(recheck).min(play.next_first_token()).max(now);
        if next <= now {
            arrived += 1;
            let tokens = if arrived % traffic.long == 0 { 4 * traffic.tokens } else { traffic.tokens };
            held.push((due(at(now), play.prefill(now, tokens)), now, tokens));
        }
    }
    (times, holds)
}

fn percentile(times: &[(u64, f64)], level: f64, up_to: u64) -> f64 {
    let mut sorted: Vec<f64> = times.iter().filter(|(tokens, _)| *tokens <= up_to).map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * level) as usize]
}

/// Plays the traffic without and with holding. Returns true if the 95th percentile is at most 1.3 times that without, and
/// 0.2 s; and the number of requests that were held.
fn compare(engine: Engine, traffic: Traffic) -> (bool, usize) {
    let (direct, _) = play(engine, traffic, false);
    let (through, held) = play(engine, traffic, true);
    let p95 = |times: &[(u64, f64)]| percentile(times, 0.95, u64::MAX);
    (p95(&through) <= 1.3 * p95(&direct) + 0.2, held)
}

/// All combinations of prompts and of noise.
fn variants() -> impl Iterator<Item = (u64, usize, f64)> {
    let tokens = [200, 2_000, 24_000];
    tokens.into_iter().flat_map(|tokens| {
        [REQUESTS, 5].into_iter().flat_map(move |long| [1.2, 6.0].map(|spread| (tokens, long, spread)))
    })
}

#[test]
fn no_prompt_waits_before_an_engine_that_computes_all_side_by_side() {
    for (base, per_token) in [(0.3, 0.0), (1.0, 0.0), (2.5, 0.0), (0.05, 6e-5), (0.05, 6e-4)] {
        for ((tokens, long, spread), rate) in variants().flat_map(|variant| [8.0, 40.0].map(|rate| (variant, rate))) {
            let engine = Engine { base, per_token, servers: REQUESTS, spread };
            let (is_as_fast, held) = compare(engine, Traffic { rate, tokens, long });
            assert!(is_as_fast && held < REQUESTS / 5, "{engine:?}: {tokens} tokens, {rate}/s: {held} held");
        }
    }
}

#[test]
fn ranks_that_have_room_are_given_prompts() {
    for servers in [2, 4, 8] {
        for ((tokens, long, spread), load) in variants().flat_map(|variant| [0.5, 0.8].map(|load| (variant, load))) {
            let engine = Engine { base: 0.03, per_token: 3e-4, servers, spread };
            let rate = load * servers as f64 / (0.03 + 3e-4 * tokens as f64) / if long == 5 { 1.6 } else { 1.0 };
            let (is_as_fast, held) = compare(engine, Traffic { rate, tokens, long });
            assert!(is_as_fast, "{engine:?}: {tokens} tokens, {rate}/s: {held} held");
        }
    }
}

/// They wait here, and a short one passes a long one.
#[test]
fn prompts_wait_before_an_engine_that_computes_one_after_another() {
    let engine = Engine { base: 0.05, per_token: 1e-4, servers: 1, spread: 1.2 };
    let traffic = Traffic { rate: 0.9, tokens: 8_000, long: 5 };
    let (direct, _) = play(engine, traffic, false);
    let (through, held) = play(engine, traffic, true);
    let short = |times: &[(u64, f64)]| percentile(times, 0.5, traffic.tokens);
    assert!(held > REQUESTS / 2, "{held}");
    assert!(short(&through) < short(&direct), "{} {}", short(&through), short(&direct));
}
