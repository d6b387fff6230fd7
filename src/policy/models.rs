//! The names clients may ask for, and the pools behind each.

use std::time::Duration;

use indexmap::IndexMap;

use super::Timeouts;
use crate::types::Name;

/// Longest name that is taken for a mistyped one, in bytes.
const LONGEST_MISTAKE: usize = 256;

/// Where a request goes: pools in the order they are tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The route's name in headers and metrics.
    pub name: Name,
    /// At least one pool, the preferred one first.
    pub targets: Vec<Target>,
    /// The route's deadlines.
    pub timeouts: Timeouts,
    /// The time to the first token that each request is to keep to.
    pub bound: Option<Duration>,
    /// How long each may wait for room; `None` as [`Limits`](super::Limits) say.
    pub queue: Option<Duration>,
}

impl Route {
    /// A route to `targets` without a bound, and with no wait of its own.
    pub fn new(name: Name, targets: Vec<Target>, timeouts: Timeouts) -> Self {
        Self { name, targets, timeouts, bound: None, queue: None }
    }
}

/// A pool, or the backends of it that serve one adapter name.
#[derive(Clone, Debug, PartialEq)]
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
    exact: IndexMap<Name, std::sync::Arc<Route>>,
    /// `("claude-", route)` for `claude-*`, longest prefix first.
    wildcards: Vec<(Name, std::sync::Arc<Route>)>,
}

impl ModelTable {
    /// A table of exact names and of `prefix*` patterns (given without the star).
    pub fn new(exact: IndexMap<Name, Route>, wildcards: Vec<(Name, Route)>) -> Self {
        let mut wildcards: Vec<_> = wildcards.into_iter().map(|(prefix, route)| (prefix, route.into())).collect();
        wildcards.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self { exact: exact.into_iter().map(|(name, route)| (name, route.into())).collect(), wildcards }
    }

    /// The route of `model`: an exact name first, then the longest matching prefix.
    pub fn route(&self, model: &str) -> Option<&std::sync::Arc<Route>> {
        self.exact
            .get(model)
            .or_else(|| self.wildcards.iter().find(|(prefix, _)| model.starts_with(&**prefix)).map(|(_, route)| route))
    }

    /// Whether any name leads to the route called `name`.
    pub fn has_route(&self, name: &str) -> bool {
        let wildcards = self.wildcards.iter().map(|(_, route)| route);
        self.exact.values().chain(wildcards).any(|route| *route.name == *name)
    }

    /// The exact names, in the order of the policy.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.exact.keys()
    }

    /// The `prefix*` patterns, given without the star, and where they go; longest prefix first.
    pub fn patterns(&self) -> impl Iterator<Item = (&Name, &std::sync::Arc<Route>)> {
        self.wildcards.iter().map(|(prefix, route)| (prefix, route))
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
