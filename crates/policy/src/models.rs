//! The names that clients may request, and the routes behind them.

use std::{sync::Arc, time::Duration};

use indexmap::IndexMap;

use super::{CacheUse, ModelGlob, Objectives, Timeouts, condition::Condition};
use signalbox_types::{Aim, Checks, Name};

/// The longest name for which similar names are searched, in bytes.
const LONGEST_MISTAKE: usize = 256;
/// The upper limit of the time to the first token from which the latest escalation is derived.
const MAX_ESCALATION_TTFT: Duration = Duration::from_mins(2);

/// A model that clients may request, with its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// At least one; the first rule whose condition is true and whose pools can take the prompt is used.
    pub rules: Vec<Rule>,
}

/// A rule: a condition and the routes it leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name in headers and metrics.
    pub name: Name,
    /// The condition; `None` for all requests that no earlier rule took.
    pub when: Option<Condition>,
    /// The choice of the route.
    pub way: RouteChoice,
}

/// The choice between routes.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteChoice {
    /// There is only one.
    Pools(Arc<Route>),
    /// By the estimated complexity of the prompt.
    Tiers(Arc<Tiers>),
    /// By the length of the prompt.
    Length(Arc<ByLength>),
}

/// Pools from the cheapest to the most capable.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiers {
    /// The objective that decides between them.
    pub aim: Aim,
    /// For each tier the route that begins with it; at least two.
    pub routes: Vec<Arc<Route>>,
}

/// Two pools, chosen by the length of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct ByLength {
    /// The number of tokens from which a prompt is long; `None` if it is learned.
    pub boundary: Option<u64>,
    /// The routes for short and for long prompts.
    pub routes: [Arc<Route>; 2],
}

/// A route: pools in the order in which they are tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The route's name in headers and metrics.
    pub name: Name,
    /// At least one pool, the preferred one first.
    pub targets: Vec<Target>,
    /// True if pools after the first also take requests that it has no capacity for or would serve late; false if they
    /// only take over after failures.
    pub spill: bool,
    /// The route's deadlines.
    pub timeouts: Timeouts,
    /// The limit of the time to the first token for each single request.
    pub bound: Option<Duration>,
    /// Its service-level objectives.
    pub objectives: Objectives,
    /// True if a second backend may be tried in parallel when the first is late; `None`: if the route's tokens cost
    /// nothing.
    pub hedge: Option<bool>,
    /// Tokens of a stream that are held back, so that a stream that breaks within them can be restarted.
    pub hold_back: Option<u64>,
    /// The longest that a request waits for capacity; `None` for the default in [`Limits`](super::Limits).
    pub queue: Option<Duration>,
    /// The escalation to a larger pool if an answer is unusable.
    pub cascade: Option<Arc<Cascade>>,
    /// The tiers that it belongs to, from the cheapest to the best; empty if it is not a tier.
    pub tiers: Arc<[Target]>,
    /// The caches that it uses.
    pub cache: CacheUse,
    /// The identity of the only model that may serve a request, if what it says or asks for means something else to others:
    /// token ids, embeddings.
    pub only: Option<Name>,
    /// The identity of the model whose vocabulary a request's biases of tokens are of, if it has any: the others get it
    /// without them.
    pub biased: Option<Name>,
}

/// The escalation to a larger pool if an answer fails a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Cascade {
    /// The larger pool.
    pub to: Target,
    /// The checks that an answer has to pass.
    pub checks: Checks,
    /// Tokens of a stream that are held back for the checks.
    pub hold: u64,
    /// The latest escalation, as time from the request's arrival; `None` for
    /// [half of what the request has](Route::last_escalation).
    pub within: Option<Duration>,
    /// The mean logprob below which an answer fails, in nats per token; unused if logprobs are not checked.
    pub min_logprob: f64,
}

impl Model {
    /// A model whose requests all take the same route.
    pub fn plain(route: Route) -> Self {
        Self { rules: vec![Rule { name: route.name.clone(), when: None, way: RouteChoice::Pools(route.into()) }] }
    }

    /// Every route that its requests may take, in the order of the rules.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.rules.iter().flat_map(|rule| rule.way.routes())
    }

    /// The first of its routes.
    pub fn first(&self) -> Option<&Arc<Route>> {
        self.routes().next()
    }
}

impl RouteChoice {
    /// Every route that it may lead to.
    pub fn routes(&self) -> &[Arc<Route>] {
        match self {
            Self::Pools(route) => std::slice::from_ref(route),
            Self::Tiers(tiers) => &tiers.routes,
            Self::Length(by) => &by.routes,
        }
    }
}

impl Route {
    /// A route to `targets` with defaults for everything else.
    pub fn new(name: Name, targets: Vec<Target>, timeouts: Timeouts) -> Self {
        Self {
            name,
            targets,
            spill: true,
            timeouts,
            bound: None,
            objectives: Objectives::default(),
            hedge: None,
            hold_back: None,
            queue: None,
            cascade: None,
            tiers: Arc::default(),
            cache: CacheUse::default(),
            only: None,
            biased: None,
        }
    }

    /// The targets whose cached answers are acceptable for a request on this route: its first target, and those known
    /// to be better. Of pools that are merely fallbacks for one another it is not known which is better.
    pub fn acceptable(&self) -> impl Iterator<Item = &Target> {
        let first = self.targets.first();
        let own = self.tiers.iter().position(|tier| Some(tier) == first);
        let better = own.map_or(&[][..], |own| &self.tiers[own + 1..]);
        first.into_iter().chain(better).chain(self.cascade.as_ref().map(|cascade| &cascade.to))
    }

    /// The same route, with every target changed by `change`.
    #[must_use]
    pub fn retargeted(&self, change: impl Fn(&mut Target)) -> Self {
        let mut route = self.clone();
        route.targets.iter_mut().for_each(&change);
        if !route.tiers.is_empty() {
            let mut tiers = route.tiers.to_vec();
            tiers.iter_mut().for_each(&change);
            route.tiers = tiers.into();
        }
        if let Some(cascade) = &mut route.cascade {
            let mut own = Cascade::clone(cascade);
            change(&mut own.to);
            *cascade = own.into();
        }
        route
    }

    /// The time from a request's arrival after which `cascade` no longer escalates. If the policy sets none, it is half
    /// of the least of the route's `bound` (for streams only: the first token of an unstreamed answer is not visible),
    /// its first-token timeout, and its total timeout.
    pub fn last_escalation(&self, cascade: &Cascade, streamed: bool) -> Duration {
        let bound = self.bound.filter(|_| streamed);
        let limits = [bound, self.timeouts.first_token, self.timeouts.total];
        let least = limits.into_iter().flatten().fold(MAX_ESCALATION_TTFT, Duration::min);
        cascade.within.unwrap_or(least / 2)
    }
}

/// A pool, or those of its backends that serve one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Index of the pool in [`Policy::pools`](super::Policy::pools).
    pub pool: usize,
    /// Only backends that [serve](super::Backend::serves) this name; `None`: only those without such a name.
    pub serves: Option<Name>,
    /// Only backends whose upstream model has this name.
    pub model: Option<Name>,
    /// The caller's team, if it has provider accounts of its own.
    pub team: Option<Name>,
    /// Only backends of this [provider account](signalbox_types::EngineId::account), where an object of the request is
    /// stored.
    pub account: Option<Name>,
}

impl Target {
    /// The pool with this index, without backends that have their own name.
    pub const fn whole(pool: usize) -> Self {
        Self { pool, serves: None, model: None, team: None, account: None }
    }
}

/// Every model that clients may request.
#[derive(Clone, Debug, Default)]
pub struct ModelTable {
    exact: IndexMap<Name, Arc<Model>>,
    /// Models by patterns of their names, the most precise one first.
    wildcards: Vec<(ModelGlob, Arc<Model>)>,
    /// Names that are refused, with the reasons; the most precise one first.
    refused: Vec<(ModelGlob, Name)>,
}

impl ModelTable {
    /// A table of exact names and of patterns.
    pub fn new(exact: IndexMap<Name, Arc<Model>>, mut wildcards: Vec<(ModelGlob, Arc<Model>)>) -> Self {
        wildcards.sort_by_key(|(glob, _)| std::cmp::Reverse(glob.precision()));
        Self { exact, wildcards, refused: Vec::new() }
    }

    /// The table in which requests for these names are refused, for the reasons given.
    #[must_use]
    pub fn refusing(mut self, mut refused: Vec<(ModelGlob, Name)>) -> Self {
        refused.sort_by_key(|(glob, _)| std::cmp::Reverse(glob.precision()));
        self.exact.retain(|name, _| refused.iter().all(|(glob, _)| glob.0 != *name));
        self.refused = refused;
        self
    }

    /// The reason why requests for this name are refused, if they are.
    pub fn refusal(&self, model: &str) -> Option<&Name> {
        if self.refused.is_empty() || self.exact.contains_key(model) {
            return None;
        }
        let (glob, reason) = self.refused.iter().find(|(glob, _)| glob.matches(model))?;
        let is_beaten = self.pattern_of(model).is_some_and(|other| other.precision() > glob.precision());
        (!is_beaten).then_some(reason)
    }

    /// Adds a model, unless the name is taken or refused.
    pub(super) fn add(&mut self, name: &Name, model: impl FnOnce() -> Arc<Model>) {
        if self.refusal(name).is_some() {
            return;
        }
        self.exact.entry(name.clone()).or_insert_with(model);
    }

    /// Puts `model` in the place of the exact name.
    pub(super) fn replace(&mut self, name: &str, model: Arc<Model>) {
        if let Some(place) = self.exact.get_mut(name) {
            *place = model;
        }
    }

    /// The model for the requested name: an exact match, otherwise the most precise pattern that matches.
    pub fn get(&self, model: &str) -> Option<&Arc<Model>> {
        let by_pattern = || self.wildcards.iter().find(|(glob, _)| glob.matches(model)).map(|(_, it)| it);
        self.exact.get(model).or_else(|| by_pattern().filter(|_| self.refusal(model).is_none()))
    }

    /// The most precise pattern that matches `model`.
    pub(super) fn pattern_of(&self, model: &str) -> Option<&ModelGlob> {
        self.wildcards.iter().map(|(glob, _)| glob).find(|glob| glob.matches(model))
    }

    /// The rules of all names; those of an aliased model are repeated.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let wildcards = self.wildcards.iter().map(|(_, model)| model);
        self.exact.values().chain(wildcards).flat_map(|model| &model.rules)
    }

    /// The names of the rules that lead to tiers, with their tiers.
    pub fn tiered(&self) -> impl Iterator<Item = (&Name, &Arc<Tiers>)> {
        self.rules().filter_map(|rule| match &rule.way {
            RouteChoice::Tiers(tiers) => Some((&rule.name, tiers)),
            RouteChoice::Pools(_) | RouteChoice::Length(_) => None,
        })
    }

    /// True if any model leads to the route `name`.
    pub fn has_route(&self, name: &str) -> bool {
        let wildcards = self.wildcards.iter().map(|(_, model)| model);
        self.exact.values().chain(wildcards).any(|model| model.routes().any(|route| *route.name == *name))
    }

    /// The exact names, in the order of the policy.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.exact.keys()
    }

    /// The patterns with their models, the most precise one first.
    pub fn patterns(&self) -> impl Iterator<Item = (&ModelGlob, &Arc<Model>)> {
        self.wildcards.iter().map(|(glob, model)| (glob, model))
    }

    /// The known name most similar to `model`, if one is similar enough.
    pub fn nearest(&self, model: &str) -> Option<&Name> {
        // The comparison takes time and memory proportional to the product of both lengths, and clients choose this
        // one.
        if model.len() > LONGEST_MISTAKE {
            return None;
        }
        self.exact
            .keys()
            .map(|name| (strsim::normalized_damerau_levenshtein(name, model), name))
            .filter(|(likeness, _)| *likeness >= 0.5)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, name)| name)
    }
}
