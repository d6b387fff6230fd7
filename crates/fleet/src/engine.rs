//! An engine: one server process that runs models. Load belongs to the engine, whichever pool or model put it there.

use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::{
    Breaker, EngineLoad, EngineModels, Ledger, ServedApis, View, external_requests::ExternalRequests,
    peer_load::PeerLoads, speculative_decoding::SpeculativeDecoding,
};
use signalbox_measure::{Rate, RateSpan, Smallest};
use signalbox_types::{Drafting, EngineId, EngineKind, EngineSignals, GpuSignals, Moment, Name};

/// An engine and its live state.
#[derive(Debug)]
pub struct Engine {
    /// Its name in logs, metrics and headers.
    pub name: Name,
    /// Identifies the engine across policies.
    pub id: EngineId,
    /// Our requests under way there.
    pub load: Ledger,
    /// Requests that other gateways report to have there.
    peers: PeerLoads,
    /// Breaker for connection failures.
    pub breaker: Breaker,
    /// Last reading of the engine's metrics.
    reading: ArcSwapOption<Reading>,
    /// The engine's own counts of first tokens.
    first_tokens: FirstTokens,
    /// Speculative decoding, as the engine counts it.
    speculative_decoding: SpeculativeDecoding,
    /// Last GPU reading and its time.
    gpus: ArcSwapOption<(GpuSignals, Moment)>,
    /// Seconds to establish a connection, which is one round trip.
    pub round_trip: Smallest,
    /// Figures of the last reading that every decision needs.
    figures: DecisionFigures,
    /// Models that it lists, and those in memory.
    pub models: EngineModels,
    /// Paths that it serves, as far as known.
    pub apis: ServedApis,
    /// Context lengths of its models, where the engine reports them.
    contexts: ArcSwap<Contexts>,
    /// Result of the last poll: 0 unknown, 1 no answer, 2 answered.
    reachable: AtomicU8,
    /// Restarts detected so far.
    restarts: AtomicU32,
    /// Polls that were answered after one that was not.
    returns: AtomicU32,
}

/// Context lengths of an engine's models: tokens of prompt and answer together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Limit for all models, for engines that are started with one size.
    pub any: Option<u64>,
    /// Limits by model name.
    pub models: Vec<(String, u64)>,
}

/// Metrics that an engine reported at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The gauges it exports.
    pub signals: EngineSignals,
    /// Time of the response.
    pub at: Moment,
    /// Our requests in flight there at that time.
    pub in_flight: u32,
    /// Share of prompt tokens found in its prefix cache, between the last two readings that had prompt tokens.
    pub prefix_hit_ratio: Option<f64>,
}

/// First tokens as the engine counts them itself, over the last minute. Our own figure has the same span, so that the
/// two can be compared.
#[derive(Debug)]
struct FirstTokens {
    count: Rate,
    /// Microseconds to each of them, summed.
    micros: Rate,
}

/// Figures of the last reading that decisions use. Each is an atomic of its own: a figure that is one reading ahead of
/// another does less harm than keeping the readings of 64 candidates alive.
#[derive(Debug)]
struct DecisionFigures {
    /// Requests of other clients.
    external_requests: ExternalRequests,
    /// Size of its KV cache in tokens.
    kv_tokens: AtomicU64,
    /// Slots; 0 while unknown.
    slots: AtomicU32,
    /// True if the engine reports the length of its queue.
    has_queue: AtomicBool,
    /// True if the engine reports that it sleeps.
    asleep: AtomicBool,
}

/// Age from which on a GPU reading is ignored.
const OLD_GPUS: Duration = Duration::from_secs(20);
/// Age from which on reported drafting is ignored.
const OLD_DRAFTS: Duration = Duration::from_mins(1);
/// Time for which round trips count.
const ROUND_TRIPS: Duration = Duration::from_secs(75);

/// Upper bound of a plausible request count.
const MOST_OTHERS: f64 = 1e6;

/// Size of a KV cache that the engine does not report.
const UNKNOWN: u64 = u64::MAX;

impl Engine {
    /// An engine without load or readings.
    pub fn new(name: Name, id: EngineId) -> Self {
        Self {
            name,
            id,
            load: Ledger::default(),
            peers: PeerLoads::default(),
            restarts: AtomicU32::new(0),
            returns: AtomicU32::new(0),
            breaker: Breaker::default(),
            reading: ArcSwapOption::empty(),
            first_tokens: FirstTokens { count: Rate::new(), micros: Rate::new() },
            speculative_decoding: SpeculativeDecoding::default(),
            gpus: ArcSwapOption::empty(),
            round_trip: Smallest::new(ROUND_TRIPS),
            contexts: ArcSwap::default(),
            models: EngineModels::default(),
            apis: ServedApis::default(),
            figures: DecisionFigures {
                external_requests: ExternalRequests::new(),
                kv_tokens: AtomicU64::new(UNKNOWN),
                slots: AtomicU32::new(0),
                has_queue: AtomicBool::default(),
                asleep: AtomicBool::default(),
            },
            reachable: AtomicU8::new(0),
        }
    }

    /// Records whether the last poll was answered.
    pub fn set_reachable(&self, answered: bool) {
        let before = self.reachable.swap(1 + u8::from(answered), Relaxed);
        if answered && before == 1 {
            self.returns.fetch_add(1, Relaxed);
        }
    }

    /// True if the engine answers and its breaker is closed; `None` while nothing is known.
    pub fn is_up(&self, now: Moment) -> Option<bool> {
        match self.reachable.load(Relaxed) {
            _ if self.breaker.is_open(now) => Some(false),
            0 => None,
            reachable => Some(reachable == 2),
        }
    }

    /// True if the last poll was answered, whatever the breaker's state; `None` before the first poll.
    pub fn is_reachable(&self) -> Option<bool> {
        match self.reachable.load(Relaxed) {
            0 => None,
            reachable => Some(reachable == 2),
        }
    }

    /// True if its last reading says that it has put its weights away.
    pub fn is_asleep(&self) -> bool {
        self.figures.asleep.load(Relaxed)
    }

    /// Restarts detected so far. Each emptied the engine's caches.
    pub fn restarts(&self) -> u32 {
        self.restarts.load(Relaxed)
    }

    /// Number of times that it may have become another version: after each restart and each outage.
    pub fn lives(&self) -> u32 {
        self.restarts().wrapping_add(self.returns.load(Relaxed))
    }

    /// Records that the engine could not be reached: its process has ended, and with it its caches and the requests of
    /// other clients.
    pub fn process_ended(&self) {
        self.restarts.fetch_add(1, Relaxed);
        self.load.clear_external();
        self.figures.external_requests.clear();
    }

    /// Our requests under way there, with those that other gateways report.
    pub fn view(&self, now: Moment) -> View {
        self.peers.add_to(self.load.view(now), now)
    }

    /// Our requests under way there, for other gateways.
    pub(crate) fn own_load(&self, now: Moment) -> EngineLoad {
        EngineLoad::new(&self.load.view(now), self.load.sent_tokens())
    }

    /// Records the requests of another gateway.
    pub(crate) fn record_peer(&self, gateway: u64, load: EngineLoad, now: Moment) {
        self.peers.record(gateway, load, now);
    }

    /// Stores a reading that the engine reported at `at`.
    pub fn record_reading(&self, signals: EngineSignals, at: Moment) {
        let before = self.reading.load();
        if before.as_deref().is_some_and(|before| signals.restarted_since(&before.signals)) {
            self.process_ended();
        }
        let prefix_hit_ratio =
            before.as_deref().and_then(|before| signals.prefix_hit_ratio(&before.signals).or(before.prefix_hit_ratio));
        if let Some(before) = before.as_deref()
            && let Some((count, seconds)) = signals.first_tokens(&before.signals)
        {
            self.first_tokens.count.record(count as u64, at);
            self.first_tokens.micros.record((seconds * 1e6) as u64, at);
        }
        if let Some(drafted) = before.as_deref().and_then(|before| signals.drafted(&before.signals)) {
            self.speculative_decoding.record(drafted, at);
        }
        let peers = self.peers.sum(at);
        let in_flight = self.load.in_flight();
        let others = match (signals.running, signals.waiting.unwrap_or(0.0)) {
            (Some(running), waiting) => {
                (running + waiting - f64::from(in_flight) - f64::from(peers.in_flight)).max(0.0)
            }
            // A missing gauge is unknown, and the other one alone yields no count.
            (None, _) => 0.0,
        };
        let others = others.min(MOST_OTHERS);
        let external_tokens =
            self.load.record_counters(signals.begun_tokens(), others, (peers.sent_tokens, peers.queued_tokens), at);
        self.figures.external_requests.record(others, in_flight, external_tokens > 0.0, at);
        if let (EngineKind::LlamaCpp, Some(running), Some(waiting)) = (signals.kind, signals.running, signals.waiting)
            && running >= 1.0
            && waiting >= 1.0
        {
            // No slot is free while a request waits for one. A slot count that the engine reports itself is exact and
            // stays.
            let _ = self.figures.slots.compare_exchange(0, running as u32, Relaxed, Relaxed);
        }
        let is_single = signals.kind != EngineKind::Dynamo;
        self.figures.has_queue.store(is_single && signals.waiting.is_some(), Relaxed);
        self.figures.asleep.store(signals.asleep == Some(true), Relaxed);
        self.figures.kv_tokens.store(signals.kv_capacity_tokens.unwrap_or(UNKNOWN), Relaxed);
        self.reading.store(Some(Reading { signals, at, in_flight, prefix_hit_ratio }.into()));
    }

    /// Time until the next poll; `usual` is the interval for engines without other clients.
    pub fn poll_interval(&self, usual: Duration, now: Moment) -> Duration {
        self.figures.external_requests.poll_interval(usual, now)
    }

    /// The engine's own mean time to first token over the last minute, in seconds; `None` where it reports none.
    pub fn mean_ttft(&self, now: Moment) -> Option<f64> {
        let FirstTokens { count, micros } = &self.first_tokens;
        let count = count.per_second(RateSpan::Minute, now);
        (count > 0.0).then(|| micros.per_second(RateSpan::Minute, now) / count / 1e6)
    }

    /// Acceptance of drafts over the last minute, or the engine's own mean; `None` where it drafts nothing.
    pub fn drafting(&self, now: Moment) -> Option<Drafting> {
        let reported = || {
            let reading = self.reading.load();
            reading.as_deref().filter(|reading| now.since(reading.at) <= OLD_DRAFTS)?.signals.reported_drafting
        };
        self.speculative_decoding.recent(now).or_else(reported)
    }

    /// Stores a GPU reading taken at `at`.
    pub fn record_gpus(&self, gpus: GpuSignals, at: Moment) {
        self.gpus.store(Some((gpus, at).into()));
    }

    /// The last GPU reading and its time, unless it is too old.
    pub fn gpus(&self, now: Moment) -> Option<(GpuSignals, Moment)> {
        self.gpus.load().as_deref().copied().filter(|(_, at)| now.since(*at) <= OLD_GPUS)
    }

    /// The last reading, however old.
    pub fn reading(&self) -> Option<std::sync::Arc<Reading>> {
        self.reading.load_full()
    }

    /// Size of its KV cache in tokens, where the engine reports it.
    pub fn kv_tokens(&self) -> Option<u64> {
        Some(self.figures.kv_tokens.load(Relaxed)).filter(|tokens| *tokens != UNKNOWN)
    }

    /// Stores the context lengths that the engine reports for its models.
    pub fn set_contexts(&self, contexts: Contexts) {
        self.contexts.store(contexts.into());
    }

    /// Context length of `model` there, where the engine reports it.
    pub fn context(&self, model: Option<&str>) -> Option<u64> {
        let contexts = self.contexts.load();
        let named = contexts.models.iter().find(|(name, _)| Some(&**name) == model);
        // Servers of a single model accept any name for it.
        let only = || match &contexts.models[..] {
            [(_, tokens)] => Some(*tokens),
            _ => None,
        };
        contexts.any.or(named.map(|(_, tokens)| *tokens)).or_else(only)
    }

    /// Stores the number of slots that the engine was started with.
    pub fn set_slots(&self, slots: u32) {
        self.figures.slots.store(slots, Relaxed);
    }

    /// Number of requests computed at once, for engines with a fixed number of slots that report it or were seen with
    /// all slots taken.
    pub fn slots(&self) -> Option<u32> {
        Some(self.figures.slots.load(Relaxed)).filter(|slots| *slots > 0)
    }

    /// True if the engine reports a queue. It is then a single engine and not a service with an unknown number of
    /// engines behind one address.
    pub(crate) fn has_queue(&self) -> bool {
        self.figures.has_queue.load(Relaxed)
    }

    /// Expected requests of other clients, without those that other gateways report. Starts at the count of the last
    /// reading beyond our own and moves over `fade`
    /// to the recent mean, since most clients of an engine stay. (The prediction of a first-order autoregression, with
    /// a linear decay.)
    pub fn foreign(&self, now: Moment, fade: Duration) -> u32 {
        self.figures.external_requests.expected(now, fade)
    }

    /// Requests of other clients that were counted recently: the count of the last reading, fading to zero over `fade`,
    /// and those that other gateways report.
    /// For decisions that must not assume load without evidence.
    pub(crate) fn foreign_seen(&self, now: Moment, fade: Duration) -> u32 {
        self.figures.external_requests.seen(now, fade).saturating_add(self.peers.sum(now).in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::external_requests::SHORTEST_INTERVAL, *};
    use signalbox_types::EngineKind;

    #[test]
    fn foreign_load_fades() {
        let engine = Engine::new("e".into(), "http://e".into());
        let fade = Duration::from_secs(3);
        assert_eq!(engine.foreign(Moment::default(), fade), 0);
        let signals =
            EngineSignals { running: Some(8.0), waiting: Some(2.0), ..EngineSignals::unknown(EngineKind::Vllm) };
        engine.record_reading(signals, Moment::default());
        let after = |seconds| Moment::default().plus(Duration::from_secs_f64(seconds));
        assert_eq!(engine.foreign(after(0.0), fade), 10);
        assert_eq!(engine.foreign(after(1.5), fade), 5);
        assert_eq!(engine.foreign(after(9.0), fade), 0);
    }

    #[test]
    fn external_load_moves_to_its_mean() {
        let engine = Engine::new("e".into(), "http://e".into());
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        let read = |running, seconds| {
            engine.record_reading(
                EngineSignals { running: Some(running), ..EngineSignals::unknown(EngineKind::Vllm) },
                at(seconds),
            );
        };
        let foreign = |seconds| engine.foreign(at(seconds), Duration::from_secs(3));
        (0..60).for_each(|second| read(10.0, second));
        assert_eq!((foreign(59), foreign(60), foreign(62)), (10, 10, 9));
        read(0.0, 60);
        assert_eq!(engine.foreign_seen(at(63), Duration::from_secs(3)), 0);
        assert_eq!((foreign(60), foreign(63)), (0, 8), "one reading without them is no sign that they have gone");
        assert_eq!(foreign(200), 0, "nothing is known any more");
        (61..90).for_each(|second| read(0.0, second));
        assert_eq!(foreign(92), 0);
    }

    #[test]
    fn external_load_is_bounded() {
        let engine = Engine::new("e".into(), "http://e".into());
        for running in [f64::INFINITY, 1e300, f64::NAN, -1.0] {
            engine.record_reading(
                EngineSignals { running: Some(running), ..EngineSignals::unknown(EngineKind::Vllm) },
                Moment::default(),
            );
            assert!(engine.foreign(Moment::default(), Duration::from_secs(3)) <= 1_000_000, "{running}");
        }
    }

    #[test]
    fn requests_that_other_gateways_report_are_not_external() {
        let engine = Engine::new("e".into(), "http://e".into());
        let at = |millis| Moment::default().plus(Duration::from_millis(millis));
        let fade = Duration::from_secs(3);
        let report = EngineLoad { in_flight: 4, queued_tokens: 900, sent_tokens: 900, ..EngineLoad::default() };
        let reading = |running, begun| EngineSignals {
            running: Some(running),
            prefix_queries: Some(begun),
            prefix_hits: Some(0.0),
            ..EngineSignals::unknown(EngineKind::Vllm)
        };
        engine.record_reading(reading(0.0, 0.0), at(0));
        engine.record_peer(7, report, at(10));
        engine.record_reading(reading(6.0, 900.0), at(20));
        assert_eq!(engine.foreign(at(20), fade), 2, "four of the six are known");
        assert_eq!((engine.view(at(20)).in_flight, engine.view(at(20)).queued_tokens), (4, 900));
        assert_eq!(engine.view(at(20)).foreign_tokens, 0, "what it began is what the other gateway sent");
        assert_eq!(engine.foreign_seen(at(20), fade), 6, "all count against a limit");
        assert_eq!(engine.view(at(600)).in_flight, 0);
    }

    #[test]
    fn slots_are_known_once_requests_wait_for_them() {
        let engine = Engine::new("e".into(), "http://e".into());
        let read = |kind, running, waiting| {
            let signals =
                EngineSignals { running: Some(running), waiting: Some(waiting), ..EngineSignals::unknown(kind) };
            engine.record_reading(signals, Moment::default());
            engine.slots()
        };
        assert_eq!(read(EngineKind::Vllm, 7.0, 3.0), None, "it waits for memory, not for slots");
        assert_eq!(read(EngineKind::LlamaCpp, 3.0, 0.0), None);
        assert_eq!(read(EngineKind::LlamaCpp, 4.0, 1.0), Some(4));
        assert_eq!(read(EngineKind::LlamaCpp, 1.0, 0.0), Some(4));
    }

    #[test]
    fn shared_engines_are_polled_more_often() {
        let engine = Engine::new("e".into(), "http://e".into());
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        let (usual, often) = (Duration::from_secs(1), Duration::from_millis(100));
        let mut started = 0.0;
        let mut read = |running, tokens, seconds| {
            started += tokens;
            let signals = EngineSignals {
                running: Some(running),
                prefix_queries: Some(started),
                prefix_hits: Some(0.0),
                ..EngineSignals::unknown(EngineKind::Vllm)
            };
            engine.record_reading(signals, at(seconds));
            engine.poll_interval(usual, at(seconds))
        };
        assert_eq!(read(0.0, 0.0, 1), usual);
        assert_eq!(read(3.0, 900.0, 2), usual, "one reading may be a moment late");
        assert_eq!(read(3.0, 0.0, 3), often);
        assert_eq!(read(0.0, 0.0, 4), often);
        assert_eq!(engine.poll_interval(Duration::from_millis(200), at(32)), SHORTEST_INTERVAL);
        assert_eq!(engine.poll_interval(Duration::from_millis(20), at(32)), Duration::from_millis(20));
        assert_eq!(engine.poll_interval(usual, at(33)), usual, "they have gone");
        for second in 40..90 {
            assert_eq!(read(7.0, 0.0, second), usual, "a gauge that stays where it is, and nothing comes");
        }
    }

    #[test]
    fn old_gpu_readings_are_ignored() {
        let engine = Engine::new("e".into(), "http://e".into());
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        assert_eq!(engine.gpus(at(0)), None);
        let gpus = GpuSignals { count: 2, utilisation: Some(0.5), memory: None };
        engine.record_gpus(gpus, at(5));
        assert_eq!(engine.gpus(at(25)), Some((gpus, at(5))));
        assert_eq!(engine.gpus(at(26)), None);
    }

    #[test]
    fn a_context_is_the_model_s_or_the_only_one() {
        let engine = Engine::new("e".into(), "http://e".into());
        assert_eq!(engine.context(None), None);
        engine.set_contexts(Contexts { any: None, models: vec![("a".to_owned(), 1000)] });
        assert_eq!((engine.context(None), engine.context(Some("b"))), (Some(1000), Some(1000)));
        engine.set_contexts(Contexts { any: None, models: vec![("a".to_owned(), 1000), ("b".to_owned(), 2000)] });
        assert_eq!((engine.context(None), engine.context(Some("b"))), (None, Some(2000)));
    }

    #[test]
    fn an_engine_sleeps_until_a_reading_says_otherwise() {
        let engine = Engine::new("e".into(), "http://e".into());
        let asleep = |asleep| {
            let signals = EngineSignals { asleep, ..EngineSignals::unknown(EngineKind::Vllm) };
            engine.record_reading(signals, Moment::default());
            engine.is_asleep()
        };
        assert_eq!([Some(true), Some(false), Some(true), None].map(asleep), [true, false, true, false]);
    }

    #[test]
    fn a_missing_gauge_is_unknown_not_zero() {
        let engine = Engine::new("e".into(), "http://e".into());
        engine.record_reading(
            EngineSignals { waiting: Some(5.0), ..EngineSignals::unknown(EngineKind::Vllm) },
            Moment::default(),
        );
        assert_eq!(engine.foreign(Moment::default(), Duration::from_secs(3)), 0);
    }
}
