//! The names shown to callers in place of addresses.

use std::{collections::HashMap, sync::Arc};

use super::{Engine, Pool, implicit_models::free};
use signalbox_types::Name;

/// Names for callers. Engines and backends without a name in the policy are named after their address, which only
/// operators may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Arc<HashMap<Name, Name>>);

impl Labels {
    /// Labels for the engines from the index `named` on and for their backends: the pool's name and the backend's
    /// number in it.
    pub(super) fn new(engines: &[Engine], named: usize, pools: &[Pool]) -> Self {
        let mut taken: Vec<Name> = engines.iter().take(named).map(|engine| engine.name.clone()).collect();
        let mut labels = HashMap::new();
        for pool in pools {
            for (at, backend) in pool.backends.iter().enumerate().filter(|(_, backend)| backend.engine >= named) {
                let label = free(&format!("{}-{}", pool.name, at + 1), |name| taken.iter().any(|it| **it == *name));
                taken.push(label.clone());
                labels.insert(backend.name.clone(), label.clone());
                // An engine has the label of its first backend.
                labels.entry(engines[backend.engine].name.clone()).or_insert(label);
            }
        }
        Self(Arc::new(labels))
    }

    /// Shows `names` as they are: operators chose them.
    pub(super) fn reveal(&mut self, names: &[&Name]) {
        Arc::make_mut(&mut self.0).retain(|hidden, _| !names.contains(&hidden));
    }

    /// The name of a backend or an engine as callers may see it.
    pub fn shown<'a>(&'a self, name: &'a Name) -> &'a Name {
        self.0.get(name).unwrap_or(name)
    }

    /// Every hidden name with its label.
    pub fn all(&self) -> Arc<HashMap<Name, Name>> {
        self.0.clone()
    }
}

impl From<HashMap<Name, Name>> for Labels {
    fn from(labels: HashMap<Name, Name>) -> Self {
        Self(Arc::new(labels))
    }
}
