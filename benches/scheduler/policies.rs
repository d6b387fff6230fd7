//! The policies that are compared: name, description, constructor. Ours is the last.

use signalbox::sim::cluster::Scheduler;

use crate::{
    account::{Ask, Known, Rule, Simple},
    ours::{ours, with_objectives},
    rules::{better_of_two, dynamo, least, llmd, llmd_scraped, prequal, sglang},
    scenario::Play,
};

/// Name of the gateway's own policy; all others are baselines.
pub(crate) const OURS: &str = "ours";

/// The engines and the seed that a policy is constructed for.
#[derive(Copy, Clone)]
pub(crate) struct Fleet<'a> {
    pub(crate) play: &'a Play,
    pub(crate) seed: u64,
}

impl Fleet<'_> {
    fn with(&self, rule: impl Rule + 'static) -> Box<dyn Scheduler> {
        Box::new(Simple::new(rule, self.play.setting.engines.len(), self.play.profile.kv_tokens, self.seed))
    }
}

/// A policy.
pub(crate) struct Policy {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) make: fn(&Fleet<'_>) -> Box<dyn Scheduler>,
}

const fn policy(name: &'static str, make: fn(&Fleet<'_>) -> Box<dyn Scheduler>, description: &'static str) -> Policy {
    Policy { name, description, make }
}

type Dice = fastrand::Rng;

/// The marginal-cost rule alone.
pub(crate) const PLAIN: Policy = policy(
    "Q+u(n+1)",
    |fleet| {
        fleet.with(|ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
            least(up, dice, |known| known.queued as f64 + known.uncached(ask.job) * f64::from(known.in_flight + 1))
        })
    },
    "the marginal-cost rule alone: uncached tokens queued there + own × (requests in flight + 1)",
);

/// All policies. A new one is one more entry here.
pub(crate) const POLICIES: &[Policy] = &[
    policy(
        "random",
        |fleet| fleet.with(|_: &Ask<'_>, up: &[&Known], dice: &mut Dice| up[dice.usize(..up.len())].engine),
        "any engine",
    ),
    policy("RR", round_robin, "round robin"),
    policy(
        "least",
        |fleet| {
            fleet
                .with(|_: &Ask<'_>, up: &[&Known], dice: &mut Dice| least(up, dice, |known| f64::from(known.in_flight)))
        },
        "fewest requests in flight",
    ),
    policy(
        "P2C",
        |fleet| {
            fleet.with(|_: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
                better_of_two(up, dice, |known| f64::from(known.in_flight))
            })
        },
        "power of two choices: of two random engines the one with fewer requests in flight",
    ),
    policy(
        "EWMA",
        |fleet| {
            fleet.with(|ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
                better_of_two(up, dice, |known| known.peak_cost(ask.now))
            })
        },
        "Finagle's PeakEWMA: of two random engines the one with the smaller peak-sensitive average TTFT (10 s) × requests in flight",
    ),
    policy(
        "Prequal",
        |fleet| fleet.with(prequal),
        "hot–cold lexicographic at the 84th percentile of requests in flight, latency at about the current load",
    ),
    policy(
        "SGLang",
        |fleet| fleet.with(sglang),
        "`cache_aware`, thresholds 0.3 / 64 / 1.5, else fewest requests in flight",
    ),
    policy(
        "llm-d",
        |fleet| fleet.with(llmd_scraped),
        "llm-d's scorers, prefix 3 : queue 2 : KV cache 2, from scraped gauges",
    ),
    policy("llm-d own", llmd_own, "the same from our own instant counts instead of scraped ones"),
    policy(
        "Dynamo",
        |fleet| fleet.with(dynamo),
        "NVIDIA Dynamo's KV router: blocks to compute + distinct blocks in use, temperature 0",
    ),
    policy(
        "LMetric",
        |fleet| {
            fleet.with(|ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
                least(up, dice, |known| known.uncached(ask.job) * f64::from(known.in_flight + 1))
            })
        },
        "u(n+1): uncached tokens × (requests in flight + 1)",
    ),
    policy(
        "pTTFT",
        |fleet| {
            fleet.with(|ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
                least(up, dice, |known| known.queued as f64 + known.uncached(ask.job))
            })
        },
        "greedy predicted TTFT: uncached tokens queued there + own",
    ),
    PLAIN,
    policy("objectives", with_objectives, "`least_cost` with the scenario's limits as the pool's objectives"),
    policy(OURS, ours, "`least_cost`, as the gateway runs it"),
];

fn round_robin(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    let mut turn = 0;
    fleet.with(move |_: &Ask<'_>, up: &[&Known], _: &mut Dice| {
        turn += 1;
        up[turn % up.len()].engine
    })
}

fn llmd_own(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    let capacity = f64::from(fleet.play.profile.kv_tokens);
    fleet.with(move |ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
        let kv = |known: &Known| (known.context as f64 / capacity).min(1.0);
        llmd(ask, up, dice, |known| f64::from(known.waiting), kv)
    })
}
