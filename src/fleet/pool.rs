//! A pool and its backends, alive.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use dashmap::DashMap;

use super::{Account, Breaker, BreakerState, Credential, Engine, Failure, Learned, Load, PoolLearned};
use crate::{
    policy::{self, Target},
    schedule::Draw,
    types::{Endpoint, Moment, Name},
};

/// Most models' names that one backend tells apart.
const MOST_MODELS: usize = 256;
/// For how long an engine is believed not to implement an endpoint.
const LACKING: Duration = Duration::from_mins(5);
/// Counters of turns; targets that share one by chance share their turns.
const TURNS: usize = 16;

/// A set of backends that serve the same purpose.
#[derive(Debug)]
pub struct Pool {
    /// What the policy says of it.
    pub spec: policy::Pool,
    /// Its backends, in the order of the policy.
    pub backends: Vec<Arc<Backend>>,
    /// Counts decisions, apart for requests that differ in what they may be served by: routes that take turns with one another would
    /// else each meet the same backend every time.
    turns: [AtomicU64; TURNS],
    /// What was learned of it as a whole.
    pub learned: Arc<PoolLearned>,
    /// True if some of its backends pass on the model's name that the client asked for.
    passes_models: bool,
}

/// A model on an engine.
#[derive(Clone, Debug)]
pub struct Backend {
    /// What the policy says of it.
    pub spec: policy::Backend,
    /// The engine it is on.
    pub engine: Arc<Engine>,
    /// The account that its engine is called through, if any.
    pub account: Option<Arc<Account>>,
    /// True if the keys that its engine is called with are taken.
    pub credential: Arc<Credential>,
    /// Most requests on its engine at once, where limited.
    pub max_concurrency: Option<u32>,
    /// Size of its engine's KV cache as the policy has it, in tokens.
    pub kv_tokens: Option<u64>,
    /// The breaker of this model on this engine through this account. What concerns connections is counted by the engine's own, too.
    pub breaker: Arc<Breaker>,
    /// What of the engine's load is its own.
    pub load: Arc<Load>,
    /// What was learned of it.
    pub learned: Arc<Learned>,
    /// Itself as it is for each model's name, where it passes on what the client asked for.
    pub(super) by_model: Arc<DashMap<Box<str>, Arc<Self>>>,
}

impl Pool {
    /// A pool with its backends.
    pub fn new(spec: policy::Pool, backends: Vec<Arc<Backend>>, learned: Arc<PoolLearned>) -> Self {
        let passes_models = backends.iter().any(|backend| backend.spec.model.is_none());
        Self { spec, backends, turns: Default::default(), learned, passes_models }
    }

    /// The places of the backends that `target` allows.
    pub fn members<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = usize> + 'a {
        (0..self.backends.len()).filter(move |&index| self.backends[index].belongs_to(target))
    }

    /// Notes that the backend at this place does not implement `endpoint`. It is believed for five minutes: engines are upgraded.
    pub fn lacks(&self, backend: usize, endpoint: Endpoint, now: Moment) {
        let until = now.plus(LACKING).nanos();
        self.backends[backend].learned.lacks(endpoint, until);
        self.learned.lacking_until.fetch_max(until, Relaxed);
    }

    /// The places of the backends that are known not to implement `endpoint`.
    pub fn lacking(&self, endpoint: Endpoint, now: Moment) -> Vec<usize> {
        if now.nanos() >= self.learned.lacking_until.load(Relaxed) {
            return Vec::new();
        }
        (0..self.backends.len()).filter(|&at| self.backends[at].learned.is_lacking(endpoint, now)).collect()
    }

    /// Tokens of prompt and answer together that the backends which `target` allows take, every one of them: by the policy, or as their
    /// engines report it. `None` where neither says so of any.
    pub fn context(&self, target: &Target) -> Option<u64> {
        let reported = |backend: &Backend| backend.engine.context(backend.spec.model.as_deref());
        let reported = self.members(target).filter_map(|member| reported(&self.backends[member]));
        self.spec.context.or_else(|| reported.min())
    }

    /// The places of the backends that pass on the model's name and failed lately for `model`.
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

    /// The chance for the next decision about `target`; `chance` is uniform in `0..1`.
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

    /// Itself as it is for requests for `model`. A backend that passes on the model's name has a breaker for each name, since one model
    /// that fails says nothing of the others there; the names are the clients', so that only so many are told apart.
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

    /// The most open state of its own breakers: one, or one for each model whose name it passes on.
    pub fn worst_own_breaker(&self, now: Moment) -> BreakerState {
        let models = self.by_model.iter().map(|of| of.breaker.state(now));
        models.fold(self.breaker.state(now), BreakerState::max)
    }

    /// True if others are tried first: it or its engine failed lately, or its provider takes none of its account's keys.
    pub(super) fn is_avoided(&self, now: Moment) -> bool {
        self.breaker.is_open(now)
            || self.engine.breaker.is_open(now)
            || self.account.as_ref().is_some_and(|account| account.is_shut(now))
    }

    /// The state of its own breaker and of its engine's, whichever lets less through.
    pub fn breaker_state(&self, now: Moment) -> BreakerState {
        self.breaker.state(now).max(self.engine.breaker.state(now))
    }

    /// Admits a request that is about to be sent; `false` where another has just been sent to find out whether the target is back.
    pub fn enter(&self, now: Moment) -> bool {
        self.breaker.enter(now) && self.engine.breaker.enter(now)
    }

    /// Counts a proper answer to a request that was sent at `since`: the connection held, and this model answers. Returns whether that
    /// closed a breaker.
    pub fn succeeded(&self, since: Moment) -> bool {
        let engine = self.engine.breaker.succeeded(since);
        self.breaker.succeeded(since) || engine
    }

    /// Counts that a request failed that was sent at `since`. It counts for the engine as a whole where its connection failed, unless the
    /// engine has answered a request that was sent later: then it is the model that stalls. Returns whether that opened a breaker.
    pub fn failed(&self, since: Moment, now: Moment, failure: Failure) -> bool {
        match failure {
            // Nothing was asked of the model.
            Failure::Unreachable => self.engine.breaker.failed(now, failure),
            Failure::Lost => {
                let engine = !self.engine.breaker.has_served_after(since) && self.engine.breaker.failed(now, failure);
                self.breaker.failed(now, failure) || engine
            }
            Failure::Error | Failure::Refused(_) => self.breaker.failed(now, failure),
        }
    }

    /// True if its engine answers; `None` while nothing is known.
    pub fn is_up(&self, now: Moment) -> Option<bool> {
        if self.breaker.is_open(now) { Some(false) } else { self.engine.is_up(now) }
    }

    /// Tokens that its engine's KV cache holds, by the policy or as it says itself.
    pub(super) fn kv_tokens(&self) -> Option<u64> {
        self.kv_tokens.or_else(|| self.engine.kv_tokens())
    }

    fn belongs_to(&self, target: &Target) -> bool {
        self.spec.serves == target.serves
            && target.model.as_ref().is_none_or(|model| self.spec.model.as_ref() == Some(model))
    }

    /// About how many tokens a prompt of `prompt_bytes` has here.
    pub fn prompt_tokens(&self, prompt_bytes: usize) -> u64 {
        self.learned.bytes_per_token.prompt_tokens(prompt_bytes as u64)
    }
}
