//! The scenarios: traffic, engines, and what changes during a run.

use std::time::Duration;

use signalbox::sim::{
    Profile,
    cluster::{Change, Setting},
    replay::replay,
    trace::Arrival,
    traffic::Request,
};

use crate::workload::{BLOCK, conversations, hot_prefixes, recorded, siblings, with_cancels, with_whole};

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// The recorded traces that are present.
pub(crate) struct Traces {
    mooncake: Option<Vec<Arrival>>,
    azure_conv: Option<Vec<Arrival>>,
    azure_code: Option<Vec<Arrival>>,
}

impl Traces {
    pub(crate) fn load() -> Self {
        Self {
            mooncake: recorded("mooncake_synthetic.jsonl.gz"),
            azure_conv: recorded("azure_conv.csv.gz"),
            azure_code: recorded("azure_code.csv.gz"),
        }
    }
}

/// The traffic: multiples of a trace's recorded load, or requests per second.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum Traffic {
    Mooncake(f64),
    AzureConv(f64),
    AzureCode(f64),
    Conversations(f64),
    HotPrefixes(f64),
    Siblings(f64),
}

/// The difference from eight equal engines that are scraped every second.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Twist {
    None,
    MisSpecified,
    HalfSlow,
    OneSlowed,
    OneDead,
    OneRestarted,
    OneStalled,
    TwoGateways,
    Scrape(Option<u64>),
    Cancels,
    HalfWhole,
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    traffic: Traffic,
    twist: Twist,
}

/// One seed of a scenario.
pub(crate) struct Play {
    pub(crate) setting: Setting,
    pub(crate) requests: Vec<Request>,
    pub(crate) gateways: usize,
}

const fn scenario(name: &'static str, traffic: Traffic, twist: Twist) -> Scenario {
    Scenario { name, traffic, twist }
}

/// All scenarios.
pub(crate) const ALL: &[Scenario] = &[
    scenario("mooncake ×0.75", Traffic::Mooncake(0.75), Twist::None),
    scenario("mooncake ×1", Traffic::Mooncake(1.0), Twist::None),
    scenario("mooncake ×1.25", Traffic::Mooncake(1.25), Twist::None),
    scenario("conversations 7/s", Traffic::Conversations(7.0), Twist::None),
    scenario("conversations 10/s", Traffic::Conversations(10.0), Twist::None),
    scenario("azure conv ×7", Traffic::AzureConv(7.0), Twist::None),
    scenario("azure conv ×8", Traffic::AzureConv(8.0), Twist::None),
    scenario("azure conv ×9", Traffic::AzureConv(9.0), Twist::None),
    scenario("azure code ×2", Traffic::AzureCode(2.0), Twist::None),
    scenario("azure code ×3", Traffic::AzureCode(3.0), Twist::None),
    scenario("hot prefix 40/s", Traffic::HotPrefixes(40.0), Twist::None),
    scenario("hot prefix 46/s", Traffic::HotPrefixes(46.0), Twist::None),
    scenario("hot prefix 52/s", Traffic::HotPrefixes(52.0), Twist::None),
    scenario("siblings 20/s", Traffic::Siblings(20.0), Twist::None),
    scenario("siblings 26/s", Traffic::Siblings(26.0), Twist::None),
    scenario("mis-specified, mooncake ×0.9", Traffic::Mooncake(0.9), Twist::MisSpecified),
    scenario("mis-specified, conversations 8/s", Traffic::Conversations(8.0), Twist::MisSpecified),
    scenario("mis-specified, azure conv ×7", Traffic::AzureConv(7.0), Twist::MisSpecified),
    scenario("half slow, mooncake ×0.6", Traffic::Mooncake(0.6), Twist::HalfSlow),
    scenario("half slow, azure conv ×5", Traffic::AzureConv(5.0), Twist::HalfSlow),
    scenario("one slowed, mooncake ×0.6", Traffic::Mooncake(0.6), Twist::OneSlowed),
    scenario("one slowed, azure conv ×6", Traffic::AzureConv(6.0), Twist::OneSlowed),
    scenario("one dead, conversations 7/s", Traffic::Conversations(7.0), Twist::OneDead),
    scenario("one stalled, conversations 7/s", Traffic::Conversations(7.0), Twist::OneStalled),
    scenario("one restarted, conversations 7/s", Traffic::Conversations(7.0), Twist::OneRestarted),
    scenario("two gateways, mooncake ×0.75", Traffic::Mooncake(0.75), Twist::TwoGateways),
    scenario("two gateways, conversations 7/s", Traffic::Conversations(7.0), Twist::TwoGateways),
    scenario("scrapes 50 ms, mooncake ×0.9", Traffic::Mooncake(0.9), Twist::Scrape(Some(50))),
    scenario("scrapes 15 s, conversations 8/s", Traffic::Conversations(8.0), Twist::Scrape(Some(15_000))),
    scenario("no scrapes, mooncake ×1.1", Traffic::Mooncake(1.1), Twist::Scrape(None)),
    scenario("20 % cancels, mooncake ×1", Traffic::Mooncake(1.0), Twist::Cancels),
    scenario("half not streamed, mooncake ×1", Traffic::Mooncake(1.0), Twist::HalfWhole),
    scenario("half not streamed, conversations 8/s", Traffic::Conversations(8.0), Twist::HalfWhole),
];

/// Descriptions of the names, for the report.
pub(crate) const LEGEND: &[(&str, &str)] = &[
    ("mooncake", "Mooncake's synthetic trace (3993 requests, long shared prefixes), at multiples of its recorded load"),
    (
        "conversations",
        "synthetic: four turns on average over one of 12 system prompts and a document, 30 s between turns",
    ),
    ("azure conv, azure code", "Azure's LLM traces of 2023, no prefixes known, at multiples of their recorded load"),
    (
        "hot prefix",
        "synthetic: 40 prefixes of 8k to 16k tokens by Zipf 1.3, the first requested more often than one engine can serve",
    ),
    ("siblings", "synthetic: bursts of 12 to 20 within 0.2 s that share a new prefix, and single prompts"),
    ("mis-specified", "each coefficient of each engine deviates from the profile by up to ±50 %, drawn by seed"),
    ("half slow", "four of the eight engines take twice as long"),
    ("one slowed", "one engine takes four times as long for 20 min of 23 (with azure for 3.6 of 4)"),
    ("one dead", "one engine fails after a third of the play and stays away"),
    (
        "one stalled",
        "one engine accepts requests and answers next to nothing for the middle third, then fails and returns with a cold cache",
    ),
    ("one restarted", "one engine fails after a third of the play and is back 30 s later with a cold cache"),
    ("two gateways", "requests alternate between two gateways that do not know of each other"),
    ("scrapes", "scrape interval for every policy; elsewhere one second"),
    ("cancels", "a fifth of the clients leave before their answer is complete; they are load and are not counted"),
    ("half not streamed", "every second answer comes whole, so nothing is observed before its end"),
];

/// Number of engines in every scenario.
pub(crate) const ENGINES: usize = 8;

/// The engine to imitate: an 8B model on an H100, 400k tokens of KV cache.
pub(crate) fn profile() -> Profile {
    Profile { block_tokens: BLOCK, ..Profile::h100_8b() }
}

impl Traffic {
    /// Draws the requests. Azure's excerpts are short, so that seeds use different parts of an hour.
    fn requests(self, traces: &Traces, seed: u64) -> Option<Vec<Request>> {
        Some(match self {
            Self::Mooncake(rate) => replay(traces.mooncake.as_ref()?, rate, minutes(25), seed),
            Self::AzureConv(rate) => replay(traces.azure_conv.as_ref()?, rate, minutes(4), seed),
            Self::AzureCode(rate) => replay(traces.azure_code.as_ref()?, rate, minutes(10), seed),
            Self::Conversations(rate) => conversations(rate, 900.0, seed),
            Self::HotPrefixes(rate) => hot_prefixes(rate, 180.0, seed),
            Self::Siblings(rate) => siblings(rate, 300.0, seed),
        })
    }
}

impl Scenario {
    /// A scenario without changes.
    pub(crate) const fn plain(name: &'static str, traffic: Traffic) -> Self {
        scenario(name, traffic, Twist::None)
    }

    /// Sets up one seed, with engines scraped every `scrape` unless the scenario sets an interval. `None` if the trace is missing.
    pub(crate) fn play(&self, traces: &Traces, scrape: Duration, seed: u64) -> Option<Play> {
        let requests = self.traffic.requests(traces, seed)?;
        let mut dice = fastrand::Rng::with_seed(seed ^ 0xE4);
        let mut engines = vec![profile(); ENGINES];
        let mut changes = Vec::new();
        let end = requests.last().map_or(Duration::ZERO, |last| last.at);
        let (third, two_thirds) = (end / 3, end / 3 * 2);
        match self.twist {
            Twist::MisSpecified => {
                for engine in &mut engines {
                    let mut deviation = || 0.5 + dice.f64();
                    engine.prefill_ms *= deviation();
                    engine.step_ms *= deviation();
                    engine.sequence_ms *= deviation();
                    engine.context_ms_per_1k *= deviation();
                    engine.prompt_ms *= deviation();
                }
            }
            Twist::HalfSlow => changes.extend((0..4).map(|engine| (Duration::ZERO, engine, Change::Slow(2.0)))),
            Twist::OneSlowed => {
                let from = end / 20;
                let until = (from + minutes(20)).min(end / 20 * 19);
                changes.extend([(from, 2, Change::Slow(4.0)), (until, 2, Change::Slow(1.0))]);
            }
            Twist::OneDead => changes.push((third, 3, Change::Die)),
            Twist::OneStalled => {
                changes.extend([
                    (third, 3, Change::Slow(3_000.0)),
                    (two_thirds, 3, Change::Die),
                    (two_thirds, 3, Change::Return),
                ]);
            }
            Twist::OneRestarted => {
                let back = third + Duration::from_secs(30);
                changes.extend([(third, 3, Change::Die), (back, 3, Change::Return)]);
            }
            _ => {}
        }
        changes.sort_by_key(|change| change.0);
        let requests = match self.twist {
            Twist::Cancels => with_cancels(requests, 0.2, seed),
            Twist::HalfWhole => with_whole(requests, 0.5, seed),
            _ => requests,
        };
        let scrape = match self.twist {
            Twist::Scrape(interval) => interval.map(Duration::from_millis),
            _ => Some(scrape),
        };
        // Engines take consecutive seeds from here.
        let setting = Setting { engines, changes, scrape, seed: seed << 8, ..Setting::default() };
        Some(Play { setting, requests, gateways: if self.twist == Twist::TwoGateways { 2 } else { 1 } })
    }
}
