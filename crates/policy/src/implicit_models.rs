//! The models that pools offer without configuration: their backends' models and adapters, and `auto` if no models are
//! configured.

use std::{collections::HashSet, sync::Arc};

use indexmap::IndexMap;

use super::{Backend, Engine, Model, ModelTable, Pool, Route, Target, Timeouts};
use signalbox_types::Name;

/// The name for any pool, in a policy without models.
pub(super) const AUTO: &str = "auto";

/// The upstream model names and the backends' own names (`as`), each with its pools in the order of the policy.
pub(super) fn offered(pools: &[Pool]) -> IndexMap<Name, Vec<Target>> {
    let mut names: IndexMap<Name, Vec<Target>> = IndexMap::new();
    for (pool, backend) in pools.iter().enumerate().flat_map(|(at, pool)| pool.kinds().map(move |it| (at, it))) {
        let (name, target) = match (&backend.serves, &backend.model) {
            (Some(name), _) => (name, Target { serves: Some(name.clone()), ..Target::whole(pool) }),
            (None, Some(name)) => (name, Target { model: Some(name.clone()), ..Target::whole(pool) }),
            (None, None) => continue,
        };
        let targets = names.entry(name.clone()).or_default();
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    names
}

/// True if a route to the pool as a whole has a backend.
pub(super) fn open(pool: &Pool) -> bool {
    pool.kinds().any(|backend| backend.serves.is_none())
}

/// The models of a policy without configured models: `auto`, and those that the pools offer.
pub(super) fn table(pools: &[Pool], timeouts: Timeouts) -> ModelTable {
    let mut models = IndexMap::new();
    let auto: Vec<_> =
        pools.iter().enumerate().filter(|(_, pool)| open(pool)).map(|(at, _)| Target::whole(at)).collect();
    if !auto.is_empty() {
        let name = Name::from(AUTO);
        models.insert(name.clone(), plain(name, auto, timeouts));
    }
    for (name, targets) in offered(pools) {
        models.entry(name.clone()).or_insert_with(|| plain(name, targets, timeouts));
    }
    ModelTable::new(models, Vec::new())
}

/// A model with `targets` and defaults for everything else.
pub(super) fn plain(name: Name, targets: Vec<Target>, timeouts: Timeouts) -> Arc<Model> {
    Model::plain(Route::new(name, targets, timeouts)).into()
}

/// Names every backend after its engine, with a suffix if the engine has several.
pub(super) fn name_backends(engines: &[Engine], pools: &mut [Pool]) {
    let mut uses = vec![0_usize; engines.len()];
    for backend in pools.iter().flat_map(|pool| &pool.backends) {
        uses[backend.engine] += 1;
    }
    let mut taken = HashSet::new();
    for backend in pools.iter_mut().flat_map(|pool| &mut pool.backends) {
        let engine = &engines[backend.engine].name;
        let wanted = match what(backend) {
            Some(what) if uses[backend.engine] > 1 => format!("{engine}/{what}"),
            _ => engine.to_string(),
        };
        backend.name = free(&wanted, |name| taken.contains(name));
        taken.insert(backend.name.clone());
    }
}

/// The name of the backend's model, for users.
fn what(backend: &Backend) -> Option<&Name> {
    backend.serves.as_ref().or(backend.model.as_ref()).or(backend.deployment.as_ref())
}

/// `wanted`, or `wanted-2` and so on if it is taken.
pub(super) fn free(wanted: &str, taken: impl Fn(&str) -> bool) -> Name {
    if !taken(wanted) {
        return wanted.into();
    }
    let mut number = 2_usize;
    loop {
        let name = format!("{wanted}-{number}");
        if !taken(&name) {
            return name.into();
        }
        number += 1;
    }
}
