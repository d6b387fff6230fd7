//! Backends that stand for the models that an engine lists: the policy with the models of the moment.

use std::collections::{HashMap, HashSet};

use super::{
    Backend, Labels, Policy, Target,
    implicit_models::{free, offered, plain},
};
use signalbox_types::Name;

/// The most models of one engine that become backends.
const MOST_MODELS: usize = 256;
/// The most models of an engine's list that are read.
pub const MOST_LISTED: usize = 1_000;

/// A model that an engine lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedModel {
    /// The model's name in the list.
    pub id: Name,
    /// True for a `LoRA` adapter.
    pub is_adapter: bool,
}

impl Policy {
    /// True if some of its backends stand for the models that an engine lists.
    pub fn follows_models(&self) -> bool {
        self.pools.iter().flat_map(|pool| &pool.backends).any(|backend| backend.follows.is_some())
    }

    /// The policy with a backend for each listed model in place of those that follow their engines' lists. `listed`
    /// returns the models of the engine at an index. The names of these models can be requested, as far as the policy
    /// itself leaves them open: an engine must not draw requests by listing names that lead elsewhere. A configured
    /// name and the model of a backend keep their routes, and so does a pattern of names, unless the `serves` of the
    /// backend is more specific.
    #[must_use]
    pub fn with_listed_models(&self, listed: impl Fn(usize) -> Vec<ListedModel>) -> Self {
        let mut policy = self.clone();
        let mut labels = HashMap::clone(&self.labels.all());
        let all = self.pools.iter().flat_map(|pool| &pool.backends);
        let mut names: HashSet<Name> = all.map(|backend| backend.name.clone()).collect();
        let fixed = offered(&self.pools);
        // Pool and name of the models that can be requested.
        let mut open: HashSet<(usize, Name)> = HashSet::new();
        for (at, pool) in policy.pools.iter_mut().enumerate() {
            let same = |it: &Backend| (it.engine, it.serves.clone(), it.audience.clone(), it.model.clone());
            let mut known: HashSet<_> = HashSet::new();
            let mut backends: Vec<Backend> = Vec::with_capacity(pool.backends.len());
            for backend in std::mem::take(&mut pool.backends) {
                let Some(glob) = &backend.follows else {
                    known.insert(same(&backend));
                    backends.push(backend);
                    continue;
                };
                let models = listed(backend.engine).into_iter().filter(|model| glob.matches(&model.id));
                for ListedModel { id, is_adapter } in models.take(MOST_MODELS) {
                    let pattern = policy.models.pattern_of(&id);
                    if pattern.is_none_or(|pattern| glob.precision() > pattern.precision()) {
                        open.insert((at, id.clone()));
                    }
                    let audience = backend.audience.clone();
                    if !known.insert((backend.engine, backend.serves.clone(), audience, Some(id.clone()))) {
                        continue;
                    }
                    let name = free(&format!("{}/{id}", backend.name), |name| names.contains(name));
                    names.insert(name.clone());
                    if let Some(label) = labels.get(&backend.name) {
                        labels.insert(name.clone(), format!("{label}/{id}").into());
                    }
                    backends.push(Backend {
                        name,
                        model: Some(id),
                        adapter: is_adapter,
                        follows: None,
                        ..backend.clone()
                    });
                }
            }
            pool.backends = backends;
        }
        policy.labels = Labels::from(labels);
        for (name, targets) in offered(&policy.pools) {
            let is_open = |target: &Target| open.contains(&(target.pool, name.clone()));
            let targets = match fixed.get(&name) {
                Some(targets) => targets.clone(),
                None => targets.into_iter().filter(is_open).collect(),
            };
            if !targets.is_empty() {
                policy.models.add(&name, || plain(name.clone(), targets, policy.timeouts));
            }
        }
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;

    fn listed(names: &[&str]) -> Vec<ListedModel> {
        names.iter().map(|name| ListedModel { id: (*name).into(), is_adapter: name.contains("lora") }).collect()
    }

    fn names(policy: &Policy) -> Vec<&str> {
        policy.pools.iter().flat_map(|pool| &pool.backends).map(|backend| &*backend.name).collect()
    }

    #[test]
    fn models_become_backends_and_can_be_requested() {
        let text = "engines: { a: { url: http://a/v1 }, b: { url: http://b/v1 } }\n\
            pools:\n  qwen: { serves: \"qwen-*\", backends: [{ engine: a }, { engine: b }, { engine: b, model: fixed }] }\n  \
            any: { backends: [{ engine: b, serves: \"*\" }, http://c/v1] }\n\
            models: { fast: { to: qwen } }\n";
        let base = compile(&text.parse().unwrap()).unwrap();
        assert!(base.follows_models());
        let on = |engine: usize| match engine {
            0 => listed(&["qwen-7b", "qwen-lora", "llama"]),
            1 => listed(&["qwen-7b", "fixed"]),
            _ => Vec::new(),
        };
        let policy = base.with_listed_models(on);
        assert_eq!(
            names(&policy),
            ["a/qwen-7b", "a/qwen-lora", "b/qwen-7b", "b/fixed", "b-2/qwen-7b", "b-2/fixed", "c"]
        );
        assert!(policy.pools[0].backends[1].adapter && !policy.follows_models());
        let asked: Vec<_> = policy.models.names().map(|name| &**name).collect();
        assert_eq!(asked, ["fast", "fixed", "qwen-7b", "qwen-lora"]);
        let targets = &policy.models.get("qwen-7b").unwrap().first().unwrap().targets;
        assert_eq!(targets.iter().map(|target| target.pool).collect::<Vec<_>>(), [0, 1]);
        let callers = &policy.labels;
        assert_eq!(&**callers.shown(&"c".into()), "any-2");
        let routed = |name: &str| {
            let targets = &policy.models.get(name).unwrap().first().unwrap().targets;
            targets.iter().map(|target| target.pool).collect::<Vec<_>>()
        };
        assert_eq!(routed("fixed"), [0], "a pool that lists it takes nothing from the pool that has it");
        let none = base.with_listed_models(|_| Vec::new());
        assert_eq!(names(&none), ["b/fixed", "c"]);
        assert!(none.models.get("qwen-7b").is_none() && none.models.get("fast").is_some());
    }

    #[test]
    fn a_listed_name_takes_no_requests_from_a_pattern() {
        let text = "pools:\n  premium: { model: opus, backends: [http://a/v1] }\n  \
            any: { serves: \"*\", backends: [http://b/v1] }\n  sonnets: { serves: \"claude-son*\", backends: [http://c/v1] }\n\
            models: { \"claude-*\": { to: premium } }\n";
        let base = compile(&text.parse().unwrap()).unwrap();
        let policy = base.with_listed_models(|engine| match engine {
            0 => Vec::new(),
            _ => listed(&["claude-haiku", "claude-sonnet", "opus", "qwen"]),
        });
        let asked: Vec<_> = policy.models.names().map(|name| &**name).collect();
        assert_eq!(asked, ["opus", "claude-sonnet", "qwen"]);
        for (name, pools) in [("claude-haiku", 0), ("opus", 0), ("claude-sonnet", 2), ("qwen", 1)] {
            let targets = &policy.models.get(name).unwrap().first().unwrap().targets;
            assert_eq!(targets.iter().map(|target| target.pool).collect::<Vec<_>>(), [pools], "{name}");
        }
    }
}
