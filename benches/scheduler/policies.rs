//! The policies that are compared: name, description, constructor. Ours is the last.

use signalbox::{fleet::Registry, sim::cluster::Scheduler};

use crate::{
    account::{Ask, Known, Rule},
    binding::{Binding, Hold},
    ours::{exchanging, one_memory, ours, tail, with_objectives},
    peers::Bus,
    rules::{better_of_two, dynamo, least, llmd_own, llmd_predicted, llmd_scraped, lmetric, plain, prequal, sglang},
    scenario::Play,
    simple::Simple,
};

/// Name of the gateway's own policy; all others are baselines.
pub(crate) const OURS: &str = "ours";

/// The engines and the seed that a policy is constructed for.
#[derive(Copy, Clone)]
pub(crate) struct Fleet<'a> {
    pub(crate) play: &'a Play,
    /// Memory of all gateways of a play, for policies that share it.
    pub(crate) shared: &'a Registry,
    /// Messages between the gateways of a play, for policies that send any.
    pub(crate) bus: &'a Bus,
    /// Number of the gateway in its play.
    pub(crate) gateway: usize,
    pub(crate) seed: u64,
}

impl Fleet<'_> {
    fn simple<R: Rule + 'static>(&self, rule: R) -> Simple<R> {
        Simple::new(rule, self.play.setting.engines.len(), self.play.profile.kv_tokens, self.seed)
    }

    fn with(&self, rule: impl Rule + 'static) -> Box<dyn Scheduler> {
        Box::new(self.simple(rule))
    }

    /// With our late binding and hedges.
    fn late(&self, rule: impl Rule + 'static) -> Box<dyn Scheduler> {
        Box::new(self.simple(rule).bound(Binding::new(Hold::Late)))
    }

    /// With Dynamo's router queue, at a multiple of the tokens of a step.
    fn queued(&self, rule: impl Rule + 'static, threshold: u64, shortest_first: bool) -> Box<dyn Scheduler> {
        let tokens = threshold * u64::from(self.play.profile.chunk_tokens);
        Box::new(self.simple(rule).bound(Binding::new(Hold::Router { tokens, shortest_first })))
    }

    fn capacity(&self) -> f64 {
        f64::from(self.play.profile.kv_tokens)
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
    |fleet| fleet.with(plain),
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
    policy(
        "llm-d own",
        |fleet| fleet.with(llmd_own(fleet.capacity())),
        "the same from our own instant counts instead of scraped ones",
    ),
    policy(
        "llm-d predicted",
        |fleet| Box::new(fleet.simple(llmd_predicted(0.0)).learning()),
        "llm-d's predicted-latency profile without SLO headers: affinity filters 0.99 and 0.8, least predicted TTFT, weighted random; our predictor",
    ),
    policy(
        "llm-d SLO",
        |fleet| Box::new(fleet.simple(llmd_predicted(fleet.play.limits.ttft)).learning()),
        "the same with the scenario's limit on TTFT as its header: engines predicted to keep it first, those with the least headroom before others",
    ),
    policy(
        "Dynamo",
        |fleet| fleet.with(dynamo(1.0)),
        "NVIDIA Dynamo's KV router: blocks to compute + distinct blocks in use, temperature 0",
    ),
    policy("Dynamo scale 4", |fleet| fleet.with(dynamo(4.0)), "the same with `--router-prefill-load-scale 4`"),
    policy(
        "Dynamo queue",
        |fleet| fleet.queued(dynamo(1.0), 4, false),
        "Dynamo with `--router-queue-threshold 4`, first come first served",
    ),
    policy("LMetric", |fleet| fleet.with(lmetric), "u(n+1): uncached tokens × (requests in flight + 1)"),
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
    policy("Prequal*", |fleet| fleet.late(prequal), "Prequal with our late binding and hedges, as all with a star"),
    policy("SGLang*", |fleet| fleet.late(sglang), "see SGLang"),
    policy("llm-d*", |fleet| fleet.late(llmd_scraped), "see llm-d"),
    policy("llm-d own*", |fleet| fleet.late(llmd_own(fleet.capacity())), "see llm-d own"),
    policy("Dynamo*", |fleet| fleet.late(dynamo(1.0)), "see Dynamo"),
    policy("LMetric*", |fleet| fleet.late(lmetric), "see LMetric"),
    policy("Q+u(n+1)*", |fleet| fleet.late(plain), "see Q+u(n+1): ours in the account of the baselines"),
    policy("exact", |fleet| Box::new(fleet.simple(plain).exact()), "Q+u(n+1) with the true content of every cache"),
    policy("one memory", one_memory, "ours, where all gateways know at once what each has sent, learned and cached"),
    policy(
        "shared prompts",
        |fleet| exchanging(fleet, false),
        "ours, where the gateways exchange ten times a second which prompts were computed where",
    ),
    policy(
        "shared",
        |fleet| exchanging(fleet, true),
        "the same, and what they have under way, as with `placement.shared`",
    ),
    policy("objectives", with_objectives, "`least_cost` with the scenario's limits as the pool's objectives"),
    policy("tail", tail, "the same with `overload: tail`"),
    policy(OURS, ours, "`least_cost`, as the gateway runs it"),
];

fn round_robin(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    let mut turn = 0;
    fleet.with(move |_: &Ask<'_>, up: &[&Known], _: &mut Dice| {
        turn += 1;
        up[turn % up.len()].engine
    })
}
