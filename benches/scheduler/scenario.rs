//! Scenarios: drawn ones, and recorded traces at multiples of their load.
//!
//! A drawn scenario takes everything from wide priors: engines, traffic, limits, load, faults, scraping and the number of
//! gateways. Its load is a multiple of its capacity: the rate at which the plain rule `Q + u(n+1)` keeps the limits of nine
//! in ten requests, without faults and with one gateway.

use std::time::Duration;

use signalbox::sim::{
    Profile,
    cluster::{Change, Setting},
    outcome::{End, Outcome},
    replay::replay,
    trace::Arrival,
    traffic::Request,
};

use crate::{
    dice::log_uniform,
    plays::play as figures,
    policies::PLAIN,
    workload::{BLOCK, Mix},
};

/// Requests of a drawn scenario.
const REQUESTS: usize = 1_500;
/// Shortest and longest drawn scenario, in seconds.
const SECONDS: (f64, f64) = (40.0, 400.0);
/// Rates among which the capacity is sought, in requests per second, and the steps of the search: it ends within 4 %.
const RATES: (f64, f64) = (0.05, 500.0);
const STEPS: u32 = 8;
/// Share of a scenario's time after which requests count. Before it, caches are cold and nothing is learned.
const WARM: f64 = 0.2;

/// The limits that a request has to keep.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Limits {
    /// TTFT in seconds, at least.
    pub(crate) ttft: f64,
    /// TTFT as a multiple of that of an idle engine with a cold cache; the longer of the two applies.
    pub(crate) times: f64,
    /// Mean time between tokens in seconds.
    pub(crate) tpot: f64,
}

impl Limits {
    /// Those of `signalbox simulate`.
    pub(crate) const USUAL: Self = Self { ttft: 1.0, times: 2.5, tpot: 0.05 };

    /// TTFT over its limit; infinite without a first token.
    pub(crate) fn lateness(&self, profile: &Profile, outcome: &Outcome) -> f64 {
        let idle = profile.idle_ttft(outcome.prompt_tokens).as_secs_f64();
        outcome.ttft.map_or(f64::INFINITY, |ttft| ttft.as_secs_f64() / self.ttft.max(self.times * idle))
    }

    /// True if the answer is complete and kept both limits.
    pub(crate) fn kept(&self, profile: &Profile, outcome: &Outcome) -> bool {
        outcome.end == End::Answered
            && self.lateness(profile, outcome) <= 1.0
            && outcome.tpot().is_none_or(|tpot| tpot.as_secs_f64() <= self.tpot)
    }
}

/// A scenario, ready to be played.
#[derive(Clone, Debug)]
pub(crate) struct Play {
    pub(crate) setting: Setting,
    pub(crate) requests: Vec<Request>,
    pub(crate) gateways: usize,
    /// The engine without its own deviations.
    pub(crate) profile: Profile,
    pub(crate) limits: Limits,
    /// Time from which on requests count.
    pub(crate) warm: Duration,
    /// Load as a multiple of the engines' capacity, or of the recorded load.
    pub(crate) load: f64,
    /// Its features, for tables by kind.
    pub(crate) traits: Vec<&'static str>,
}

/// Draws scenario number `seed`.
pub(crate) fn drawn(seed: u64) -> Play {
    let mut dice = fastrand::Rng::with_seed(seed ^ 0xD1CE);
    let dice = &mut dice;
    let profile = engine(dice);
    let idle_step = profile.step_ms / 1e3;
    let limits = Limits {
        ttft: log_uniform(dice, 0.2, 4.0),
        times: log_uniform(dice, 1.5, 6.0),
        tpot: idle_step * log_uniform(dice, 1.5, 6.0),
    };
    let mut traits = vec![
        if profile.prefill_ms < 0.12 { "fast prefill" } else { "slow prefill" },
        if limits.times < 3.0 { "tight TTFT" } else { "loose TTFT" },
        if limits.tpot < 3.0 * idle_step { "tight TPOT" } else { "loose TPOT" },
    ];
    let count = 2 + dice.usize(..9);
    let uneven = dice.f64() < 0.3;
    let slowness: Vec<f64> = (0..count).map(|_| if uneven { log_uniform(dice, 0.6, 1.8) } else { 1.0 }).collect();
    let mix = Mix::draw(dice, (f64::from(profile.kv_tokens) / 4.0).min(48_000.0));
    let load = 0.5 + 1.5 * dice.f64();
    let scrape = log_uniform(dice, 0.05, 15.0);
    let scrape = (dice.f64() < 0.9).then(|| Duration::from_secs_f64(scrape));
    let gateways = [1, 1, 1, 1, 1, 1, 1, 2, 2, 3][dice.usize(..10)];
    let slowed = |slow: f64| Profile {
        step_ms: profile.step_ms * slow,
        sequence_ms: profile.sequence_ms * slow,
        context_ms_per_1k: profile.context_ms_per_1k * slow,
        prompt_ms: profile.prompt_ms * slow,
        prefill_ms: profile.prefill_ms * slow,
        ..profile
    };
    let engines: Vec<Profile> = slowness.iter().map(|slow| slowed(*slow)).collect();
    let setting = Setting { engines, changes: Vec::new(), scrape, seed: seed << 8, ..Setting::default() };
    let at = |rate: f64| {
        let count = (REQUESTS as f64).clamp(rate * SECONDS.0, rate * SECONDS.1).clamp(200.0, 4_000.0);
        let requests = mix.requests(rate, count as usize, seed);
        let warm = requests.last().map_or(Duration::ZERO, |last| last.at.mul_f64(WARM));
        Play { setting: setting.clone(), requests, gateways: 1, profile, limits, warm, load, traits: Vec::new() }
    };
    let mut play = at(load * capacity(&at));
    let end = play.requests.last().map_or(Duration::ZERO, |last| last.at);
    if uneven {
        traits.push("uneven engines");
    }
    if dice.f64() < 0.25 {
        traits.push("a fault");
        play.setting.changes = fault(dice, count, end);
    }
    if gateways > 1 {
        traits.push("several gateways");
    }
    Play { gateways, traits, ..play }
}

/// Rate at which the plain rule keeps nine in ten limits, by bisection; the lowest or highest rate tried if it is beyond.
fn capacity(at: &impl Fn(f64) -> Play) -> f64 {
    let (mut carried, mut too_much) = RATES;
    for _ in 0..STEPS {
        let middle = (carried * too_much).sqrt();
        if figures(&at(middle), &PLAIN).attainment >= 90.0 {
            carried = middle;
        } else {
            too_much = middle;
        }
    }
    carried
}

/// Plays `arrivals` at `rate` times their recorded load on eight engines that imitate an 8B model on an H100.
pub(crate) fn recorded(arrivals: &[Arrival], rate: f64, limit: Duration, seed: u64) -> Play {
    let profile = Profile { block_tokens: BLOCK, ..Profile::h100_8b() };
    let requests = replay(arrivals, rate, limit, seed);
    let end = requests.last().map_or(Duration::ZERO, |last| last.at);
    let scrape = Some(Duration::from_secs(1));
    let setting = Setting { engines: vec![profile; 8], scrape, seed: seed << 8, ..Setting::default() };
    let (limits, warm) = (Limits::USUAL, end.mul_f64(WARM));
    Play { setting, requests, gateways: 1, profile, limits, warm, load: rate, traits: Vec::new() }
}

/// Draws an engine: from a small model on a fast GPU to a large one on slow ones.
fn engine(dice: &mut fastrand::Rng) -> Profile {
    let step_ms = log_uniform(dice, 6.0, 50.0);
    Profile {
        step_ms,
        sequence_ms: step_ms * log_uniform(dice, 0.003, 0.02),
        context_ms_per_1k: step_ms * log_uniform(dice, 0.000_5, 0.005),
        prompt_ms: log_uniform(dice, 1.0, 60.0),
        prefill_ms: log_uniform(dice, 0.03, 0.6),
        slowdown_tokens: log_uniform(dice, 10_000.0, 100_000.0),
        chunk_tokens: 512 << dice.u32(..5),
        max_sequences: log_uniform(dice, 8.0, 256.0) as u32,
        kv_tokens: log_uniform(dice, 60_000.0, 1_500_000.0) as u32,
        block_tokens: BLOCK,
        context_tokens: 200_000,
        jitter: 0.03,
    }
}

/// One engine is slow for a while, dies, or stalls and returns with a cold cache.
fn fault(dice: &mut fastrand::Rng, engines: usize, end: Duration) -> Vec<(Duration, usize, Change)> {
    let engine = dice.usize(..engines);
    let from = end.mul_f64(0.25 + 0.25 * dice.f64());
    let until = from + end.mul_f64(0.1 + 0.3 * dice.f64());
    match dice.u32(..4) {
        0 => vec![(from, engine, Change::Slow(log_uniform(dice, 1.5, 6.0))), (until, engine, Change::Slow(1.0))],
        1 => vec![(from, engine, Change::Die)],
        2 => vec![(from, engine, Change::Die), (until, engine, Change::Return)],
        _ => vec![(from, engine, Change::Slow(3_000.0)), (until, engine, Change::Die), (until, engine, Change::Return)],
    }
}
