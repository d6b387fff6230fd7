//! The names clients may ask for, and the pools behind each.

use std::{sync::Arc, time::Duration};

use indexmap::IndexMap;

use super::{CacheUse, Objectives, Timeouts, condition::Condition};
use crate::types::{Aim, Checks, Name};

/// Longest name that is taken for a mistyped one, in bytes.
const LONGEST_MISTAKE: usize = 256;
/// No first token is waited for longer before a larger pool is not worth asking.
const PATIENCE: Duration = Duration::from_mins(2);

/// A name that may be asked for, and the ways its requests go.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// At least one; the first whose condition holds, and whose pools can take the prompt, is used.
    pub rules: Vec<Rule>,
}

/// A way that requests go, and which ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name in headers and metrics.
    pub name: Name,
    /// The requests that go this way; `None` for all that come so far.
    pub when: Option<Condition>,
    /// Where they go.
    pub way: Way,
}

/// What decides among pools.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// Nothing: there is one order.
    Pools(Arc<Route>),
    /// How hard the prompt seems.
    Tiers(Arc<Tiers>),
    /// How long the prompt is.
    Length(Arc<ByLength>),
}

/// Pools from the cheapest to the most capable.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiers {
    /// What decides between them.
    pub aim: Aim,
    /// For each tier the route that begins with it; at least two.
    pub routes: Vec<Arc<Route>>,
}

/// Two pools, by the length of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct ByLength {
    /// The tokens from which on a prompt is long; `None` where that is learned.
    pub boundary: Option<u64>,
    /// Where short prompts go, and where long ones do.
    pub routes: [Arc<Route>; 2],
}

/// Where a request goes: pools in the order they are tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The route's name in headers and metrics.
    pub name: Name,
    /// At least one pool, the preferred one first.
    pub targets: Vec<Target>,
    /// Whether those after the first also take what it has no room for, or would serve late; else they are for its failures alone.
    pub spill: bool,
    /// The route's deadlines.
    pub timeouts: Timeouts,
    /// The time to the first token that each request is to keep to.
    pub bound: Option<Duration>,
    /// What nearly all of its requests are to keep to.
    pub objectives: Objectives,
    /// Whether a second backend may be asked early, beside one that is late; `None`: where its tokens cost nothing.
    pub hedge: Option<bool>,
    /// Tokens of a stream that are held back, so that one which breaks off among them can be begun anew.
    pub hold_back: Option<u64>,
    /// How long each can wait for room; `None` as [`Limits`](super::Limits) say.
    pub queue: Option<Duration>,
    /// What is asked instead where an answer is of no use.
    pub cascade: Option<Arc<Cascade>>,
    /// The tiers that it is one of, from the cheapest to the best; empty where it is none.
    pub tiers: Arc<[Target]>,
    /// Which of the policy's caches it uses.
    pub cache: CacheUse,
}

/// A larger pool that is asked where an answer does not pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Cascade {
    /// The pool.
    pub to: Target,
    /// What an answer has to pass.
    pub checks: Checks,
    /// Tokens of a stream that are held back to be looked at.
    pub hold: u64,
    /// From the request's arrival to the last moment at which the larger pool is still asked; `None` for
    /// [half of what the request has](Route::last_escalation).
    pub within: Option<Duration>,
    /// The mean logprob below which an answer does not pass, in nats a token; without effect where logprobs are not looked at.
    pub min_logprob: f64,
}

impl Model {
    /// A name whose requests all go the same way.
    pub fn plain(route: Route) -> Self {
        Self { rules: vec![Rule { name: route.name.clone(), when: None, way: Way::Pools(route.into()) }] }
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

impl Way {
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
    /// A route to `targets` without a bound, and with no wait of its own.
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
        }
    }

    /// The targets whose answers may be given to a request that takes this route: the one it would go to first, and those that are
    /// known to be better. Of pools that merely stand in for one another it is not known which is better.
    pub fn acceptable(&self) -> impl Iterator<Item = &Target> {
        let first = self.targets.first();
        let own = self.tiers.iter().position(|tier| Some(tier) == first);
        let better = own.map_or(&[][..], |own| &self.tiers[own + 1..]);
        first.into_iter().chain(better).chain(self.cascade.as_ref().map(|cascade| &cascade.to))
    }

    /// The time from a request's arrival after which `cascade` asks no larger pool: where the policy names none, half of what a first
    /// token may take by the route's bound (streams only: nobody sees the first token of an answer that comes whole) or its timeout,
    /// or half of what the whole answer may take, whichever is least.
    pub fn last_escalation(&self, cascade: &Cascade, streamed: bool) -> Duration {
        let bound = self.bound.filter(|_| streamed);
        let limits = [bound, self.timeouts.first_token, self.timeouts.total];
        let least = limits.into_iter().flatten().fold(PATIENCE, Duration::min);
        cascade.within.unwrap_or(least / 2)
    }
}

/// A pool, or the backends of it that serve one adapter name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Place of the pool in [`Policy::pools`](super::Policy::pools).
    pub pool: usize,
    /// Only backends that [serve](super::Backend::serves) this name; `None`: only those without such a name.
    pub serves: Option<Name>,
    /// Only backends whose upstream model has this name.
    pub model: Option<Name>,
}

/// Every name a client may ask for.
#[derive(Clone, Debug, Default)]
pub struct ModelTable {
    exact: IndexMap<Name, Arc<Model>>,
    /// `("claude-", model)` for `claude-*`, longest prefix first.
    wildcards: Vec<(Name, Arc<Model>)>,
}

impl ModelTable {
    /// A table of exact names and of `prefix*` patterns (given without the star).
    pub fn new(exact: IndexMap<Name, Arc<Model>>, mut wildcards: Vec<(Name, Arc<Model>)>) -> Self {
        wildcards.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self { exact, wildcards }
    }

    /// What `model` stands for: an exact name first, then the longest matching prefix.
    pub fn get(&self, model: &str) -> Option<&Arc<Model>> {
        self.exact
            .get(model)
            .or_else(|| self.wildcards.iter().find(|(prefix, _)| model.starts_with(&**prefix)).map(|(_, model)| model))
    }

    /// The rules of all names; those of an alias come again with it.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let wildcards = self.wildcards.iter().map(|(_, model)| model);
        self.exact.values().chain(wildcards).flat_map(|model| &model.rules)
    }

    /// The rules that lead to tiers, and these.
    pub fn tiered(&self) -> impl Iterator<Item = (&Name, &Arc<Tiers>)> {
        self.rules().filter_map(|rule| match &rule.way {
            Way::Tiers(tiers) => Some((&rule.name, tiers)),
            Way::Pools(_) | Way::Length(_) => None,
        })
    }

    /// Whether any name leads to the route called `name`.
    pub fn has_route(&self, name: &str) -> bool {
        let wildcards = self.wildcards.iter().map(|(_, model)| model);
        self.exact.values().chain(wildcards).any(|model| model.routes().any(|route| *route.name == *name))
    }

    /// The exact names, in the order of the policy.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.exact.keys()
    }

    /// The `prefix*` patterns, given without the star, and where they go; longest prefix first.
    pub fn patterns(&self) -> impl Iterator<Item = (&Name, &Arc<Model>)> {
        self.wildcards.iter().map(|(prefix, model)| (prefix, model))
    }

    /// The known name most like `model`, where one is near enough to be meant.
    pub fn nearest(&self, model: &str) -> Option<&Name> {
        // Likeness takes time and memory by the product of both lengths, and clients choose this one.
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
