//! The scenarios: which traffic, against which engines, and what happens to them.

use std::time::Duration;

use signalbox::sim::{
    Profile,
    cluster::{Change, Setting},
    trace::Arrival,
    traffic::Request,
};

use crate::workload::{BLOCK, conversations, hot_prefixes, recorded, replay, siblings, with_cancels, with_whole};

/// The recorded traces that are here.
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

/// What is played.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Traffic {
    Mooncake(f64),
    AzureConv(f64),
    AzureCode(f64),
    Conversations(f64),
    HotPrefixes(f64),
    Siblings(f64),
}

/// What is different from eight equal engines that are asked for their gauges every second.
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
    /// Whether even the best policy fails many: such a one does not decide a mean.
    pub(crate) saturated: bool,
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
    Scenario { name, saturated: false, traffic, twist }
}

const fn saturated(name: &'static str, traffic: Traffic, twist: Twist) -> Scenario {
    Scenario { name, saturated: true, traffic, twist }
}

/// All of them.
pub(crate) const ALL: &[Scenario] = &[
    scenario("mooncake ×0.75", Traffic::Mooncake(0.75), Twist::None),
    scenario("mooncake ×1", Traffic::Mooncake(1.0), Twist::None),
    scenario("mooncake ×1.25", Traffic::Mooncake(1.25), Twist::None),
    scenario("conversations 7/s", Traffic::Conversations(7.0), Twist::None),
    scenario("conversations 10/s", Traffic::Conversations(10.0), Twist::None),
    scenario("azure conv ×7", Traffic::AzureConv(7.0), Twist::None),
    scenario("azure conv ×8", Traffic::AzureConv(8.0), Twist::None),
    saturated("azure conv ×9", Traffic::AzureConv(9.0), Twist::None),
    scenario("azure code ×2", Traffic::AzureCode(2.0), Twist::None),
    scenario("azure code ×3", Traffic::AzureCode(3.0), Twist::None),
    scenario("hot prefix 40/s", Traffic::HotPrefixes(40.0), Twist::None),
    saturated("hot prefix 46/s", Traffic::HotPrefixes(46.0), Twist::None),
    saturated("hot prefix 52/s", Traffic::HotPrefixes(52.0), Twist::None),
    scenario("siblings", Traffic::Siblings(20.0), Twist::None),
    scenario("siblings 26/s", Traffic::Siblings(26.0), Twist::None),
    scenario("mis-specified, mooncake", Traffic::Mooncake(0.9), Twist::MisSpecified),
    scenario("mis-specified, conversations", Traffic::Conversations(8.0), Twist::MisSpecified),
    scenario("mis-specified, azure", Traffic::AzureConv(7.0), Twist::MisSpecified),
    scenario("half slow, mooncake", Traffic::Mooncake(0.6), Twist::HalfSlow),
    scenario("half slow, azure", Traffic::AzureConv(5.0), Twist::HalfSlow),
    scenario("one slowed, mooncake", Traffic::Mooncake(0.75), Twist::OneSlowed),
    scenario("one slowed, azure", Traffic::AzureConv(6.0), Twist::OneSlowed),
    scenario("one dead", Traffic::Conversations(7.0), Twist::OneDead),
    scenario("one stalled", Traffic::Conversations(7.0), Twist::OneStalled),
    scenario("one restarted cold", Traffic::Conversations(7.0), Twist::OneRestarted),
    scenario("two gateways", Traffic::Mooncake(0.75), Twist::TwoGateways),
    scenario("two gateways, conversations", Traffic::Conversations(7.0), Twist::TwoGateways),
    scenario("scrapes 50 ms", Traffic::Mooncake(1.0), Twist::Scrape(Some(50))),
    scenario("scrapes 15 s", Traffic::Mooncake(1.0), Twist::Scrape(Some(15_000))),
    scenario("no scrapes", Traffic::Mooncake(1.0), Twist::Scrape(None)),
    scenario("20 % cancels", Traffic::Mooncake(1.0), Twist::Cancels),
    scenario("half not streamed", Traffic::Mooncake(1.0), Twist::HalfWhole),
    scenario("half not streamed, conv.", Traffic::Conversations(8.0), Twist::HalfWhole),
];

/// The engine that is imitated: an 8B model on an H100, 400k tokens of KV cache.
pub(crate) fn profile() -> Profile {
    Profile {
        prefill_ms: 0.06,
        chunk_tokens: 4_096,
        max_sequences: 128,
        kv_tokens: 400_000,
        block_tokens: BLOCK,
        context_tokens: 200_000,
        ..Profile::long()
    }
}

impl Scenario {
    /// The play of one seed; `None` where its trace is not here.
    pub(crate) fn play(&self, traces: &Traces, seed: u64) -> Option<Play> {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let requests = match self.traffic {
            Traffic::Mooncake(rate) => replay(traces.mooncake.as_ref()?, rate, minutes(25), seed),
            Traffic::AzureConv(rate) => replay(traces.azure_conv.as_ref()?, rate, minutes(6), seed),
            Traffic::AzureCode(rate) => replay(traces.azure_code.as_ref()?, rate, minutes(10), seed),
            Traffic::Conversations(rate) => conversations(rate, 900.0, seed),
            Traffic::HotPrefixes(rate) => hot_prefixes(rate, 180.0, seed),
            Traffic::Siblings(rate) => siblings(rate, 300.0, seed),
        };
        let mut dice = fastrand::Rng::with_seed(seed ^ 0xE4);
        let mut engines = vec![profile(); 8];
        let mut changes = Vec::new();
        let end = requests.last().map_or(Duration::ZERO, |last| last.at);
        let (third, two_thirds) = (end / 3, end / 3 * 2);
        match self.twist {
            Twist::MisSpecified => {
                for engine in &mut engines {
                    let mut stray = || 0.5 + dice.f64();
                    engine.prefill_ms *= stray();
                    engine.step_ms *= stray();
                    engine.sequence_ms *= stray();
                    engine.context_ms_per_1k *= stray();
                    engine.prompt_ms *= stray();
                }
            }
            Twist::HalfSlow => changes.extend((0..4).map(|engine| (Duration::ZERO, engine, Change::Slow(2.0)))),
            Twist::OneSlowed => {
                changes.extend([(end / 10, 2, Change::Slow(4.0)), (end / 10 * 9, 2, Change::Slow(1.0))]);
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
            Twist::Scrape(interval) => interval,
            _ => Some(1_000),
        };
        let setting = Setting { engines, changes, scrape: scrape.map(Duration::from_millis), seed };
        Some(Play { setting, requests, gateways: if self.twist == Twist::TwoGateways { 2 } else { 1 } })
    }
}
