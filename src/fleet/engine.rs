//! An engine: one server process that runs models. Load belongs to it, whichever pool or model put it there.

use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::{Breaker, Ledger, company::Company, drafts::Drafts};
use crate::{
    measure::{Rate, RateSpan, Smallest},
    types::{Drafting, EngineKind, EngineSignals, GpuSignals, Moment, Name},
};

/// An engine and its live state.
#[derive(Debug)]
pub struct Engine {
    /// Its name in logs, metrics and headers.
    pub name: Name,
    /// Its base address: what it is known by across policies.
    pub url: String,
    /// What we have under way there.
    pub load: Ledger,
    /// Whether it failed lately.
    pub breaker: Breaker,
    /// What it last said of itself.
    reading: ArcSwapOption<Reading>,
    /// What it counts of first tokens.
    first_tokens: FirstTokens,
    /// What it counts of drafts.
    drafts: Drafts,
    /// What was last said of its GPUs, and when.
    gpus: ArcSwapOption<(GpuSignals, Moment)>,
    /// Seconds that a connection to it takes to come about: one way there and back.
    pub round_trip: Smallest,
    /// What every decision needs of it.
    told: Told,
    /// Tokens that the contexts of its models hold, where it said so.
    contexts: ArcSwap<Contexts>,
    /// Whether it was heard when last asked: 0 unknown, 1 no, 2 yes.
    heard: AtomicU8,
    /// How often it is known to have started anew.
    restarts: AtomicU32,
}

/// Tokens of prompt and answer together that an engine's models take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Whatever the model, for engines that are started with one size for all.
    pub any: Option<u64>,
    /// By the model's name.
    pub models: Vec<(String, u64)>,
}

/// What an engine said of itself at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The gauges it has.
    pub signals: EngineSignals,
    /// When the answer came.
    pub at: Moment,
    /// What we had in flight there then.
    pub in_flight: u32,
    /// Share of prompt tokens found in its prefix cache between the last two readings that saw any.
    pub prefix_hit_ratio: Option<f64>,
}

/// First tokens as an engine counts them itself, over the last minute: over the same time as ours, or the two could not be compared.
#[derive(Debug)]
struct FirstTokens {
    count: Rate,
    /// Microseconds to each of them, summed.
    micros: Rate,
}

/// The figures of the last reading that decisions look at, each by itself: that one may be a reading ahead of another for a moment
/// harms less than 64 candidates' readings kept alive and let go again.
#[derive(Debug)]
struct Told {
    /// Requests there that are not ours.
    company: Company,
    /// Tokens of its KV cache.
    kv_tokens: AtomicU64,
    /// 0 while it is not known.
    slots: AtomicU32,
    /// Whether it tells how many requests wait there.
    has_queue: AtomicBool,
}

/// What was said of GPUs longer ago than this is not what is.
const OLD_GPUS: Duration = Duration::from_secs(20);
/// The same of its drafts.
const OLD_DRAFTS: Duration = Duration::from_mins(1);
/// How long round trips count.
const ROUND_TRIPS: Duration = Duration::from_secs(75);

/// More requests than this are no count.
const MOST_OTHERS: f64 = 1e6;

/// A size of a KV cache that was not told.
const UNKNOWN: u64 = u64::MAX;

impl Engine {
    /// An engine without load or readings.
    pub fn new(name: Name, url: String) -> Self {
        Self {
            name,
            url,
            load: Ledger::default(),
            restarts: AtomicU32::new(0),
            breaker: Breaker::default(),
            reading: ArcSwapOption::empty(),
            first_tokens: FirstTokens { count: Rate::new(), micros: Rate::new() },
            drafts: Drafts::default(),
            gpus: ArcSwapOption::empty(),
            round_trip: Smallest::new(ROUND_TRIPS),
            contexts: ArcSwap::default(),
            told: Told {
                company: Company::new(),
                kv_tokens: AtomicU64::new(UNKNOWN),
                slots: AtomicU32::new(0),
                has_queue: AtomicBool::default(),
            },
            heard: AtomicU8::new(0),
        }
    }

    /// Notes whether anybody answered there when asked.
    pub fn heard(&self, answered: bool) {
        self.heard.store(1 + u8::from(answered), Relaxed);
    }

    /// Whether anybody answers there; `None` while nothing is known.
    pub fn is_up(&self, now: Moment) -> Option<bool> {
        match self.heard.load(Relaxed) {
            _ if self.breaker.is_open(now) => Some(false),
            0 => None,
            heard => Some(heard == 2),
        }
    }

    /// True if anybody answered there when it was last asked, whatever its breaker says; `None` while nothing is known.
    pub fn was_heard(&self) -> Option<bool> {
        match self.heard.load(Relaxed) {
            0 => None,
            heard => Some(heard == 2),
        }
    }

    /// How often it is known to have started anew, its caches empty.
    pub fn restarts(&self) -> u32 {
        self.restarts.load(Relaxed)
    }

    /// Notes that it could not be reached: its process is gone, and what it had cached and what others had there with it.
    pub fn gone(&self) {
        self.restarts.fetch_add(1, Relaxed);
        self.load.gone();
        self.told.company.gone();
    }

    /// Keeps what the engine said of itself at `at`.
    pub fn read(&self, signals: EngineSignals, at: Moment) {
        let before = self.reading.load();
        if before.as_deref().is_some_and(|before| signals.restarted_since(&before.signals)) {
            self.gone();
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
            self.drafts.record(drafted, at);
        }
        let in_flight = self.load.in_flight();
        let others = match (signals.running, signals.waiting.unwrap_or(0.0)) {
            (Some(running), waiting) => (running + waiting - f64::from(in_flight)).max(0.0),
            // A gauge that is missing is unknown: nothing is made of the other one.
            (None, _) => 0.0,
        };
        let others = others.min(MOST_OTHERS);
        let theirs = self.load.read(signals.begun_tokens(), others, at);
        self.told.company.read(others, in_flight, theirs > 0.0, at);
        if let (EngineKind::LlamaCpp, Some(running), Some(waiting)) = (signals.kind, signals.running, signals.waiting)
            && running >= 1.0
            && waiting >= 1.0
        {
            // None is free while any request waits for one. What it said itself of its slots is exact.
            let _ = self.told.slots.compare_exchange(0, running as u32, Relaxed, Relaxed);
        }
        self.told.has_queue.store(signals.waiting.is_some(), Relaxed);
        self.told.kv_tokens.store(signals.kv_capacity_tokens.unwrap_or(UNKNOWN), Relaxed);
        self.reading.store(Some(Reading { signals, at, in_flight, prefix_hit_ratio }.into()));
    }

    /// The time until it is to be asked again, if that is `usual` for engines that nobody else uses.
    pub fn pause(&self, usual: Duration, now: Moment) -> Duration {
        self.told.company.pause(usual, now)
    }

    /// Its own mean time to first token over the last minute, in seconds; `None` where it counts none, or counted none.
    pub fn mean_ttft(&self, now: Moment) -> Option<f64> {
        let FirstTokens { count, micros } = &self.first_tokens;
        let count = count.per_second(RateSpan::Minute, now);
        (count > 0.0).then(|| micros.per_second(RateSpan::Minute, now) / count / 1e6)
    }

    /// How good its drafts were over the last minute, or as it averages them itself; `None` where it drafts nothing.
    pub fn drafting(&self, now: Moment) -> Option<Drafting> {
        let reported = || {
            let reading = self.reading.load();
            reading.as_deref().filter(|reading| now.since(reading.at) <= OLD_DRAFTS)?.signals.reported_drafting
        };
        self.drafts.recent(now).or_else(reported)
    }

    /// Keeps what an exporter said of its GPUs at `at`.
    pub fn read_gpus(&self, gpus: GpuSignals, at: Moment) {
        self.gpus.store(Some((gpus, at).into()));
    }

    /// What was said of its GPUs, and when, unless that is too old.
    pub fn gpus(&self, now: Moment) -> Option<(GpuSignals, Moment)> {
        self.gpus.load().as_deref().copied().filter(|(_, at)| now.since(*at) <= OLD_GPUS)
    }

    /// What it last said, however old.
    pub fn reading(&self) -> Option<std::sync::Arc<Reading>> {
        self.reading.load_full()
    }

    /// Tokens that its KV cache holds, where it says so.
    pub fn kv_tokens(&self) -> Option<u64> {
        Some(self.told.kv_tokens.load(Relaxed)).filter(|tokens| *tokens != UNKNOWN)
    }

    /// Notes the contexts that it says its models have.
    pub fn has_contexts(&self, contexts: Contexts) {
        self.contexts.store(contexts.into());
    }

    /// Tokens of prompt and answer together that `model` takes there, where it said so.
    pub fn context(&self, model: Option<&str>) -> Option<u64> {
        let contexts = self.contexts.load();
        let named = contexts.models.iter().find(|(name, _)| Some(&**name) == model);
        // Servers of one model answer to any name for it.
        let only = || match &contexts.models[..] {
            [(_, tokens)] => Some(*tokens),
            _ => None,
        };
        contexts.any.or(named.map(|(_, tokens)| *tokens)).or_else(only)
    }

    /// Notes with how many slots it was started.
    pub fn has_slots(&self, slots: u32) {
        self.told.slots.store(slots, Relaxed);
    }

    /// How many requests it computes at once, where it has a fixed number of slots and told it or was seen with all of them taken.
    pub fn slots(&self) -> Option<u32> {
        Some(self.told.slots.load(Relaxed)).filter(|slots| *slots > 0)
    }

    /// Whether it tells of a queue: it is an engine, then, and not somebody's service with who knows how many behind one address.
    pub(crate) fn has_queue(&self) -> bool {
        self.told.has_queue.load(Relaxed)
    }

    /// Requests that others seem to have there: at first what it said last, beyond our own; after `fade` what that was on the mean of
    /// late, for whoever uses an engine mostly goes on to. (The prediction of a first-order autoregression, its decay a straight line.)
    pub fn foreign(&self, now: Moment, fade: Duration) -> u32 {
        self.told.company.expected(now, fade)
    }

    /// The same where they must not be supposed without need: what it said last, fading to nothing over `fade`.
    pub(crate) fn foreign_seen(&self, now: Moment, fade: Duration) -> u32 {
        self.told.company.seen(now, fade)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::company::OFTENEST, *};
    use crate::types::EngineKind;

    #[test]
    fn foreign_load_fades() {
        let engine = Engine::new("e".into(), "http://e".into());
        let fade = Duration::from_secs(3);
        assert_eq!(engine.foreign(Moment::default(), fade), 0);
        let signals =
            EngineSignals { running: Some(8.0), waiting: Some(2.0), ..EngineSignals::unknown(EngineKind::Vllm) };
        engine.read(signals, Moment::default());
        let after = |seconds| Moment::default().plus(Duration::from_secs_f64(seconds));
        assert_eq!(engine.foreign(after(0.0), fade), 10);
        assert_eq!(engine.foreign(after(1.5), fade), 5);
        assert_eq!(engine.foreign(after(9.0), fade), 0);
    }

    #[test]
    fn who_mostly_uses_an_engine_is_taken_to_go_on() {
        let engine = Engine::new("e".into(), "http://e".into());
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        let read = |running, seconds| {
            engine.read(
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
    fn foreign_load_can_be_added_to_whatever_it_says() {
        let engine = Engine::new("e".into(), "http://e".into());
        for running in [f64::INFINITY, 1e300, f64::NAN, -1.0] {
            engine.read(
                EngineSignals { running: Some(running), ..EngineSignals::unknown(EngineKind::Vllm) },
                Moment::default(),
            );
            assert!(engine.foreign(Moment::default(), Duration::from_secs(3)) <= 1_000_000, "{running}");
        }
    }

    #[test]
    fn slots_are_known_once_requests_wait_for_them() {
        let engine = Engine::new("e".into(), "http://e".into());
        let read = |kind, running, waiting| {
            let signals =
                EngineSignals { running: Some(running), waiting: Some(waiting), ..EngineSignals::unknown(kind) };
            engine.read(signals, Moment::default());
            engine.slots()
        };
        assert_eq!(read(EngineKind::Vllm, 7.0, 3.0), None, "it waits for memory, not for slots");
        assert_eq!(read(EngineKind::LlamaCpp, 3.0, 0.0), None);
        assert_eq!(read(EngineKind::LlamaCpp, 4.0, 1.0), Some(4));
        assert_eq!(read(EngineKind::LlamaCpp, 1.0, 0.0), Some(4));
    }

    #[test]
    fn an_engine_is_asked_more_often_while_others_use_it() {
        let engine = Engine::new("e".into(), "http://e".into());
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        let (usual, often) = (Duration::from_secs(1), Duration::from_millis(100));
        let mut begun = 0.0;
        let mut read = |running, tokens, seconds| {
            begun += tokens;
            let signals = EngineSignals {
                running: Some(running),
                prefix_queries: Some(begun),
                prefix_hits: Some(0.0),
                ..EngineSignals::unknown(EngineKind::Vllm)
            };
            engine.read(signals, at(seconds));
            engine.pause(usual, at(seconds))
        };
        assert_eq!(read(0.0, 0.0, 1), usual);
        assert_eq!(read(3.0, 900.0, 2), usual, "one reading may be a moment late");
        assert_eq!(read(3.0, 0.0, 3), often);
        assert_eq!(read(0.0, 0.0, 4), often);
        assert_eq!(engine.pause(Duration::from_millis(200), at(32)), OFTENEST);
        assert_eq!(engine.pause(Duration::from_millis(20), at(32)), Duration::from_millis(20));
        assert_eq!(engine.pause(usual, at(33)), usual, "they have gone");
        for second in 40..90 {
            assert_eq!(read(7.0, 0.0, second), usual, "a gauge that stays where it is, and nothing comes");
        }
    }

    #[test]
    fn what_is_said_of_gpus_grows_old() {
        let engine = Engine::new("e".into(), "http://e".into());
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        assert_eq!(engine.gpus(at(0)), None);
        let gpus = GpuSignals { count: 2, utilisation: Some(0.5), memory: None };
        engine.read_gpus(gpus, at(5));
        assert_eq!(engine.gpus(at(25)), Some((gpus, at(5))));
        assert_eq!(engine.gpus(at(26)), None);
    }

    #[test]
    fn a_context_is_the_model_s_or_the_only_one() {
        let engine = Engine::new("e".into(), "http://e".into());
        assert_eq!(engine.context(None), None);
        engine.has_contexts(Contexts { any: None, models: vec![("a".to_owned(), 1000)] });
        assert_eq!((engine.context(None), engine.context(Some("b"))), (Some(1000), Some(1000)));
        engine.has_contexts(Contexts { any: None, models: vec![("a".to_owned(), 1000), ("b".to_owned(), 2000)] });
        assert_eq!((engine.context(None), engine.context(Some("b"))), (None, Some(2000)));
    }

    #[test]
    fn a_missing_gauge_is_unknown_not_zero() {
        let engine = Engine::new("e".into(), "http://e".into());
        engine
            .read(EngineSignals { waiting: Some(5.0), ..EngineSignals::unknown(EngineKind::Vllm) }, Moment::default());
        assert_eq!(engine.foreign(Moment::default(), Duration::from_secs(3)), 0);
    }
}
