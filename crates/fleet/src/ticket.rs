//! Load guard of a request: while it lives, its request counts as load on its engine. It travels in the response body.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    Backend, PoolLearned,
    ledger::{Entry, Work},
};
use signalbox_prompt::Blocks;
use signalbox_schedule::{
    predict::{Batch, Features, OutputForecast, OutputLengths, Prediction},
    prefix::Reuse,
};
use signalbox_types::{Moment, Usage};

/// Most answer tokens between two updates of the expected length.
const LONGEST_STEP: u64 = 64;

/// Forecast of a request at the choice of its backend. Learners compare it with the outcome.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Work it gives to the engine.
    pub work: Work,
    /// Expected answer length.
    pub output: OutputForecast,
    /// Inputs of the predicted time to first token.
    pub features: Features,
    /// Batch that its answer is expected to be decoded in.
    pub batch: Batch,
    /// Predicted time per token.
    pub tpot: Prediction,
    /// Session it belongs to, as [`PlacementQuery::session`](super::PlacementQuery::session).
    pub session: Option<u64>,
}

/// A request's reservation on an engine. Taken before the first await of an attempt and held until its answer ends,
/// fails, or its client leaves. Dropping it releases the load and learns nothing; `Drop` knows no time and awaits
/// nothing.
#[derive(Debug)]
pub struct Ticket {
    backend: Arc<Backend>,
    pool: Arc<PoolLearned>,
    outputs: Arc<OutputLengths>,
    forecast: Forecast,
    entry: Entry,
    blocks: Blocks,
    reuse: Reuse,
    taken: Moment,
    /// True while the engine loads the model for this request.
    loads: bool,
    decoding: bool,
    /// Answer tokens at the last update of the expected length, and the count at which the next is due.
    streamed: u64,
    next_update: u64,
}

impl Ticket {
    /// Counts a request as in flight on `backend`, with its forecast from the `outputs` of its kind.
    pub fn take(
        pool: Arc<PoolLearned>,
        outputs: Arc<OutputLengths>,
        backend: Arc<Backend>,
        forecast: Forecast,
        blocks: Blocks,
        now: Moment,
    ) -> Self {
        backend.learned.enter(None);
        let entry = backend.engine.load.enter(forecast.work, now);
        Self::entered(entry, pool, outputs, backend, &forecast, blocks, now)
    }

    /// Like [`Ticket::take`], but returns `None` where the engine has as many requests as the policy allows, or as many
    /// for the model as its refusals show. Check and count are atomic, so that concurrent calls never exceed a limit.
    pub fn take_if_room(
        pool: Arc<PoolLearned>,
        outputs: Arc<OutputLengths>,
        backend: Arc<Backend>,
        forecast: Forecast,
        blocks: Blocks,
        now: Moment,
    ) -> Option<Self> {
        if !backend.learned.enter(backend.learned.concurrency.limit(now)) {
            return None;
        }
        let Some(entry) = backend.engine.load.enter_below(backend.max_concurrency, forecast.work, now) else {
            backend.learned.leave();
            return None;
        };
        Some(Self::entered(entry, pool, outputs, backend, &forecast, blocks, now))
    }

    fn entered(
        entry: Entry,
        pool: Arc<PoolLearned>,
        outputs: Arc<OutputLengths>,
        backend: Arc<Backend>,
        forecast: &Forecast,
        blocks: Blocks,
        now: Moment,
    ) -> Self {
        let loads = forecast.features.load > 0.0 && backend.learned.load_time.begin(now);
        let reuse = backend.learned.prefixes.insert(backend.learned.holder, blocks.prompt());
        backend.load.in_flight.fetch_add(1, Relaxed);
        backend.load.queued_tokens.fetch_add(forecast.work.uncached_tokens, Relaxed);
        Self {
            backend,
            pool,
            outputs,
            forecast: *forecast,
            entry,
            blocks,
            reuse,
            taken: now,
            loads,
            decoding: false,
            streamed: 0,
            next_update: 1,
        }
    }

    /// Forecast at dispatch.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// Records the first token: the prompt is no longer queued, the request decodes. Later calls change nothing.
    pub fn first_token(&mut self, now: Moment) {
        if std::mem::replace(&mut self.decoding, true) {
            return;
        }
        let Work { uncached_tokens, prompt_tokens, prediction, .. } = self.forecast.work;
        self.backend.engine.load.first_token(&mut self.entry, now);
        let load = &self.backend.load;
        load.queued_tokens.fetch_sub(uncached_tokens, Relaxed);
        load.decoding.fetch_add(1, Relaxed);
        load.context_tokens.fetch_add(prompt_tokens, Relaxed);
        self.computed(now);
        let seconds = now.seconds_since(self.taken);
        if self.loaded(seconds) || self.forecast.work.whole {
            return;
        }
        let learned = &self.backend.learned;
        self.pool.predictor.observe_ttft(&learned.predictor, &self.forecast.features, &prediction, seconds, now);
    }

    /// Records that the answer has reached `tokens` tokens. Updates the promised tokens at every doubling and every 64
    /// tokens.
    pub fn streamed(&mut self, tokens: u64) {
        if tokens < self.next_update {
            return;
        }
        self.streamed = tokens;
        self.next_update = tokens.saturating_add(tokens.clamp(1, LONGEST_STEP));
        let expected = self.outputs.expected_after(tokens, self.forecast.output.limit);
        self.backend.engine.load.expect(&mut self.entry, expected as u64);
    }

    /// Ends a request that failed or was abandoned. A long wait for a first token that never came counts against the
    /// engine.
    pub fn give_up(self, now: Moment) {
        if !self.decoding {
            self.backend.engine.load.give_up(&self.entry, now);
        }
    }

    /// Ends a completed request. `usage` is the engine's own count, `tpot` the seconds per token after the first, where
    /// it was measured.
    pub fn finish(mut self, usage: Option<&Usage>, tpot: Option<f64>, now: Moment) {
        self.streamed = 0;
        self.backend.learned.concurrency.served(self.backend.learned.under_way(), now);
        if !self.decoding {
            // A whole answer: its prompt was computed at an unknown time.
            self.decoding = true;
            self.backend.engine.load.answered(&self.entry, now);
            self.backend.load.queued_tokens.fetch_sub(self.forecast.work.uncached_tokens, Relaxed);
            self.backend.load.decoding.fetch_add(1, Relaxed);
            self.backend.load.context_tokens.fetch_add(self.forecast.work.prompt_tokens, Relaxed);
            self.computed(now);
            let answer = usage.map_or(0, |usage| usage.completion_tokens) as f64 * self.forecast.tpot.seconds;
            self.loaded(now.seconds_since(self.taken) - answer);
        }
        let Some(usage) = usage else { return };
        if let Some(tpot) = tpot {
            let measured = (tpot, usage.completion_tokens);
            let (batch, predicted) = (&self.forecast.batch, &self.forecast.tpot);
            self.pool.predictor.observe_tpot(&self.backend.learned.predictor, batch, predicted, measured, now);
        }
        self.pool.outputs.observe(&self.outputs, &self.forecast.output, usage.completion_tokens);
        let prompt = self.blocks.prompt();
        if let (Some(cached), true) = (usage.cached_tokens, usage.prompt_tokens > 0) {
            let share = (cached as f64 / usage.prompt_tokens as f64).min(1.0);
            let blocks = prompt.layout.blocks((prompt.bytes as f64 * share).round() as u64);
            self.backend.learned.prefixes.correct(prompt, &self.reuse, blocks as u32);
        }
    }
}

impl Ticket {
    /// Records that the model is loaded, if the request had to wait for that; its first token came after `seconds`.
    /// Returns true if it had to wait: its time says little of the engine's speed.
    fn loaded(&mut self, seconds: f64) -> bool {
        let load = self.forecast.features.load;
        if load <= 0.0 {
            return false;
        }
        let Backend { engine, learned, spec, .. } = &*self.backend;
        if let Some(model) = &spec.model {
            engine.models.add_loaded(model);
        }
        if std::mem::take(&mut self.loads) {
            learned.load_time.end();
            learned.load_time.observe((seconds - (self.forecast.work.prediction.seconds - load)).max(0.0));
        }
        true
    }

    /// Records that the prompt was computed and is cached there now.
    fn computed(&self, now: Moment) {
        let learned = &self.backend.learned;
        learned.computed(&self.blocks, &self.reuse);
        if let Some(session) = self.forecast.session {
            learned.sessions.served(session, learned.holder, self.forecast.work.prompt_tokens, now);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.loads {
            self.backend.learned.load_time.end();
        }
        self.backend.engine.load.leave(&self.entry);
        self.backend.learned.leave();
        let load = &self.backend.load;
        if self.decoding {
            load.decoding.fetch_sub(1, Relaxed);
            load.context_tokens.fetch_sub(self.forecast.work.prompt_tokens, Relaxed);
        } else {
            load.queued_tokens.fetch_sub(self.forecast.work.uncached_tokens, Relaxed);
            self.backend.learned.prefixes.withdraw(self.blocks.prompt(), &self.reuse);
        }
        load.in_flight.fetch_sub(1, Relaxed);
        // The stream broke off or its client left: the complete answer would have been longer.
        if self.streamed > 0 {
            self.pool.outputs.cut(&self.outputs, self.streamed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Load, PlacementQuery, Pool, Registry, Scratch, Snapshot};
    use signalbox_policy::{self as policy, Policy, Target};
    use signalbox_types::{EngineKind, EngineSignals, Layout, Overload, Strategy};

    /// A pool of two backends on separate engines.
    fn pool(registry: &Registry) -> Snapshot {
        let engine = |name: &str| policy::Engine::at(name.into(), format!("http://{name}"));
        let backend = |engine: usize| policy::Backend {
            name: format!("b{engine}").into(),
            engine,
            model: None,
            strip: None,
            adapter: false,
            serves: None,
            deployment: None,
            same_as: None,
            weight: None,
            drop: Vec::new(),
            defaults: Vec::new(),
            audience: policy::Audience::All,
            follows: None,
        };
        let pool = policy::Pool {
            name: "pool".into(),
            speaks: Vec::new(),
            learns_endpoints: true,
            tokenizer: policy::Tokenizer::Learned,
            balance: Strategy::LeastCost,
            price: None,
            context: None,
            objectives: policy::Objectives::default(),
            overload: Overload::default(),
            model: None,
            backends: vec![backend(0), backend(1)],
            drained: Vec::new(),
            sources: Vec::new(),
        };
        Snapshot::new(
            Policy { engines: vec![engine("e0"), engine("e1")], pools: vec![pool], ..Policy::default() },
            registry,
        )
    }

    fn pool_target() -> Target {
        Target::whole(0)
    }

    fn take(pool: &Pool, blocks: &Blocks, whole: bool, now: Moment) -> Ticket {
        let target = pool_target();
        let outputs = pool.learned.outputs.of(&target, &"route".into());
        let ask = PlacementQuery {
            target: &target,
            tried: &[],
            prompt: blocks.prompt(),
            session: None,
            room_only: false,
            outputs: &outputs,
            max_tokens: None,
            whole,
            bounded: false,
            ttft_limit: None,
            tpot_limit: None,
        };
        let placed = pool.place(&ask, now, 0.5, &mut Scratch::default()).unwrap();
        let backend = pool.backends[placed.backend].clone();
        Ticket::take(pool.learned.clone(), outputs, backend, placed.forecast, blocks.clone(), now)
    }

    fn prompt(family: u64, blocks: u64) -> Blocks {
        let hashes = (0..blocks).map(|block| family << 32 | block).collect();
        Blocks::new(hashes, blocks * 64, Layout::Fixed(64))
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn counters(load: &Load) -> (u32, u64, u32, u64) {
        (load.in_flight(), load.queued_tokens(), load.decoding(), load.context_tokens())
    }

    #[test]
    fn a_request_moves_from_queued_to_decoding() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let mut ticket = take(&snapshot.pools[0], &prompt(1, 100), false, at(0));
        let backend = ticket.backend.clone();
        assert_eq!(counters(&backend.load), (1, 1_600, 0, 0));
        ticket.first_token(at(100));
        ticket.first_token(at(900));
        let view = backend.engine.load.view(at(1_000));
        assert_eq!((view.in_flight, view.queued_tokens, view.decoding, view.context_tokens), (1, 0, 1, 1_600));
        drop(ticket);
        assert_eq!(counters(&backend.load), (0, 0, 0, 0));
        assert_eq!(backend.engine.load.view(at(1_000)).promised_tokens, 0);
    }

    #[test]
    fn promised_tokens_follow_the_stream() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let mut ticket = take(&snapshot.pools[0], &prompt(1, 100), false, at(0));
        let (backend, expected) = (ticket.backend.clone(), ticket.forecast.work.output_tokens);
        let promised = || backend.engine.load.view(at(200)).promised_tokens - 1_600;
        assert_eq!(promised(), expected);
        ticket.first_token(at(100));
        let mut seen = vec![expected];
        for tokens in 1..2_000 {
            ticket.streamed(tokens);
            let now = promised();
            assert!(
                now >= tokens - LONGEST_STEP.min(tokens) && now >= *seen.last().unwrap(),
                "{tokens}: {seen:?} {now}"
            );
            if now != *seen.last().unwrap() {
                seen.push(now);
            }
        }
        assert!(seen.len() > 10 && seen.len() < 7 + 2_000 / 64 && *seen.last().unwrap() > 2_000, "{seen:?}");
        drop(ticket);
        assert_eq!(backend.engine.load.view(at(200)).promised_tokens, 0);
    }

    #[test]
    fn a_cut_answer_counts_as_longer_than_it_was() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let pool = &snapshot.pools[0];
        let expected = |ticket: &Ticket| ticket.outputs.forecast(None).mean;
        let mut ticket = take(pool, &prompt(1, 10), false, at(0));
        let before = expected(&ticket);
        ticket.first_token(at(10));
        ticket.streamed(1_000);
        drop(ticket);
        let mut ticket = take(pool, &prompt(2, 10), false, at(20));
        let after = expected(&ticket);
        assert!(after > before * 1.2, "{before} {after}");
        ticket.first_token(at(30));
        ticket.streamed(10);
        ticket.finish(None, None, at(40));
        let next = take(pool, &prompt(3, 10), false, at(50));
        assert!((expected(&next) - after).abs() < 1e-9, "of what was not counted nothing is learned");
    }

    #[test]
    fn an_abandoned_wait_counts_until_tokens_come_again() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let pool = &snapshot.pools[0];
        let doomed = take(pool, &prompt(1, 100), false, at(0));
        let stalled = doomed.backend.clone();
        let doubted = |now| stalled.engine.load.view(at(now)).slower > 2.0;
        let expected = (doomed.forecast.work.prediction.p90 * 1e3) as u64;
        let left = expected * 10 + 200;
        doomed.give_up(at(left));
        assert_eq!(counters(&stalled.load), (0, 0, 0, 0));
        assert!(doubted(left) && doubted(left + 9_000), "idle as it looks");
        let next = take(pool, &prompt(2, 100), false, at(left + 10));
        assert_ne!(next.backend.name(), stalled.name());
        next.give_up(at(left + 20));
        assert!(doubted(left + 30), "a shorter wait takes nothing back");
        assert!(!doubted(left + 10_000), "it is tried again");
        let entered = |family| {
            let (learned, outputs) = (pool.learned.clone(), pool.learned.outputs.of(&pool_target(), &"route".into()));
            let forecast = take(pool, &prompt(family, 100), false, at(left)).forecast;
            Ticket::take(learned, outputs, stalled.clone(), forecast, prompt(family, 100), at(left))
        };
        let mut alive = entered(3);
        alive.first_token(at(left + 40));
        assert!(!doubted(left + 50), "it gives tokens again");
    }

    #[test]
    fn an_overtaken_request_blames_its_engine_only_since_the_last_token() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let pool = &snapshot.pools[0];
        let lost = take(pool, &prompt(1, 100), false, at(0));
        let (backend, forecast) = (lost.backend.clone(), lost.forecast);
        let doubted = |now| backend.engine.load.view(at(now)).slower > 2.0;
        let long = (forecast.work.prediction.p90 * 1e3) as u64 * 10 + 200;
        assert!(doubted(long));
        let mut next = Ticket::take(
            pool.learned.clone(),
            lost.outputs.clone(),
            backend.clone(),
            forecast,
            prompt(2, 100),
            at(long),
        );
        assert!(doubted(long + 1));
        next.first_token(at(long + 2));
        assert!(!doubted(long + 3), "the engine lives; that one request is lost");
        assert!(doubted(2 * long + 3), "nothing came since");
        lost.give_up(at(long + 4));
        assert!(!doubted(long + 5) && !doubted(2 * long + 5), "what was lost is remembered as little");
    }

    #[test]
    fn queued_tokens_of_a_whole_answer_run_down_as_predicted() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let ticket = take(&snapshot.pools[0], &prompt(1, 1_000), true, at(0));
        let millis = (ticket.forecast.work.prediction.seconds * 1e3) as u64;
        let queued = |now| ticket.backend.engine.load.view(at(now)).queued_tokens;
        assert_eq!(queued(0), 16_000);
        assert!((7_900..8_100).contains(&queued(millis / 2)), "{}", queued(millis / 2));
        assert_eq!(queued(millis + 1), 0);
        assert_eq!(ticket.backend.engine.load.view(at(millis + 1)).decoding, 1);
    }

    #[test]
    fn an_idle_night_does_not_inflate_external_prompts() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let mut ticket = take(&snapshot.pools[0], &prompt(1, 100), false, at(0));
        let engine = ticket.backend.engine.clone();
        let read = |started: f64, second: u64| {
            let signals = EngineSignals {
                running: Some(1.0),
                prefix_queries: Some(started),
                prefix_hits: Some(0.0),
                ..EngineSignals::unknown(EngineKind::Vllm)
            };
            engine.record_reading(signals, at(second * 1_000));
        };
        ticket.first_token(at(100));
        drop(ticket);
        (1..20_000).for_each(|second| read(1_600.0, second));
        read(4_600.0, 20_000);
        let view = engine.load.view(at(20_000_000));
        assert!(view.foreign_tokens > 2_000 && view.utilisation < 0.2, "{view:?}");
    }

    #[test]
    fn a_prompt_goes_where_its_prefix_is_unless_that_failed() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let pool = &snapshot.pools[0];
        let mut first = take(pool, &prompt(7, 400), false, at(0));
        first.first_token(at(50));
        let home = first.backend.name().clone();
        let next = take(pool, &prompt(7, 420), false, at(60));
        assert_eq!(*next.backend.name(), home);
        assert!(next.forecast.work.uncached_tokens < 400);
        let lost = take(pool, &prompt(8, 400), false, at(70));
        let failed = lost.backend.name().clone();
        drop(lost);
        let held = registry.prefixes().len();
        let again = take(pool, &prompt(8, 400), false, at(80));
        assert_eq!(
            again.forecast.work.uncached_tokens, again.forecast.work.prompt_tokens,
            "{failed} never computed it"
        );
        drop((first, next, again));
        assert_eq!(registry.prefixes().len(), held.min(registry.prefixes().len()));
    }

    #[test]
    fn max_concurrency_is_never_exceeded() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let first = take(&snapshot.pools[0], &prompt(1, 10), false, at(0));
        let limited = Backend {
            credential: first.backend.credential.clone(),
            account: None,
            spec: first.backend.spec.clone(),
            engine: first.backend.engine.clone(),
            max_concurrency: Some(2),
            kv_tokens: None,
            breaker: first.backend.breaker.clone(),
            by_model: Arc::default(),
            load: first.backend.load.clone(),
            learned: first.backend.learned.clone(),
        };
        let (pool, limited) = (&snapshot.pools[0], Arc::new(limited));
        let more = || {
            let (learned, outputs) = (pool.learned.clone(), first.outputs.clone());
            Ticket::take_if_room(learned, outputs, limited.clone(), first.forecast, prompt(2, 10), at(1))
        };
        let second = more();
        assert!(second.is_some() && more().is_none());
        drop(second);
        assert!(more().is_some());
        assert_eq!(first.backend.engine.load.in_flight(), 1);
    }

    #[test]
    fn a_session_is_cheap_where_it_was_served() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let pool = &snapshot.pools[0];
        let target = Target::whole(0);
        let outputs = pool.learned.outputs.of(&target, &"route".into());
        let (one, other) = (prompt(1, 400), prompt(2, 400));
        let ask = |blocks: &Blocks| {
            let ask = PlacementQuery {
                target: &target,
                tried: &[],
                prompt: blocks.prompt(),
                session: Some(9),
                room_only: true,
                outputs: &outputs,
                max_tokens: None,
                whole: false,
                bounded: false,
                ttft_limit: None,
                tpot_limit: None,
            };
            pool.place(&ask, at(10), 0.5, &mut Scratch::default())
        };
        let placed = ask(&one).unwrap();
        let home = pool.backends[placed.backend].clone();
        let mut ticket = Ticket::take(pool.learned.clone(), outputs.clone(), home, placed.forecast, one, at(10));
        ticket.first_token(at(20));
        // The prompt's prefix is new, but its session is not.
        let next = ask(&other).unwrap();
        assert_eq!(next.backend, placed.backend);
        assert_eq!(next.forecast.work.uncached_tokens, 3_200);
        assert_eq!(registry.sessions().len(), 1);
    }

    #[test]
    fn a_long_prompt_is_held_only_for_engines_with_a_proven_queue_of_ours() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let pool = &snapshot.pools[0];
        let target = pool_target();
        let outputs = pool.learned.outputs.of(&target, &"route".into());
        let is_held = |blocks: &Blocks, bounded| {
            let ask = PlacementQuery {
                target: &target,
                tried: &[],
                prompt: blocks.prompt(),
                session: None,
                room_only: true,
                outputs: &outputs,
                max_tokens: None,
                whole: false,
                bounded,
                ttft_limit: Some(std::time::Duration::from_secs(1)),
                tpot_limit: None,
            };
            pool.place(&ask, at(10), 0.5, &mut Scratch::default()).unwrap().held
        };
        let report = |waiting| {
            let signals = EngineSignals { running: Some(0.0), waiting, ..EngineSignals::unknown(EngineKind::Vllm) };
            pool.backends.iter().for_each(|backend| backend.engine.record_reading(signals.clone(), at(5)));
        };
        let (long, short) = (prompt(9, 1_000), prompt(8, 1));
        report(Some(0.0));
        assert!(!is_held(&long, false), "nothing is there");
        let whole = [take(pool, &prompt(1, 1_000), true, at(9)), take(pool, &prompt(2, 1_000), true, at(9))];
        assert!(!is_held(&long, false), "nobody would see when it is done with them");
        drop(whole);
        let busy = [take(pool, &prompt(1, 1_000), false, at(9)), take(pool, &prompt(2, 1_000), false, at(9))];
        assert!(!is_held(&long, false), "they may compute both side by side");
        // First tokens that come later the more is queued.
        let predictor = &pool.learned.predictor;
        for backend in &pool.backends {
            for queued in 1..=8 {
                let features = Features { uncached: 500, prompt: 500, queued: 500 * queued, ..Features::default() };
                let ahead = predictor.model().ahead(&backend.learned.predictor, &features, 0.0, at(9));
                let seconds = ahead.prefill + ahead.wait;
                predictor.observe_ttft(&backend.learned.predictor, &features, &ahead.ttft, seconds, at(9));
            }
        }
        assert!(is_held(&long, false) && !is_held(&short, false));
        assert!(!is_held(&long, true), "a bound is kept by other means");
        report(None);
        assert!(!is_held(&long, false), "who knows how many there are behind one address");
        report(Some(0.0));
        drop(busy);
        assert!(!is_held(&long, false));
    }

    #[test]
    fn a_restart_empties_what_is_believed_cached() {
        let registry = Registry::default();
        let snapshot = pool(&registry);
        let pool = &snapshot.pools[0];
        let mut ticket = take(pool, &prompt(7, 400), false, at(0));
        ticket.first_token(at(50));
        ticket.backend.engine.process_ended();
        let next = take(pool, &prompt(7, 400), false, at(60));
        assert_eq!(next.forecast.work.uncached_tokens, next.forecast.work.prompt_tokens);
    }

    proptest! {
        #[test]
        fn everything_returns_to_zero(steps in proptest::collection::vec((0u8..5, 0usize..8, 1u64..300, any::<bool>(), 0u64..500), 0..150)) {
            let registry = Registry::default();
            let snapshot = pool(&registry);
            let mut held: Vec<Ticket> = Vec::new();
            let mut now = 0;
            for (step, which, blocks, whole, millis) in steps {
                now += millis;
                match step {
                    0 | 1 => held.push(take(&snapshot.pools[0], &prompt(which as u64, blocks), whole, at(now))),
                    2 => if let Some(ticket) = held.get_mut(which).filter(|ticket| !ticket.forecast.work.whole) {
                        ticket.first_token(at(now));
                    },
                    3 => if let Some(ticket) = held.get_mut(which).filter(|ticket| ticket.decoding) {
                        ticket.streamed(blocks * 16);
                    },
                    _ => if which < held.len() {
                        let usage = Usage { prompt_tokens: blocks * 16, cached_tokens: Some(blocks), completion_tokens: 9, reasoning_tokens: None, ..Usage::default() };
                        let ticket = held.swap_remove(which);
                        if whole { ticket.finish(Some(&usage), Some(0.01), at(now)); } else { drop(ticket); }
                    },
                }
                let under_way: u32 = snapshot.pools[0].backends.iter().map(|backend| backend.load.in_flight()).sum();
                prop_assert_eq!(under_way as usize, held.len());
            }
            held.clear();
            for backend in &snapshot.pools[0].backends {
                prop_assert_eq!(counters(&backend.load), (0, 0, 0, 0));
                let view = backend.engine.load.view(at(now + 3_600_000));
                prop_assert_eq!((view.in_flight, view.queued_tokens, view.decoding, view.context_tokens, view.promised_tokens), (0, 0, 0, 0, 0));
                prop_assert!(view.slower <= 0.0);
            }
        }
    }
}
