//! The gateway's own scheduling over simulated engines on a virtual clock: effects of a slow backend, a stall, answers without streaming, a hot
//! prefix, and a second gateway.

use std::{collections::HashMap, ops::Range, time::Duration};

use signalbox::{
    config::Config,
    fleet::Registry,
    policy::compile,
    sim::{
        Job, Profile,
        cluster::{Change, Scheduler, Setting, run},
        gateway::Gateway,
        outcome::{End, Outcome},
        traffic::Request,
    },
};

const ENGINES: usize = 8;
/// Tokens of a block of a prompt.
const BLOCK: u32 = 512;

/// An 8B model on a large card.
fn profile() -> Profile {
    Profile { prefill_ms: 0.06, kv_tokens: 400_000, block_tokens: BLOCK, context_tokens: 200_000, ..Profile::long() }
}

fn gateway(balance: &str, seed: u64) -> Gateway {
    let urls: Vec<String> = (0..ENGINES).map(|engine| format!("http://engine-{engine}:8000/v1")).collect();
    let text = format!("pools: {{ main: {{ model: m, balance: {balance}, backends: [{}] }} }}", urls.join(", "));
    let policy = Config::parse("test.yaml", &text, &|_| None, &|_| Ok(String::new()))
        .and_then(|config| compile(&config))
        .expect("a policy that is valid");
    let route = policy
        .models
        .get("auto")
        .and_then(|model| model.first())
        .expect("a policy without models has this one")
        .clone();
    Gateway::new(policy, &route, &[profile(); ENGINES], &Registry::default(), seed)
}

/// Plays `requests` through this many gateways with a policy.
fn play(balance: &str, gateways: u64, requests: &[Request], changes: Vec<(Duration, usize, Change)>) -> Vec<Outcome> {
    let setting = Setting {
        engines: vec![profile(); ENGINES],
        changes,
        scrape: Some(Duration::from_secs(1)),
        seed: 3,
        ..Setting::default()
    };
    let mut gateways: Vec<Gateway> = (0..gateways).map(|seed| gateway(balance, seed)).collect();
    let mut schedulers: Vec<&mut dyn Scheduler> =
        gateways.iter_mut().map(|gateway| gateway as &mut dyn Scheduler).collect();
    run(&setting, requests, &mut schedulers)
}

/// A workload: rate, duration, and sharing of prefixes.
#[derive(Copy, Clone)]
struct Traffic {
    per_second: f64,
    seconds: f64,
    /// Number of prefixes; the first has the share `hot` of all requests, the others are alike.
    families: u64,
    hot: f64,
    /// Most blocks of a prefix.
    blocks: u64,
    /// Share of answers without streaming.
    whole: f64,
}

/// Conversations of many kinds.
const MIXED: Traffic = Traffic { per_second: 12.0, seconds: 120.0, families: 60, hot: 0.02, blocks: 24, whole: 0.0 };

impl Traffic {
    fn requests(self, seed: u64) -> Vec<Request> {
        let mut dice = fastrand::Rng::with_seed(seed);
        let (mut at, mut requests) = (0.0, Vec::new());
        while at < self.seconds {
            at += -(1.0 - dice.f64()).ln() / self.per_second;
            let family = if dice.f64() < self.hot { 0 } else { dice.u64(0..self.families) };
            let blocks = 1 + (17 + family * 7) % self.blocks;
            let own = if dice.f64() < 0.15 { dice.u32(2_000..16_000) } else { dice.u32(20..800) };
            let output = if dice.f64() < 0.3 { dice.u32(200..600) } else { dice.u32(5..60) };
            let job = Job {
                prompt_tokens: blocks as u32 * BLOCK + own,
                blocks: (0..blocks).map(|block| (family + 1) << 40 | block << 20 | 0xF00D).collect(),
                output_tokens: output,
                ..Job::default()
            };
            let whole = dice.f64() < self.whole;
            requests.push(Request { at: Duration::from_secs_f64(at), job, whole, ..Request::default() });
        }
        requests
    }
}

/// SLO attainment: a first token within a second or 2.5 times the idle TTFT, and 50 ms per token.
fn attainment(outcomes: &[Outcome]) -> f64 {
    let within = |outcome: &&Outcome| {
        let limit = profile().idle_ttft(outcome.prompt_tokens).mul_f64(2.5).max(Duration::from_secs(1));
        outcome.end == End::Answered
            && outcome.ttft.is_some_and(|ttft| ttft <= limit)
            && outcome.tpot().is_none_or(|tpot| tpot <= Duration::from_millis(50))
    };
    outcomes.iter().filter(within).count() as f64 / outcomes.len() as f64
}

/// Share of the requests in these seconds answered by `engine`, relative to a fair share.
fn share(requests: &[Request], outcomes: &[Outcome], engine: usize, seconds: Range<f64>) -> f64 {
    let came = |(request, _): &(&Request, &Outcome)| seconds.contains(&request.at.as_secs_f64());
    let (mut all, mut there) = (0, 0);
    for (_, outcome) in requests.iter().zip(outcomes).filter(came) {
        all += 1;
        there += u32::from(outcome.engine == Some(engine));
    }
    f64::from(there) / f64::from(all) * ENGINES as f64
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_slowed_backend_loses_its_share_within_5_s_and_has_it_back_within_60() {
    for seed in 0..3 {
        // Hardly anything is shared: where much of a prompt is cached, a slow backend may still be the quickest.
        let requests = Traffic { seconds: 260.0, blocks: 1, ..MIXED }.requests(seed);
        let slowed = (seed % ENGINES as u64) as usize;
        let changes = vec![(seconds(60), slowed, Change::Slow(4.0)), (seconds(150), slowed, Change::Slow(1.0))];
        let outcomes = play("least_cost", 1, &requests, changes);
        let share = |seconds| share(&requests, &outcomes, slowed, seconds);
        let (before, slow, after) = (share(20.0..60.0), share(65.0..150.0), share(210.0..260.0));
        assert!((0.6..1.5).contains(&before), "seed {seed}: {before} of its fair share before");
        assert!(slow < 1.0 / 3.0, "seed {seed}: {slow} of its fair share while it was slow");
        assert!(after > 2.0 / 3.0, "seed {seed}: {after} of its fair share after it recovered");
    }
}

#[test]
fn a_stalled_backend_gets_nothing_more_before_its_first_request_ends() {
    let mut sum = 0.0;
    for seed in 0..6 {
        let requests = Traffic { seconds: 90.0, ..MIXED }.requests(seed);
        let changes = vec![(seconds(30), 2, Change::Slow(1e5))];
        let outcomes = play("least_cost", 1, &requests, changes.clone());
        // It is tried again now and then, by one request that is hedged.
        let late = share(&requests, &outcomes, 2, 35.0..90.0);
        assert!(late < 0.05, "seed {seed}: {late} of its fair share 5 s and more into the stall");
        sum += late;
        let unheard = |outcomes: &[Outcome]| outcomes.iter().filter(|outcome| outcome.ttft.is_none()).count();
        let blind = play("round_robin", 1, &requests, changes);
        assert!(unheard(&outcomes) * 4 < unheard(&blind), "{} of {}", unheard(&outcomes), unheard(&blind));
    }
    assert!(sum < 6.0 * 0.01, "{} of its fair share 5 s and more into the stall, on the mean", sum / 6.0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let requests = Traffic { whole: 0.5, ..MIXED }.requests(1);
    let changes = || vec![(seconds(20), 1, Change::Die), (seconds(50), 1, Change::Return)];
    assert_eq!(play("least_cost", 2, &requests, changes()), play("least_cost", 2, &requests, changes()));
}

#[test]
fn least_cost_keeps_more_requests_within_their_slo_whether_streamed_or_whole() {
    for whole in [0.0, 0.5] {
        let mut sums: HashMap<&str, f64> = HashMap::new();
        for seed in 0..3 {
            let requests = Traffic { per_second: 15.0, whole, ..MIXED }.requests(seed);
            for balance in ["least_cost", "least_request", "round_robin"] {
                *sums.entry(balance).or_default() += attainment(&play(balance, 1, &requests, Vec::new())) / 3.0;
            }
        }
        let (ours, fewest, turns) = (sums["least_cost"], sums["least_request"], sums["round_robin"]);
        assert!(ours > fewest + 0.1 && ours > turns + 0.1, "{ours:.3}, {fewest:.3}, {turns:.3}, {whole} whole");
    }
}

#[test]
fn a_prefix_that_one_engine_cannot_serve_spreads() {
    let hot = Traffic { per_second: 44.0, seconds: 60.0, families: 40, hot: 0.4, blocks: 24, whole: 0.0 };
    let mut requests = hot.requests(5);
    // Nothing of their own that is long: the prefixes are the work.
    for request in &mut requests {
        request.job.prompt_tokens = request.job.blocks.len() as u32 * BLOCK + 100;
    }
    let ours = play("least_cost", 1, &requests, Vec::new());
    let shares: Vec<f64> = (0..ENGINES).map(|engine| share(&requests, &ours, engine, 10.0..60.0)).collect();
    assert!(shares.iter().all(|share| (0.3..2.5).contains(share)), "{shares:.2?}");
    let (ours, fewest) = (attainment(&ours), attainment(&play("least_request", 1, &requests, Vec::new())));
    assert!(ours > fewest, "{ours:.3} and {fewest:.3}");
}

#[test]
fn two_gateways_that_know_nothing_of_each_other_do_better_than_by_counting() {
    let requests = Traffic { per_second: 15.0, ..MIXED }.requests(9);
    let [ours, fewest, turns] =
        ["least_cost", "least_request", "round_robin"].map(|of| attainment(&play(of, 2, &requests, Vec::new())));
    assert!(ours > fewest && ours > turns, "{ours:.3}, {fewest:.3}, {turns:.3}");
}
