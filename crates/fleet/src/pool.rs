//! A pool and its backends, with their live state.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use dashmap::DashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    Account, Breaker, BreakerState, Credential, Engine, Failure, Learned, LeftOut, Load, PoolLearned, RefusalEvidence,
    by_holder::ByHolder,
};
use signalbox_policy::{self as policy, Target};
use signalbox_schedule::Draw;
use signalbox_types::{Endpoint, EngineApi, Moment, Name, Presence};

/// Most model names with a state of their own on one backend.
const MOST_MODELS: usize = 256;
/// Number of turn counters. Targets with the same hash share one.
const TURNS: usize = 16;

/// A set of backends that serve the same purpose.
#[derive(Debug)]
pub struct Pool {
    /// Definition in the policy.
    pub spec: policy::Pool,
    /// Backends, in the order of the policy.
    pub backends: Vec<Arc<Backend>>,
    /// Decision counters, separate for requests with different targets: routes that alternate with one another would
    /// otherwise each meet the same backend every time.
    turns: [AtomicU64; TURNS],
    /// State learned for the pool as a whole.
    pub learned: Arc<PoolLearned>,
    /// True if some of the pool's backends pass the client's model name on.
    passes_models: bool,
    /// Present if the pool is so large that decisions weigh a shortlist.
    pub(super) by_holder: Option<ByHolder>,
    /// True if backends have fixed shares.
    shares: bool,
}

/// A model on an engine.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Definition in the policy.
    pub spec: policy::Backend,
    /// The engine it is on.
    pub engine: Arc<Engine>,
    /// The account its engine is called with, if any.
    pub account: Option<Arc<Account>>,
    /// Acceptance of the API keys used for its engine.
    pub credential: Arc<Credential>,
    /// Limit on concurrent requests of its engine.
    pub max_concurrency: Option<u32>,
    /// Size of its engine's KV cache in tokens, from the policy.
    pub kv_tokens: Option<u64>,
    /// Breaker of this model on this engine through this account. Connection failures are counted by the engine's
    /// breaker too.
    pub breaker: Arc<Breaker>,
    /// This backend's share of its engine's load.
    pub load: Arc<Load>,
    /// State learned for this model on this engine.
    pub learned: Arc<Learned>,
    /// A copy with its own breaker for each model name, where the backend passes the client's model name on.
    pub(super) by_model: Arc<DashMap<Box<str>, Arc<Self>>>,
}

impl Pool {
    /// A pool with its backends.
    pub fn new(spec: policy::Pool, backends: Vec<Arc<Backend>>, learned: Arc<PoolLearned>) -> Self {
        let passes_models = backends.iter().any(|backend| backend.spec.model.is_none());
        let shares = backends.iter().any(|backend| backend.spec.weight.is_some());
        let holders = backends.iter().map(|backend| backend.learned.holder);
        let by_holder = ByHolder::of(spec.balance, holders).filter(|_| !shares);
        Self { spec, backends, turns: Default::default(), learned, passes_models, by_holder, shares }
    }

    /// True if backends of it have fixed shares.
    pub fn has_shares(&self) -> bool {
        self.shares
    }

    /// Position of a conversation, by its hash, in the range `0..1` that fixed shares divide. All turns have the same, at each
    /// gateway; other pools have another.
    pub fn position(&self, conversation: u64) -> f64 {
        let hash = xxh3_64_with_seed(self.spec.name.as_bytes(), conversation);
        // The bits that a float of this range holds exactly.
        (hash >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Indices of the backends that `target` allows.
    pub fn members<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = usize> + 'a {
        (0..self.backends.len()).filter(move |&index| self.backends[index].belongs_to(target))
    }

    /// True if the pool serves `endpoint` natively: the policy says so, or, where it names no endpoints, every engine
    /// was found to serve it. The one place to ask. Reads atomics only.
    ///
    /// An engine that does not answer and was never probed is left out: it joins with its first answer, and a request
    /// that meets it before that goes on to another backend.
    pub fn speaks(&self, endpoint: Endpoint) -> bool {
        if self.spec.speaks.contains(&endpoint) {
            return true;
        }
        let Some(api) = EngineApi::of(endpoint).filter(|_| self.spec.learns_endpoints) else { return false };
        let mut is_served = false;
        for engine in self.backends.iter().map(|backend| &backend.engine) {
            match engine.apis.presence(api) {
                Presence::Present => is_served = true,
                Presence::Unknown if engine.is_reachable() == Some(false) => {}
                Presence::Unknown | Presence::Absent => return false,
            }
        }
        is_served
    }

    /// Records that a backend refused a request to `endpoint` with 404, 405 or 501. `is_bare`: its answer was no error
    /// about the request. Returns the time for which the backend is left out by that, if it was not before.
    ///
    /// A bare answer has the engine probed; only the probe changes what the pool [speaks](Self::speaks).
    pub fn refused(&self, backend: usize, endpoint: Endpoint, is_bare: bool, now: Moment) -> Option<Duration> {
        let Backend { engine, learned, .. } = &*self.backends[backend];
        let api = EngineApi::of(endpoint);
        if let Some(api) = api.filter(|_| is_bare) {
            engine.apis.doubt(api, now);
        }
        let evidence = match api {
            Some(api) if engine.apis.is_missing(api) => RefusalEvidence::Probed,
            _ if is_bare => RefusalEvidence::Bare,
            _ => RefusalEvidence::None,
        };
        let (pause, is_new) = learned.refused.refused(endpoint, evidence, now)?;
        self.learned.left_out_until.fetch_max(now.plus(pause).nanos(), Relaxed);
        is_new.then_some(pause)
    }

    /// Records that a backend answered a request to `endpoint` properly. Returns true if it was left out before.
    pub fn answered(&self, backend: usize, endpoint: Endpoint) -> bool {
        let Backend { engine, learned, .. } = &*self.backends[backend];
        if let Some(api) = EngineApi::of(endpoint) {
            engine.apis.answered(api);
        }
        learned.refused.answered(endpoint)
    }

    /// Indices of the backends that are likely to refuse requests to `endpoint`.
    pub fn lacking(&self, endpoint: Endpoint, now: Moment) -> Vec<usize> {
        if now.nanos() >= self.learned.left_out_until.load(Relaxed) {
            return Vec::new();
        }
        (0..self.backends.len()).filter(|&at| self.backends[at].left_out(endpoint, now).is_some()).collect()
    }

    /// Smallest context length of the backends that `target` allows, from the policy or as their engines report it.
    /// `None` where neither states one.
    pub fn context(&self, target: &Target) -> Option<u64> {
        let reported = |backend: &Backend| backend.engine.context(backend.spec.model.as_deref());
        let reported = self.members(target).filter_map(|member| reported(&self.backends[member]));
        self.spec.context.or_else(|| reported.min())
    }

    /// Indices of the backends that pass the model name on and failed lately for `model`.
    pub fn failing(&self, model: Option<&str>, now: Moment) -> Vec<usize> {
        if !self.passes_models || model.is_none() {
            return Vec::new();
        }
        let is_failing = |at: &usize| {
            let backend = &self.backends[*at];
            backend.spec.model.is_none() && backend.asked_for(model).breaker.is_open(now)
        };
        (0..self.backends.len()).filter(is_failing).collect()
    }

    /// Draw for the next decision about `target`; `chance` is uniform in `0..1`.
    pub fn draw(&self, target: &Target, chance: f64) -> Draw {
        let mut hasher = DefaultHasher::new();
        (&target.serves, &target.model).hash(&mut hasher);
        let turn = &self.turns[hasher.finish() as usize % TURNS];
        Draw { turn: turn.fetch_add(1, Relaxed), chance }
    }
}

impl Backend {
    /// Its name in headers, metrics and the journal.
    pub fn name(&self) -> &Name {
        &self.spec.name
    }

    /// The backend's state for `model`. A backend that passes model names on has a breaker for each name, since one
    /// failing model says nothing about the others. Clients choose the names, so their number is bounded.
    pub fn asked_for(self: &Arc<Self>, model: Option<&str>) -> Arc<Self> {
        let Some(model) = model.filter(|_| self.spec.model.is_none()) else { return self.clone() };
        if let Some(known) = self.by_model.get(model) {
            return known.clone();
        }
        if self.by_model.len() >= MOST_MODELS {
            return self.clone();
        }
        let own = || Arc::new(Self { breaker: Arc::default(), by_model: Arc::default(), ..Self::clone(self) });
        self.by_model.entry(model.into()).or_insert_with(own).clone()
    }

    /// State of an endpoint for which it is left out since it refused requests; a probe that finds the endpoint again ends
    /// that.
    pub fn left_out(&self, endpoint: Endpoint, now: Moment) -> Option<LeftOut> {
        let (left, shown_at) = self.learned.refused.left_out(endpoint, now)?;
        let is_found = |api| self.engine.apis.is_found_since(api, shown_at);
        EngineApi::of(endpoint).is_none_or(|api| !is_found(api)).then_some(left)
    }

    /// Most open state of its own breakers: one, or one for each model name.
    pub fn worst_own_breaker(&self, now: Moment) -> BreakerState {
        let models = self.by_model.iter().map(|of| of.breaker.state(now));
        models.fold(self.breaker.state(now), BreakerState::max)
    }

    /// True if other backends should be tried first: it or its engine failed lately, its engine sleeps, or the provider
    /// refuses all keys of the account.
    pub(super) fn is_avoided(&self, now: Moment) -> bool {
        self.breaker.is_open(now)
            || self.engine.breaker.is_open(now)
            || self.engine.is_asleep()
            || self.account.as_ref().is_some_and(|account| account.refuses_all_keys(now))
    }

    /// State of its own breaker or its engine's, whichever lets fewer requests through.
    pub fn breaker_state(&self, now: Moment) -> BreakerState {
        self.breaker.state(now).max(self.engine.breaker.state(now))
    }

    /// Admits a request that is about to be sent. Returns false if another request has just started to probe the
    /// target.
    pub fn enter(&self, now: Moment) -> bool {
        self.breaker.enter(now) && self.engine.breaker.enter(now)
    }

    /// Counts a proper answer to a request that was sent at `since`, for the model and for the connection. Returns true
    /// if that closed a breaker.
    pub fn succeeded(&self, since: Moment) -> bool {
        let engine = self.engine.breaker.succeeded(since);
        self.breaker.succeeded(since) || engine
    }

    /// Counts the failure of a request that was sent at `since`. A lost connection counts for the whole engine, unless
    /// the engine has answered a request that was sent later: then the model stalls. Returns true if that opened a
    /// breaker.
    pub fn failed(&self, since: Moment, now: Moment, failure: Failure) -> bool {
        match failure {
            // The model was never asked.
            Failure::Unreachable => self.engine.breaker.failed(now, failure),
            Failure::Lost => {
                let engine = !self.engine.breaker.has_served_after(since) && self.engine.breaker.failed(now, failure);
                self.breaker.failed(now, failure) || engine
            }
            Failure::Full(pause) => {
                // The refused request itself is still counted there.
                let others = self.learned.under_way().saturating_sub(1);
                if !self.learned.concurrency.refused(others, pause, now) {
                    return self.breaker.failed(now, pause.map_or(Failure::Error, Failure::Refused));
                }
                self.engine.breaker.failed(now, failure);
                self.breaker.failed(now, failure)
            }
            Failure::Error | Failure::Refused(_) | Failure::Away => self.breaker.failed(now, failure),
        }
    }

    /// True if its engine answers; `None` while unknown.
    pub fn is_up(&self, now: Moment) -> Option<bool> {
        if self.breaker.is_open(now) { Some(false) } else { self.engine.is_up(now) }
    }

    /// Seconds until its engine has loaded the model; 0 if it is loaded, or for engines that load none on demand.
    pub(super) fn load_wait(&self, now: Moment) -> f64 {
        match &self.spec.model {
            Some(model) if self.engine.models.is_unloaded(model) => self.learned.load_time.expected(now),
            _ => 0.0,
        }
    }

    /// Size of its engine's KV cache in tokens, from the policy or as the engine reports it.
    pub(super) fn kv_tokens(&self) -> Option<u64> {
        self.kv_tokens.or_else(|| self.engine.kv_tokens())
    }

    pub(super) fn belongs_to(&self, target: &Target) -> bool {
        self.spec.serves == target.serves
            && target.model.as_ref().is_none_or(|model| self.spec.model.as_ref() == Some(model))
            && self.spec.audience.admits(target.team.as_ref())
            && target.account.as_ref().is_none_or(|account| self.engine.id.account() == *account)
    }

    /// Approximate number of tokens here of a prompt that weighs this many bytes.
    pub fn prompt_tokens(&self, weight: u64) -> u64 {
        self.learned.bytes_per_token.prompt_tokens(weight)
    }
}
