//! Compiles the names that clients may request: models, aliases, patterns, and the models that pools offer.

use std::{collections::HashMap, sync::Arc};

use indexmap::IndexMap;

use super::{
    reader::{Reader, unknown},
    routes::{RawWay, RouteContext, usual_name},
};
use crate::{
    Model, ModelGlob, ModelTable, Pool, Target, Timeouts,
    implicit_models::{self, offered},
};
use signalbox_config::{Field, Problem, Word, nearest, raw};
use signalbox_types::Name;

/// The names of the file and their models, for resolving aliases.
struct Names<'a> {
    entries: &'a [(Field<String>, raw::Model)],
    models: HashMap<&'a str, Arc<Model>>,
    offered: &'a IndexMap<Name, Vec<Target>>,
    timeouts: Timeouts,
}

impl Reader<'_> {
    pub(super) fn models(&mut self, document: &raw::Document, given: &RouteContext<'_>) -> ModelTable {
        let &RouteContext { pools, timeouts, .. } = given;
        let Some(raw) = &document.models else { return implicit_models::table(pools, timeouts) };
        if raw.entries.is_empty() {
            self.report(
                Problem::at(raw.at, "an empty list of models")
                    .help("name one, such as `auto: { to: small }`; without `models`, `auto` goes to the first pool"),
            );
        }
        let offered = offered(pools);
        let mut names = Names { entries: &raw.entries, models: HashMap::new(), offered: &offered, timeouts };
        let mut refused = Vec::new();
        for (key, model) in &raw.entries {
            let name = self.name(key);
            if let Some(reason) = &model.refuse {
                refused.extend(self.refusal(key, reason, model));
            } else if let Some(model) = self.model(key, &name, model, given) {
                names.models.insert(key.text(), model);
            }
        }
        let (mut exact, mut wildcards) = (IndexMap::new(), Vec::new());
        let mut cyclic = Vec::new();
        for (key, model) in &raw.entries {
            let model = match &model.alias {
                Some(alias) => self.resolve_alias(&names, key.text(), alias, pools, &mut cyclic),
                None => names.models.get(key.text()).cloned(),
            };
            let Some(model) = model else { continue };
            let glob = ModelGlob(key.text().into());
            if glob.is_pattern() {
                wildcards.push((glob, model));
            } else {
                exact.insert(glob.0, model);
            }
        }
        for (name, targets) in &offered {
            let plain = || implicit_models::plain(name.clone(), targets.clone(), timeouts);
            exact.entry(name.clone()).or_insert_with(plain);
        }
        ModelTable::new(exact, wildcards).refusing(refused)
    }

    /// A name that is refused, with the reason.
    fn refusal(&mut self, key: &Field<String>, reason: &Field<String>, raw: &raw::Model) -> Option<(ModelGlob, Name)> {
        let way = RawWay::of_model(key.at(), raw);
        if way.kinds() > 0 || !way.is_bare() || raw.alias.is_some() || raw.routes.is_some() || raw.strip.is_some() {
            self.report(
                Problem::at(reason.at(), format!("model `{}` is refused and goes somewhere", key.text()))
                    .help("keep `refuse` alone, or remove it"),
            );
        }
        let text = self.read(reason)?;
        if text.trim().is_empty() {
            self.report(
                Problem::at(reason.at(), "a refusal without a reason")
                    .help("write what callers are to do, such as `refuse: \"use gpt-4o-mini\"`"),
            );
        }
        Some((ModelGlob(key.text().into()), text.into()))
    }

    /// The names of the file's routes, which conditions may refer to.
    pub(super) fn names_of_routes(&self, document: &raw::Document) -> Vec<Name> {
        let mut names = Vec::new();
        for (key, model) in document.models.iter().flat_map(|models| &models.entries) {
            let routes = model.routes.as_ref().map(|routes| &routes.value[..]);
            if routes.is_none() && model.alias.is_none() {
                names.push(key.text().into());
            }
            for (number, route) in routes.unwrap_or_default().iter().enumerate() {
                let own = route.value.name.as_ref().and_then(|name| self.config.read(name).ok());
                let many = routes.is_some_and(|routes| routes.len() > 1);
                names.push(own.map_or_else(|| usual_name(key.text(), number, many), |Word(own)| own.into()));
            }
        }
        names
    }

    /// The model of an entry that is not an alias.
    fn model(
        &mut self,
        key: &Field<String>,
        name: &Name,
        raw: &raw::Model,
        given: &RouteContext<'_>,
    ) -> Option<Arc<Model>> {
        let way = RawWay::of_model(key.at(), raw);
        match (way.kinds(), &raw.alias, &raw.routes) {
            (1, None, None) => {
                let rule = self.rule(name.clone(), &way, given)?;
                Some(Model { rules: vec![rule] }.into())
            }
            (0, None, Some(routes)) if way.is_bare() => self.rules(name, routes, given),
            (0, Some(_), None) if way.is_bare() => None,
            (0, None, None) => {
                self.report(
                    Problem::at(key.at(), format!("model `{}` goes nowhere", key.text()))
                        .help("give it `to: pool`, `alias: model` or `routes: […]`"),
                );
                None
            }
            (0, Some(alias), None) => {
                self.report(
                    Problem::at(alias.at(), "an alias with settings of its own")
                        .help("an alias takes everything from the model it stands for: use `to`, or remove the rest"),
                );
                None
            }
            (0, None, Some(routes)) => {
                self.report(Problem::at(routes.at, "settings beside `routes`").help(
                    "put `fallback`, `spill`, `hedge`, `hold_back`, `timeouts`, `bound`, `objectives`, `queue` and `cascade` into the \
                     route",
                ));
                None
            }
            _ => {
                self.report(
                    Problem::at(key.at(), format!("model `{}` goes more than one way", key.text()))
                        .help("keep one of `to`, `complexity`, `length`, `alias` and `routes`"),
                );
                None
            }
        }
    }

    /// Resolves the chain of aliases that begins with `start`.
    fn resolve_alias(
        &mut self,
        names: &Names<'_>,
        start: &str,
        alias: &Field<Word>,
        pools: &[Pool],
        cyclic: &mut Vec<String>,
    ) -> Option<Arc<Model>> {
        let mut path = vec![start.to_owned()];
        let mut alias = alias;
        loop {
            let Word(next) = self.config.read(alias).map_err(|problem| self.report(problem)).ok()?;
            if let Some(from) = path.iter().position(|name| *name == next) {
                if !cyclic.contains(&next) {
                    cyclic.extend_from_slice(&path[from..]);
                    let shown = path[from..].iter().chain([&next]).map(|name| format!("`{name}`")).collect::<Vec<_>>();
                    self.report(
                        Problem::at(alias.at(), format!("aliases form a cycle: {}", shown.join(" → ")))
                            .help("let one of them go `to` a pool"),
                    );
                }
                return None;
            }
            let Some((key, model)) = names.entry(&next) else {
                let found = names.offered.get(&*next);
                if found.is_none() {
                    self.report(names.unknown(&next, alias, pools));
                }
                return found.map(|targets| implicit_models::plain(next.into(), targets.clone(), names.timeouts));
            };
            let Some(further) = &model.alias else {
                if model.refuse.is_some() {
                    self.report(
                        Problem::at(alias.at(), format!("an alias of the refused model `{key}`"))
                            .help("give it the same `refuse` in place of `alias`"),
                    );
                }
                return names.models.get(key).cloned();
            };
            alias = further;
            path.push(key.to_owned());
        }
    }
}

impl<'a> Names<'a> {
    /// The entry for a request for `name`: the name itself, or the most precise pattern if no pool offers the name.
    fn entry(&self, name: &str) -> Option<(&'a str, &'a raw::Model)> {
        let entries = || self.entries.iter().map(|(key, model)| (key.text(), model));
        let pattern = || {
            let globs =
                entries().map(|entry| (ModelGlob(entry.0.into()), entry)).filter(|(glob, _)| glob.matches(name));
            globs.max_by_key(|(glob, _)| glob.precision()).map(|(_, entry)| entry)
        };
        let exact = entries().find(|(key, _)| *key == name);
        if exact.is_some() || self.offered.contains_key(name) { exact } else { pattern() }
    }

    fn unknown(&self, name: &str, alias: &Field<Word>, pools: &[Pool]) -> Problem {
        let known = self.entries.iter().map(|(key, _)| key.text()).chain(self.offered.keys().map(|name| &**name));
        let problem = unknown("model", alias.text(), alias.at(), nearest(name, known));
        if pools.iter().any(|pool| &*pool.name == name) {
            return problem.help(format!("`{0}` is a pool: write `to: {0}`", alias.text()));
        }
        problem
    }
}
