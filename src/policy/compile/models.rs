//! The names clients may ask for: routes, aliases and `prefix*` patterns, and what the pools offer besides.

use std::{collections::HashMap, time::Duration};

use indexmap::IndexMap;

use super::reader::{Reader, unknown};
use crate::{
    config::{Field, Located, Pause, Problem, Total, Word, nearest, raw},
    policy::{
        ModelTable, Pool, Route, Target, Timeouts,
        offered::{self, offered},
    },
    types::Name,
};

/// The names of the file and what they are, while aliases are followed.
struct Names<'a> {
    entries: &'a [(Field<String>, raw::Model)],
    routes: HashMap<&'a str, Route>,
    offered: &'a IndexMap<Name, Vec<Target>>,
    timeouts: Timeouts,
}

impl Reader<'_> {
    pub(super) fn models(&mut self, document: &raw::Document, pools: &[Pool], timeouts: Timeouts) -> ModelTable {
        let Some(raw) = &document.models else { return offered::table(pools, timeouts) };
        if raw.entries.is_empty() {
            self.report(
                Problem::at(raw.at, "an empty list of models")
                    .help("name one, such as `auto: { to: small }`; without `models`, `auto` goes to the first pool"),
            );
        }
        let offered = offered(pools);
        let mut names = Names { entries: &raw.entries, routes: HashMap::new(), offered: &offered, timeouts };
        for (key, model) in &raw.entries {
            let name = self.model_name(key);
            if let Some(route) = self.model(key, &name, model, pools, timeouts) {
                names.routes.insert(key.text(), route);
            }
        }
        let (mut exact, mut wildcards) = (IndexMap::new(), Vec::new());
        let mut looped = Vec::new();
        for (key, model) in &raw.entries {
            let route = match &model.alias {
                Some(alias) => self.follow(&names, key.text(), alias, pools, &mut looped),
                None => names.routes.get(key.text()).cloned(),
            };
            let Some(route) = route else { continue };
            match key.text().strip_suffix('*') {
                Some(prefix) => wildcards.push((prefix.into(), route)),
                None => drop(exact.insert(Name::from(key.text()), route)),
            }
        }
        for (name, targets) in &offered {
            let route = || Route::new(name.clone(), targets.clone(), timeouts);
            exact.entry(name.clone()).or_insert_with(route);
        }
        ModelTable::new(exact, wildcards)
    }

    fn model_name(&mut self, key: &Field<String>) -> Name {
        let name = self.name(key);
        if key.text().trim_end_matches('*').contains('*') || key.text().ends_with("**") {
            self.report(
                Problem::at(key.at(), "a `*` that is not at the end").help("a pattern is a prefix: write `claude-*`"),
            );
        }
        name
    }

    /// The route of an entry that is no alias.
    fn model(
        &mut self,
        key: &Field<String>,
        name: &Name,
        raw: &raw::Model,
        pools: &[Pool],
        timeouts: Timeouts,
    ) -> Option<Route> {
        let lone = raw.fallback.is_none() && raw.timeouts.is_none() && raw.bound.is_none() && raw.queue.is_none();
        match (&raw.to, &raw.alias, &raw.routes) {
            (Some(to), None, None) => Some(Route {
                name: name.clone(),
                targets: self.targets(to, raw.fallback.as_deref(), pools)?,
                timeouts: self.route_timeouts(raw.timeouts.as_ref(), timeouts),
                bound: self.bound(raw.bound.as_ref()),
                queue: self.wait(raw.queue.as_ref()),
            }),
            (None, None, Some(routes)) if lone => self.routes(name, routes, pools, timeouts),
            (None, Some(_), None) if lone => None,
            (None, None, None) => {
                self.report(
                    Problem::at(key.at(), format!("model `{}` goes nowhere", key.text()))
                        .help("give it `to: pool`, `alias: model` or `routes: […]`"),
                );
                None
            }
            (None, Some(alias), None) => {
                self.report(
                    Problem::at(alias.at(), "an alias with settings of its own")
                        .help("an alias takes everything from the model it stands for: use `to`, or remove the rest"),
                );
                None
            }
            (None, None, Some(routes)) => {
                self.report(
                    Problem::at(routes.at, "settings beside `routes`")
                        .help("put `fallback`, `timeouts`, `bound` and `queue` into the route"),
                );
                None
            }
            _ => {
                self.report(
                    Problem::at(key.at(), format!("model `{}` goes more than one way", key.text()))
                        .help("keep one of `to`, `alias` and `routes`"),
                );
                None
            }
        }
    }

    fn routes(
        &mut self,
        model: &Name,
        routes: &Located<Vec<Located<raw::Route>>>,
        pools: &[Pool],
        timeouts: Timeouts,
    ) -> Option<Route> {
        let Some((first, rest)) = routes.value.split_first() else {
            self.report(Problem::at(routes.at, "a list of routes with none in it").help("add one: `- { to: pool }`"));
            return None;
        };
        if let Some(second) = rest.first() {
            self.report(
                Problem::at(second.at, "never reached: the route before it has no condition")
                    .help("keep one route; conditions (`when`) are not supported yet by this version"),
            );
        }
        let raw = &first.value;
        let name = self.word(raw.name.as_ref()).unwrap_or_else(|| model.clone());
        let timeouts = self.route_timeouts(raw.timeouts.as_ref(), timeouts);
        let (bound, queue) = (self.bound(raw.bound.as_ref()), self.wait(raw.queue.as_ref()));
        Some(Route { name, targets: self.targets(&raw.to, raw.fallback.as_deref(), pools)?, timeouts, bound, queue })
    }

    fn bound(&mut self, raw: Option<&raw::Bound>) -> Option<Duration> {
        self.optional(raw.map(|raw| &raw.ttft))
    }

    fn wait(&mut self, raw: Option<&Field<Pause>>) -> Option<Duration> {
        self.optional(raw).map(|Pause(wait)| wait)
    }

    fn route_timeouts(&mut self, raw: Option<&raw::RouteTimeouts>, top: Timeouts) -> Timeouts {
        let Some(raw) = raw else { return top };
        let Total(total) = self.or(raw.total.as_ref(), Total(top.total));
        Timeouts {
            connect: top.connect,
            first_token: self.or(raw.first_token.as_ref(), top.first_token),
            idle: self.or(raw.idle.as_ref(), top.idle),
            total,
        }
    }

    fn targets(&mut self, to: &Field<Word>, fallback: Option<&[Field<Word>]>, pools: &[Pool]) -> Option<Vec<Target>> {
        let mut targets = Vec::new();
        for field in std::iter::once(to).chain(fallback.unwrap_or_default()) {
            let Some(pool) = self.pool_called(field, pools) else { continue };
            let target = offered::whole(pool);
            if targets.contains(&target) {
                self.report(
                    Problem::at(field.at(), format!("pool `{}` is tried already", field.text())).help("name it once"),
                );
            } else if !pools[pool].backends.is_empty() && !offered::open(&pools[pool]) {
                self.report(
                    Problem::at(
                        field.at(),
                        format!("every backend of pool `{}` has a name of its own (`as`)", field.text()),
                    )
                    .help(
                        "such backends are reached under that name only: ask for it, or give the pool another backend",
                    ),
                );
            }
            targets.push(target);
        }
        (!targets.is_empty()).then_some(targets)
    }

    fn pool_called(&mut self, field: &Field<Word>, pools: &[Pool]) -> Option<usize> {
        let count = self.problems.len();
        let pool = self.find("pool", field, pools.iter().map(|pool| &*pool.name));
        // Where nothing is near, the likeliest slip is a model's name.
        if let Some(problem) = self.problems.get_mut(count)
            && offered(pools).contains_key(field.text())
        {
            problem.help = Some(format!("`{0}` is a model: write `alias: {0}`", field.text()).into());
        }
        pool
    }

    /// The route at the end of the aliases that begin with `start`.
    fn follow(
        &mut self,
        names: &Names<'_>,
        start: &str,
        alias: &Field<Word>,
        pools: &[Pool],
        looped: &mut Vec<String>,
    ) -> Option<Route> {
        let mut path = vec![start.to_owned()];
        let mut alias = alias;
        loop {
            let Word(next) = self.config.read(alias).map_err(|problem| self.report(problem)).ok()?;
            if let Some(from) = path.iter().position(|name| *name == next) {
                if !looped.contains(&next) {
                    looped.extend_from_slice(&path[from..]);
                    let shown = path[from..].iter().chain([&next]).map(|name| format!("`{name}`")).collect::<Vec<_>>();
                    self.report(
                        Problem::at(alias.at(), format!("aliases in a circle: {}", shown.join(" → ")))
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
                let name = Name::from(&*next);
                return found.map(|targets| Route::new(name, targets.clone(), names.timeouts));
            };
            match &model.alias {
                Some(further) => alias = further,
                None => return names.routes.get(key).cloned(),
            }
            path.push(key.to_owned());
        }
    }
}

impl<'a> Names<'a> {
    /// The entry that a request for `name` would find: by the name itself; where no pool offers it, by the longest prefix.
    fn entry(&self, name: &str) -> Option<(&'a str, &'a raw::Model)> {
        let entries = || self.entries.iter().map(|(key, model)| (key.text(), model));
        let pattern = || {
            let matches = |key: &str| key.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix));
            entries().filter(|(key, _)| matches(key)).max_by_key(|(key, _)| key.len())
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
