//! Models of an engine: those that it lists, and those that are loaded.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwapOption;

use signalbox_policy::{ListedModel, MOST_LISTED};
use signalbox_types::Name;

/// Models of an engine, as it reports them.
#[derive(Debug, Default)]
pub struct EngineModels {
    listed: ArcSwapOption<Vec<ListedModel>>,
    /// Models that it listed at its start, for engines whose list is not followed: for callers to see.
    names: ArcSwapOption<Vec<ListedModel>>,
    /// True once the engine's list was requested, whatever the answer.
    asked: AtomicBool,
    /// Models in memory; `None` for engines that load none on demand.
    loaded: ArcSwapOption<Vec<Name>>,
    /// True if `loaded` is known: a cheap test for every decision.
    loads: AtomicBool,
}

impl EngineModels {
    /// Models that the engine listed last; empty before the first list.
    pub fn listed(&self) -> Vec<ListedModel> {
        self.listed.load().as_deref().cloned().unwrap_or_default()
    }

    /// Models that it listed last, or at its start if its list is not followed.
    pub fn known(&self) -> Option<Arc<Vec<ListedModel>>> {
        self.listed.load_full().or_else(|| self.names.load_full())
    }

    /// Stores the models that an engine listed at its start, [`MOST_LISTED`] at most.
    pub fn set_names(&self, mut models: Vec<ListedModel>) {
        models.truncate(MOST_LISTED);
        self.names.store(Some(Arc::new(models)));
    }

    /// Stores a list of models, [`MOST_LISTED`] at most and each once; `None` if the engine gave none, which keeps the
    /// last one. Returns the models that were added and removed, or `None` if nothing changed.
    pub fn set_listed(&self, models: Option<Vec<ListedModel>>) -> Option<(Vec<Name>, Vec<Name>)> {
        self.asked.store(true, Relaxed);
        let mut models = models?;
        let mut seen = HashSet::new();
        models.retain(|model| seen.len() < MOST_LISTED && seen.insert(model.clone()));
        let before = self.listed();
        let without = |some: &[ListedModel], others: &[ListedModel]| {
            let others: HashSet<&ListedModel> = others.iter().collect();
            let other = |model: &&ListedModel| !others.contains(model);
            some.iter().filter(other).map(|model| model.id.clone()).collect::<Vec<_>>()
        };
        let (added, removed) = (without(&models, &before), without(&before, &models));
        self.listed.store(Some(Arc::new(models)));
        (!added.is_empty() || !removed.is_empty()).then_some((added, removed))
    }

    /// True once its list was requested, whatever the answer.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// Stores the models in memory, [`MOST_LISTED`] at most; `None` for engines that load none on demand.
    pub fn set_loaded(&self, mut models: Option<Vec<Name>>) {
        if let Some(models) = &mut models {
            models.truncate(MOST_LISTED);
        }
        self.loads.store(models.is_some(), Relaxed);
        self.loaded.store(models.map(Arc::new));
    }

    /// Records that a model has just been loaded. The next reading shows which others it replaced.
    pub(super) fn add_loaded(&self, model: &Name) {
        let loaded = self.loaded.load_full();
        if let Some(loaded) = loaded.filter(|loaded| !loaded.iter().any(|other| is_same(other, model))) {
            self.loaded.store(Some(Arc::new(loaded.iter().chain([model]).cloned().collect())));
        }
    }

    /// True if `model` is known not to be in memory, so that a request for it waits until it is loaded.
    pub(super) fn is_unloaded(&self, model: &str) -> bool {
        self.loads.load(Relaxed)
            && self.loaded.load().as_deref().is_some_and(|loaded| !loaded.iter().any(|other| is_same(other, model)))
    }

    /// Models in memory; `None` for engines that load none on demand.
    pub fn loaded(&self) -> Option<Arc<Vec<Name>>> {
        self.loaded.load_full()
    }
}

/// True if two names mean the same model: Ollama adds a tag where there is none.
fn is_same(one: &str, other: &str) -> bool {
    let untagged = |name: &'_ str| name.strip_suffix(":latest").map_or(name.len(), str::len);
    one[..untagged(one)] == other[..untagged(other)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<ListedModel> {
        names.iter().map(|name| ListedModel { id: (*name).into(), is_adapter: false }).collect()
    }

    #[test]
    fn a_failed_request_keeps_the_last_list() {
        let models = EngineModels::default();
        assert!(!models.is_asked() && models.set_listed(None).is_none() && models.is_asked());
        assert_eq!(models.set_listed(Some(listed(&["a", "b"]))), Some((vec!["a".into(), "b".into()], vec![])));
        assert!(models.set_listed(Some(listed(&["b", "a"]))).is_none() && models.set_listed(None).is_none());
        assert_eq!(models.set_listed(Some(listed(&["b", "c"]))), Some((vec!["c".into()], vec!["a".into()])));
        assert_eq!(models.listed().len(), 2);
    }

    #[test]
    fn of_a_list_without_end_the_first_thousand_count() {
        let models = EngineModels::default();
        let flood = |prefix: &str| {
            let model = |at: usize| ListedModel { id: format!("{prefix}{at}").into(), is_adapter: false };
            (0..200_000).map(|at| model(at / 2)).collect::<Vec<_>>()
        };
        let (added, removed) = models.set_listed(Some(flood("a"))).unwrap();
        assert_eq!((added.len(), removed.len(), models.listed().len()), (MOST_LISTED, 0, MOST_LISTED));
        let (added, removed) = models.set_listed(Some(flood("b"))).unwrap();
        assert_eq!((added.len(), removed.len()), (MOST_LISTED, MOST_LISTED));
        models.set_loaded(Some(flood("c").into_iter().map(|model| model.id).collect()));
        assert_eq!(models.loaded().unwrap().len(), MOST_LISTED);
    }

    #[test]
    fn a_model_is_unloaded_only_where_that_is_known() {
        let models = EngineModels::default();
        assert!(!models.is_unloaded("a"), "most engines load nothing on demand");
        models.set_loaded(Some(vec!["a:latest".into()]));
        assert!(!models.is_unloaded("a") && !models.is_unloaded("a:latest") && models.is_unloaded("a:7b"));
        models.add_loaded(&"b".into());
        assert!(!models.is_unloaded("b") && !models.is_unloaded("a"));
        models.set_loaded(None);
        assert!(!models.is_unloaded("c"));
    }
}
