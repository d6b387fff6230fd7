//! What outlives a policy: every engine ever named and still in use, and what was learned of each model on it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use dashmap::DashMap;

use super::{Engine, Load};
use crate::{
    measure::{BytesPerToken, PeakEwma},
    types::{Moment, Name},
};

/// Over how long a peak of latency is forgotten.
const LATENCY_DECAY: Duration = Duration::from_secs(10);

/// Live engines by address, and learned state by (engine, model).
#[derive(Debug, Default)]
pub struct Registry {
    engines: DashMap<String, Arc<Engine>>,
    learned: DashMap<(String, Option<Name>), Arc<Learned>>,
    /// By pool and backend.
    loads: DashMap<(Name, Name), Arc<Load>>,
}

/// What was learned of a model on an engine.
#[derive(Debug)]
pub struct Learned {
    /// Time to the first token, or to the answer where none is streamed.
    pub latency: PeakEwma,
    /// How long its tokens are.
    pub bytes_per_token: BytesPerToken,
}

impl Default for Learned {
    fn default() -> Self {
        // Nothing known counts as fast, so that a new backend is tried at once.
        Self { latency: PeakEwma::new(LATENCY_DECAY, 0.0, Moment::default()), bytes_per_token: BytesPerToken::new() }
    }
}

impl Registry {
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
        self.learned.entry((url.to_owned(), model.cloned())).or_default().clone()
    }

    /// What is under way for a backend of a pool.
    pub fn load(&self, pool: &Name, backend: &Name) -> Arc<Load> {
        self.loads.entry((pool.clone(), backend.clone())).or_default().clone()
    }

    /// Forgets the engines that are not among `urls`, so that changing policies does not grow it for ever.
    pub fn retain(&self, urls: &HashSet<&str>) {
        self.engines.retain(|url, _| urls.contains(url.as_str()));
        self.learned.retain(|(url, _), _| urls.contains(url.as_str()));
        self.loads.retain(|_, load| Arc::strong_count(load) > 1);
    }

    /// Every live engine.
    pub fn engines(&self) -> Vec<Arc<Engine>> {
        self.engines.iter().map(|entry| entry.value().clone()).collect()
    }
}

fn fresh(name: &Name, url: &str) -> Arc<Engine> {
    Arc::new(Engine::new(name.clone(), url.to_owned()))
}
