//! What outlives a policy: every engine ever named and still in use, and what was learned of each model on it.

use std::{collections::HashSet, sync::Arc};

use dashmap::DashMap;

use super::{Engine, Learned, Load, PoolLearned};
use crate::{
    schedule::{affinity::Affinity, prefix::PrefixIndex},
    types::Name,
};

/// Most memory of the prefix index, in bytes.
const PREFIX_MEMORY: usize = 64 << 20;

/// Live engines by address, and learned state by (engine, model) and by pool.
pub struct Registry {
    engines: DashMap<String, Arc<Engine>>,
    learned: DashMap<(String, Option<Name>), Arc<Learned>>,
    pools: DashMap<Name, Arc<PoolLearned>>,
    /// By pool and backend.
    loads: DashMap<(Name, Name), Arc<Load>>,
    prefixes: Arc<PrefixIndex>,
    sessions: Arc<Affinity>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::with_prefix_memory(PREFIX_MEMORY)
    }
}

impl Registry {
    /// A registry whose prefix index takes at most so many bytes.
    pub fn with_prefix_memory(bytes: usize) -> Self {
        Self {
            engines: DashMap::new(),
            learned: DashMap::new(),
            pools: DashMap::new(),
            loads: DashMap::new(),
            prefixes: Arc::new(PrefixIndex::new(bytes)),
            sessions: Arc::default(),
        }
    }

    /// The engine at `url`; the same one as before if it is known, unless it changed its name.
    pub fn engine(&self, name: &Name, url: &str) -> Arc<Engine> {
        let mut slot = self.engines.entry(url.to_owned()).or_insert_with(|| fresh(name, url));
        if slot.name != *name {
            *slot = fresh(name, url);
        }
        slot.clone()
    }

    /// What was learned of `model` on the engine at `url`.
    pub fn learned(&self, url: &str, model: Option<&Name>) -> Arc<Learned> {
        let new = || Arc::new(Learned::new(self.prefixes.clone(), self.sessions.clone()));
        self.learned.entry((url.to_owned(), model.cloned())).or_insert_with(new).clone()
    }

    /// What was learned of a pool.
    pub fn pool(&self, name: &Name) -> Arc<PoolLearned> {
        self.pools.entry(name.clone()).or_default().clone()
    }

    /// What is under way for a backend of a pool.
    pub fn load(&self, pool: &Name, backend: &Name) -> Arc<Load> {
        self.loads.entry((pool.clone(), backend.clone())).or_default().clone()
    }

    /// Forgets the engines that are not among `urls` and the pools that are not among `pools`, so that changing policies does
    /// not grow it for ever.
    pub fn retain(&self, urls: &HashSet<&str>, pools: &HashSet<&Name>) {
        self.engines.retain(|url, _| urls.contains(url.as_str()));
        self.learned.retain(|(url, _), _| urls.contains(url.as_str()));
        self.pools.retain(|name, _| pools.contains(name));
        self.loads.retain(|_, load| Arc::strong_count(load) > 1);
    }

    /// Every live engine.
    pub fn engines(&self) -> Vec<Arc<Engine>> {
        self.engines.iter().map(|entry| entry.value().clone()).collect()
    }

    /// Which prompts are believed to be cached where.
    pub fn prefixes(&self) -> &PrefixIndex {
        &self.prefixes
    }

    /// Where sessions were served last.
    pub fn sessions(&self) -> &Affinity {
        &self.sessions
    }
}

fn fresh(name: &Name, url: &str) -> Arc<Engine> {
    Arc::new(Engine::new(name.clone(), url.to_owned()))
}
