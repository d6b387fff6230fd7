//! A pool and its backends, alive.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{Account, Engine, Learned, Load, PoolLearned};
use crate::{
    policy::{self, Target},
    schedule::Draw,
    types::{Moment, Name},
};

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
}

/// A model on an engine.
#[derive(Debug)]
pub struct Backend {
    /// What the policy says of it.
    pub spec: policy::Backend,
    /// The engine it is on.
    pub engine: Arc<Engine>,
    /// The account that its engine is called through, if any.
    pub account: Option<Arc<Account>>,
    /// Most requests on its engine at once, where limited.
    pub max_concurrency: Option<u32>,
    /// Size of its engine's KV cache as the policy has it, in tokens.
    pub kv_tokens: Option<u64>,
    /// What of the engine's load is its own.
    pub load: Arc<Load>,
    /// What was learned of it.
    pub learned: Arc<Learned>,
}

impl Pool {
    /// A pool with its backends.
    pub fn new(spec: policy::Pool, backends: Vec<Arc<Backend>>, learned: Arc<PoolLearned>) -> Self {
        Self { spec, backends, turns: Default::default(), learned }
    }

    /// The places of the backends that `target` allows.
    pub fn members<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = usize> + 'a {
        (0..self.backends.len()).filter(move |&index| self.backends[index].belongs_to(target))
    }

    /// Tokens of prompt and answer together that the backends which `target` allows take, every one of them: by the policy, or as their
    /// engines report it. `None` where neither says so of any.
    pub fn context(&self, target: &Target) -> Option<u64> {
        let reported = |backend: &Backend| backend.engine.context(backend.spec.model.as_deref());
        let reported = self.members(target).filter_map(|member| reported(&self.backends[member]));
        self.spec.context.or_else(|| reported.min())
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

    /// Whether others are tried first: it failed lately, or its provider takes none of its account's keys.
    pub(super) fn is_avoided(&self, now: Moment) -> bool {
        self.engine.breaker.is_open(now) || self.account.as_ref().is_some_and(|account| account.is_shut(now))
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
