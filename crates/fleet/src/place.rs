//! Placement within a pool: gathers every candidate's current state, chooses one, and forecasts the request there.

use std::time::Duration;

use super::{Backend, Forecast, Pool, View, Work};
use signalbox_policy::Target;
use signalbox_schedule::{
    Choice, Reason,
    admission::{Occupancy, holds},
    choose,
    predict::{Ahead, Batch, Features, Model, OutputForecast, OutputLengths, Prediction},
    prefix::HolderId,
};
use signalbox_types::{Candidate, Moment, Prompt, Strategy};

/// Time over which external load moves from the last reading to its mean, or to zero where load must not be assumed
/// without evidence.
const FOREIGN_FADE: Duration = Duration::from_secs(3);
/// One part in this many of a KV cache is never promised: requests begin to wait for memory before the cache is full.
const KV_SPARE: u64 = 20;

/// A request to be placed.
#[derive(Copy, Clone, Debug)]
pub struct PlacementQuery<'a> {
    /// The backends it may use.
    pub target: &'a Target,
    /// Backends that were tried before, by their index in the pool.
    pub tried: &'a [usize],
    /// Its prompt.
    pub prompt: Prompt<'a>,
    /// Hash of the session it belongs to, where the client names one.
    pub session: Option<u64>,
    /// True if engines without room are left out.
    pub room_only: bool,
    /// Answer lengths of its kind.
    pub outputs: &'a OutputLengths,
    /// The client's limit on the answer, in tokens.
    pub max_tokens: Option<u64>,
    /// True if the answer is not streamed.
    pub whole: bool,
    /// True if its route bounds the time to first token: it is sent, spilled or refused, and never held.
    pub bounded: bool,
    /// Limit on the time to first token.
    pub ttft_limit: Option<Duration>,
    /// Limit on the time per token.
    pub tpot_limit: Option<Duration>,
}

/// The chosen backend and the reason.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Placement {
    /// Its index in the pool.
    pub backend: usize,
    /// The choice among the candidates, with its reason.
    pub choice: Choice,
    /// Forecast on that backend.
    pub forecast: Forecast,
    /// True if a request that can wait should wait for now: its engine has enough work ([`holds`]).
    pub held: bool,
}

/// Reusable buffers of a decision. After a decision they hold every candidate's state.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Indices of the candidates in the pool.
    pub members: Vec<usize>,
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// Cost of each candidate; `None` where it was not weighed.
    pub costs: Vec<Option<f64>>,
    /// Indices in the pool of the backends that were left out for lack of room.
    pub full: Vec<usize>,
    pub(super) views: Vec<View>,
    holders: Vec<HolderId>,
    pub(super) matched: Vec<u32>,
}

impl PlacementQuery<'_> {
    /// Expected tokens of prompt and answer on `backend`.
    fn tokens(&self, backend: &Backend) -> u64 {
        backend.prompt_tokens(self.prompt.weight()) + self.outputs.forecast(self.max_tokens).mean as u64
    }
}

impl Pool {
    /// Chooses among the backends that `ask` allows; `None` without any. `chance` is uniform in `0..1`. Allocates
    /// nothing once `scratch` has been used for a pool of this size.
    pub fn place(
        &self,
        ask: &PlacementQuery<'_>,
        now: Moment,
        chance: f64,
        scratch: &mut Scratch,
    ) -> Option<Placement> {
        let survey = self.survey(ask, now, scratch)?;
        let Scratch { members, candidates, costs, views, matched, .. } = scratch;
        let choice = choose(self.spec.balance, candidates, self.draw(ask.target, chance), costs)?;
        let backend = members[choice.index];
        let (view, blocks) = (&views[choice.index], matched[choice.index] as usize);
        let (forecast, enough) = survey.forecast(&self.backends[backend], view, blocks);
        // A turn or a random share would be drawn anew at each attempt to place the request.
        let held = enough && matches!(choice.reason, Reason::Only | Reason::Strategy(Strategy::LeastCost));
        Some(Placement { backend, choice, forecast, held })
    }

    /// Gathers the current state of every backend that `ask` allows in `scratch`; `None` without any.
    pub(super) fn survey<'a>(
        &'a self,
        ask: &'a PlacementQuery<'a>,
        now: Moment,
        scratch: &mut Scratch,
    ) -> Option<Survey<'a>> {
        let Scratch { members, candidates, full, views, holders, matched, .. } = scratch;
        full.clear();
        views.clear();
        candidates.clear();
        let avoided = |member: usize| self.backends[member].is_avoided(now);
        self.to_weigh(ask, now, holders, members);
        holders.clear();
        members.retain(|&member| {
            let backend = &*self.backends[member];
            let Backend { engine, learned, .. } = backend;
            learned.apply_engine_state(backend.kv_tokens(), engine.restarts());
            if ask.room_only && !Self::has_room(backend, ask, now) {
                full.push(member);
                return false;
            }
            holders.push(learned.holder);
            views.push(engine.view(now));
            true
        });
        // Waiting for a full backend is better than using one where requests fail, unless they fail on all.
        if !full.is_empty() && members.iter().copied().all(avoided) && !full.iter().copied().all(avoided) {
            return None;
        }
        matched.clear();
        matched.resize(members.len(), 0);
        let first = self.backends.get(*members.first()?)?;
        first.learned.prefixes.matched(ask.prompt, holders, matched);
        let model = self.learned.predictor.model();
        let output = ask.outputs.forecast(ask.max_tokens);
        let mean_output = ask.max_tokens.map_or(output.mean, |_| ask.outputs.forecast(None).mean);
        let output_tokens = output.mean as u64;
        let survey = Survey { pool: self, ask, model, output, output_tokens, mean_output, now };
        for ((&member, view), &blocks) in members.iter().zip(&*views).zip(&*matched) {
            candidates.push(survey.candidate(&self.backends[member], view, blocks as usize));
        }
        Some(survey)
    }
}

impl Pool {
    pub(super) fn has_room(backend: &Backend, ask: &PlacementQuery<'_>, now: Moment) -> bool {
        let learned = &backend.learned;
        // What other clients have there is in the learned room already.
        if learned.concurrency.limit(now).is_some_and(|room| learned.under_way() >= room) {
            return false;
        }
        let occupancy = Occupancy {
            in_flight: backend.engine.load.in_flight(),
            foreign: backend.engine.foreign_seen(now, FOREIGN_FADE),
            limit: backend.max_concurrency,
        };
        occupancy.has_room()
            && backend.account.as_ref().is_none_or(|account| account.has_room(ask.tokens(backend), now))
    }
}

/// Values that all candidates of a decision share.
pub(super) struct Survey<'a> {
    pool: &'a Pool,
    ask: &'a PlacementQuery<'a>,
    model: Model,
    pub(super) output: OutputForecast,
    /// Expected answer tokens, rounded once because the conversion is slow.
    output_tokens: u64,
    /// Expected answer tokens without a client limit.
    mean_output: f64,
    now: Moment,
}

/// Work of a candidate for the request.
struct Task {
    tokens: u64,
    foreign: u32,
    features: Features,
    ahead: Ahead,
}

impl Survey<'_> {
    fn task(&self, backend: &Backend, view: &View, matched: usize) -> Task {
        let Self { ask, ref model, now, .. } = *self;
        let Backend { engine, learned, .. } = backend;
        let tokens = learned.bytes_per_token.prompt_tokens(ask.prompt.weight()).max(1);
        let matched = learned.bytes_per_token.prompt_tokens(ask.prompt.weight_of(ask.prompt.layout.bytes(matched)));
        // A turn extends the turn before it, even where the prompt's hashes are unknown.
        let expected = ask.session.map_or(0, |session| learned.sessions.expected_cached(session, learned.holder, now));
        let uncached = tokens.saturating_sub(matched.max(expected)).max(1);
        let promised = view.promised_tokens + tokens + self.output_tokens;
        let room = backend.kv_tokens().map_or(u64::MAX, |kv| kv - kv / KV_SPARE);
        let foreign = engine.foreign(now, FOREIGN_FADE);
        let wait = |slots| self.wait_for_slot(slots, view.in_flight + foreign, backend, view);
        let queued = view.queued_tokens + view.foreign_tokens;
        let features = Features {
            uncached,
            queued,
            prompt: tokens,
            decoding: view.decoding + foreign,
            overflow: promised.saturating_sub(room),
            progress: match view.foreign_tokens {
                0 => view.progress,
                // External queued tokens run down on their own. The rest of the elapsed time went into our tokens.
                _ => view.progress * (view.queued_tokens.max(1) as f64 / queued as f64).min(1.0),
            },
            slots: engine.slots().map_or(0.0, wait),
            load: backend.load_wait(now),
        };
        let ahead = model.ahead(&learned.predictor, &features, view.slower, now).delayed(features.load);
        Task { tokens, foreign, features, ahead }
    }

    fn candidate(&self, backend: &Backend, view: &View, matched: usize) -> Candidate {
        let task = self.task(backend, view, matched);
        let Task { foreign, features: Features { uncached, queued, overflow, load, .. }, ahead, .. } = task;
        let Ahead { ttft, prefill, slot_tokens, .. } = ahead;
        let tokens_per_second = uncached as f64 / prefill.max(f64::MIN_POSITIVE);
        let Backend { learned, spec, .. } = backend;
        Candidate {
            in_flight: view.in_flight,
            foreign,
            slots: backend.engine.slots(),
            queued_tokens: queued,
            uncached_tokens: uncached,
            output_tokens: self.output_tokens,
            decoding: view.decoding,
            overflow_tokens: overflow + u64::from((slot_tokens + load * tokens_per_second) as u32),
            load,
            utilisation: view.utilisation,
            speed: ttft.speed,
            ttft: ttft.seconds,
            ttft_p90: ttft.p90,
            attainment: self.attainment(backend, view, &task),
            latency: match self.pool.spec.balance {
                Strategy::PeakEwma => learned.latency.value(self.now),
                _ => 0.0,
            },
            weight: spec.weight,
            avoided: backend.is_avoided(self.now),
        }
    }

    /// Seconds until one of an engine's `slots` is free. The requests ahead release slots one after the other, each
    /// after an answer of the pool's mean length at this engine's speed with all slots in use. Their prompts are
    /// counted among the queued tokens.
    fn wait_for_slot(&self, slots: u32, ahead: u32, backend: &Backend, view: &View) -> f64 {
        let turns = f64::from((ahead + 1).saturating_sub(slots)) / f64::from(slots);
        if turns <= 0.0 {
            return 0.0;
        }
        let batch = Batch { decoding: slots - 1, context: view.context_tokens, ..Batch::default() };
        turns * self.mean_output * self.model.tpot(&backend.learned.predictor, &batch, self.now).seconds
    }

    /// Forecasts the request on `backend`. The second value is true if a request that can wait should wait for now.
    pub(super) fn forecast(&self, backend: &Backend, view: &View, matched: usize) -> (Forecast, bool) {
        let task = self.task(backend, view, matched);
        let (batch, tpot) = self.tpot(backend, view, &task);
        let work = Work {
            prompt_tokens: task.tokens,
            uncached_tokens: task.features.uncached,
            output_tokens: self.output_tokens,
            prefill: task.ahead.prefill,
            prediction: task.ahead.ttft,
            whole: self.ask.whole,
        };
        // Only a wait that first tokens have proven counts. External queued tokens do not, or other clients would crowd ours
        // out. Neither do requests that show nothing before they end, so that an engine that is faster than expected never
        // idles. Without a reported queue it is unknown whether prompts wait for each other there. A request with a bound is
        // sent, spilled or shed by the state of the engines instead.
        let ours = (view.streamed_tokens as f64 / task.features.queued.max(1) as f64).min(1.0);
        let wait = || backend.learned.predictor.proven_wait(task.ahead.wait, self.now) * ours;
        let held = backend.engine.has_queue() && !self.ask.bounded && holds(wait(), task.ahead.prefill);
        let forecast =
            Forecast { work, output: self.output, features: task.features, batch, tpot, session: self.ask.session };
        (forecast, held)
    }

    fn tpot(&self, backend: &Backend, view: &View, task: &Task) -> (Batch, Prediction) {
        let batch = Batch {
            decoding: view.decoding + task.foreign,
            context: view.context_tokens,
            prompt: task.tokens,
            arriving: view.utilisation * task.features.uncached as f64 / task.ahead.prefill.max(f64::MIN_POSITIVE),
        };
        (batch, self.model.tpot(&backend.learned.predictor, &batch, self.now))
    }

    fn attainment(&self, backend: &Backend, view: &View, task: &Task) -> f64 {
        let within = |limit: Duration| self.model.ttft_within(limit.as_secs_f64(), &task.ahead.ttft);
        let ttft = self.ask.ttft_limit.map_or(1.0, within);
        let within = |limit: Duration| {
            let (_, tpot) = self.tpot(backend, view, task);
            self.model.tpot_within(limit.as_secs_f64(), &tpot)
        };
        ttft * self.ask.tpot_limit.map_or(1.0, within)
    }
}
