//! Compiles the routes of models: rules, pools, and the choice between pools.

use std::{sync::Arc, time::Duration};

use super::reader::Reader;
use crate::{
    ByLength, Model, Pool, Route, RouteChoice, Rule, Target, Tiers, Timeouts,
    condition::Names,
    implicit_models::{self, offered},
};
use signalbox_config::{
    At, Boundary, Field, Located, Pause, Predicted, Problem, Switch, Total, Word, caching,
    objectives::{Bound, Objective},
    raw,
};
use signalbox_types::Name;

/// The context in which routes are compiled.
pub(super) struct RouteContext<'a> {
    pub(super) pools: &'a [Pool],
    /// The names that conditions may use.
    pub(super) names: Names,
    /// Deadlines of routes that set none.
    pub(super) timeouts: Timeouts,
}

/// A route as written in the file: in the model itself, or in its list of routes.
pub(super) struct RawWay<'a> {
    at: At,
    name: Option<&'a Field<Word>>,
    to: Option<&'a Field<Word>>,
    complexity: Option<&'a raw::Complexity>,
    length: Option<&'a raw::Length>,
    fallback: Option<&'a [Field<Word>]>,
    spill: Option<&'a Field<Switch>>,
    hedge: Option<&'a Field<Switch>>,
    hold_back: Option<&'a Field<u64>>,
    timeouts: Option<&'a raw::RouteTimeouts>,
    bound: Option<&'a Bound>,
    objectives: Option<&'a Located<Vec<Located<Objective>>>>,
    queue: Option<&'a Field<Pause>>,
    cascade: Option<&'a raw::Cascade>,
    cache: Option<&'a caching::CacheUse>,
}

/// Reads the keys that a model and a route have in common.
macro_rules! way {
    ($at:expr, $name:expr, $raw:expr) => {
        Self {
            at: $at,
            name: $name,
            to: $raw.to.as_ref(),
            complexity: $raw.complexity.as_ref(),
            length: $raw.length.as_ref(),
            fallback: $raw.fallback.as_deref(),
            spill: $raw.spill.as_ref(),
            hedge: $raw.hedge.as_ref(),
            hold_back: $raw.hold_back.as_ref(),
            timeouts: $raw.timeouts.as_ref(),
            bound: $raw.bound.as_ref(),
            objectives: $raw.objectives.as_ref(),
            queue: $raw.queue.as_ref(),
            cascade: $raw.cascade.as_ref(),
            cache: $raw.cache.as_ref(),
        }
    };
}

impl<'a> RawWay<'a> {
    pub(super) fn of_model(at: At, raw: &'a raw::Model) -> Self {
        way!(at, None, raw)
    }

    fn of_route(Located { value: raw, at }: &'a Located<raw::Route>) -> Self {
        way!(*at, raw.name.as_ref(), raw)
    }

    /// Number of `to`, `complexity` and `length` that are set.
    pub(super) fn kinds(&self) -> usize {
        usize::from(self.to.is_some()) + usize::from(self.complexity.is_some()) + usize::from(self.length.is_some())
    }

    /// True if nothing else is set.
    pub(super) fn is_bare(&self) -> bool {
        self.fallback.is_none()
            && self.spill.is_none()
            && self.hedge.is_none()
            && self.hold_back.is_none()
            && self.timeouts.is_none()
            && self.bound.is_none()
            && self.objectives.is_none()
            && self.queue.is_none()
            && self.cascade.is_none()
            && self.cache.is_none()
    }
}

impl Reader<'_> {
    /// The rules of a model in its long form.
    pub(super) fn rules(
        &mut self,
        model: &Name,
        routes: &Located<Vec<Located<raw::Route>>>,
        given: &RouteContext<'_>,
    ) -> Option<Arc<Model>> {
        if routes.value.is_empty() {
            self.report(Problem::at(routes.at, "a list of routes with none in it").help("add one: `- { to: pool }`"));
            return None;
        }
        let many = routes.value.len() > 1;
        let mut rules: Vec<Rule> = Vec::with_capacity(routes.value.len());
        for (number, raw) in routes.value.iter().enumerate() {
            if number > 0 && routes.value[number - 1].value.when.is_none() {
                self.report(
                    Problem::at(raw.at, "never reached: the route before it has no condition")
                        .help("give that one a `when`, or put it last"),
                );
            }
            let name = usual_name(model, number, many);
            let way = RawWay::of_route(raw);
            match way.kinds() {
                1 => {
                    let when = raw.value.when.as_ref().and_then(|when| self.condition(when, &given.names));
                    rules.extend(self.rule(name, &way, given).map(|rule| Rule { when, ..rule }));
                }
                0 => self.report(
                    Problem::at(raw.at, "a route without a target")
                        .help("give it `to: pool`, `complexity: { … }` or `length: { … }`"),
                ),
                _ => self.report(
                    Problem::at(raw.at, "a route with more than one target")
                        .help("keep one of `to`, `complexity` and `length`"),
                ),
            }
        }
        (!rules.is_empty()).then(|| Model { rules }.into())
    }

    /// One rule, called `name` unless it has its own name.
    pub(super) fn rule(&mut self, name: Name, raw: &RawWay<'_>, given: &RouteContext<'_>) -> Option<Rule> {
        let pools = given.pools;
        let name = self.word(raw.name).unwrap_or(name);
        if !self.route_names.insert(name.to_string()) {
            self.report(
                Problem::at(raw.name.map_or(raw.at, Field::at), format!("two routes called `{name}`"))
                    .help("give each its own `name`: headers, metrics and learned values use it"),
            );
        }
        let fallback = self.targets(raw.fallback.unwrap_or_default(), &[], pools);
        let Switch(spill) = self.or(raw.spill, Switch(true));
        let hedge = self.optional(raw.hedge).map(|Switch(hedge)| hedge);
        let pattern = Route {
            name: name.clone(),
            targets: Vec::new(),
            spill,
            hedge,
            hold_back: self.optional(raw.hold_back),
            timeouts: self.route_timeouts(raw.timeouts, given.timeouts),
            bound: self.bound(raw.bound),
            objectives: self.objectives(raw.objectives),
            queue: self.wait(raw.queue),
            cascade: None,
            tiers: Arc::default(),
            cache: self.cache_use(raw.cache),
            only: None,
            biased: None,
        };
        let cascade = self.cascade(raw.cascade, pools, pattern.timeouts);
        let route = |targets| Route { targets, ..pattern.clone() };
        let way = if let Some(to) = raw.to {
            let mut targets = self.targets(std::slice::from_ref(to), &fallback, pools);
            targets.extend(fallback);
            let mut routes = [route(targets)];
            self.attach_cascade(&mut routes, false, raw.cascade, cascade);
            let [route] = routes;
            RouteChoice::Pools(route.into())
        } else if let Some(complexity) = raw.complexity {
            let tiers = self.targets(&complexity.tiers.value, &fallback, pools);
            let aim = self.aim(complexity)?;
            self.prices(complexity, &aim, &tiers, pools);
            let routes =
                (0..tiers.len()).map(|tier| by_distance(&tiers, tier).chain(fallback.iter().cloned()).collect());
            let standing: Arc<[Target]> = tiers.clone().into();
            let tiered = |targets| Route { tiers: standing.clone(), ..route(targets) };
            let mut routes: Vec<_> = routes.map(tiered).collect();
            self.attach_cascade(&mut routes, true, raw.cascade, cascade);
            RouteChoice::Tiers(Tiers { aim, routes: routes.into_iter().map(Arc::new).collect() }.into())
        } else {
            let length = raw.length?;
            let Boundary(boundary) = self.or(length.boundary.as_ref(), Boundary(None));
            let pair = self.targets([&length.short, &length.long], &fallback, pools);
            let [short, long] = &pair[..] else { return None };
            let order =
                |first: &Target, second: &Target| [first, second].into_iter().chain(&fallback).cloned().collect();
            let mut routes = [route(order(short, long)), route(order(long, short))];
            self.attach_cascade(&mut routes, false, raw.cascade, cascade);
            RouteChoice::Length(ByLength { boundary, routes: routes.map(Arc::new) }.into())
        };
        way.routes().iter().all(|route| !route.targets.is_empty()).then_some(Rule { name, when: None, way })
    }

    fn bound(&mut self, raw: Option<&Bound>) -> Option<Duration> {
        self.optional(raw.map(|raw| &raw.ttft))
    }

    fn wait(&mut self, raw: Option<&Field<Pause>>) -> Option<Duration> {
        self.optional(raw).map(|Pause(wait)| wait)
    }

    fn route_timeouts(&mut self, raw: Option<&raw::RouteTimeouts>, top: Timeouts) -> Timeouts {
        let Some(raw) = raw else { return top };
        let Total(total) = self.or(raw.total.as_ref(), Total(top.total));
        let Predicted(first_token) = self.or(raw.first_token.as_ref(), Predicted(top.first_token));
        let idle = self.or(raw.idle.as_ref(), top.idle);
        let content = self.or(raw.content.as_ref(), top.content);
        Timeouts { connect: top.connect, first_token, idle, content, total }
    }

    /// The targets for the pools `called`, without duplicates and without the `others` of the same route.
    fn targets<'f>(
        &mut self,
        called: impl IntoIterator<Item = &'f Field<Word>>,
        others: &[Target],
        pools: &[Pool],
    ) -> Vec<Target> {
        let mut targets = Vec::new();
        for field in called {
            let Some(pool) = self.pool_called(field, pools) else { continue };
            let target = Target::whole(pool);
            if targets.contains(&target) || others.contains(&target) {
                self.report(
                    Problem::at(field.at(), format!("pool `{}` is tried already", field.text())).help("name it once"),
                );
            } else if pools[pool].kinds().next().is_some() && !implicit_models::open(&pools[pool]) {
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
        targets
    }

    pub(super) fn pool_called(&mut self, field: &Field<Word>, pools: &[Pool]) -> Option<usize> {
        let count = self.problems.len();
        let pool = self.find("pool", field, pools.iter().map(|pool| &*pool.name));
        // If no pool name is similar, the name is probably that of a model.
        if let Some(problem) = self.problems.get_mut(count)
            && offered(pools).contains_key(field.text())
        {
            problem.help = Some(format!("`{0}` is a model: write `alias: {0}`", field.text()).into());
        }
        pool
    }
}

/// The default name of a model's route.
pub(super) fn usual_name(model: &str, number: usize, many: bool) -> Name {
    if many { format!("{model}.{}", number + 1).into() } else { model.into() }
}

/// All tiers: `first`, then the more capable ones in order, then the less capable ones, nearest first.
fn by_distance(tiers: &[Target], first: usize) -> impl Iterator<Item = Target> {
    (first..tiers.len()).chain((0..first).rev()).map(|at| tiers[at].clone())
}
