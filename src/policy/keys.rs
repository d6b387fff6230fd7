//! Who may call, for which models, how much, and what callers may decide themselves.

use std::{path::PathBuf, time::Duration};

use super::{Policy, Secret};
use crate::{
    config::keys::Allowed,
    quota::{Budget, RateLimits},
    types::{Endpoint, Name},
};

/// What a request's priority is where neither its key nor its caller says another.
pub const PRIORITY: u8 = 5;

/// A key that may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its public name.
    pub id: Name,
    /// BLAKE3 hash of the secret.
    pub hash: [u8; 32],
    /// The team it belongs to, if any.
    pub team: Option<Name>,
    /// What else it is known by.
    pub tags: Vec<Name>,
    /// The models that its callers may ask for; `None` for all.
    pub models: Option<Vec<ModelPattern>>,
    /// The endpoints that its callers may use; `None` for all.
    pub endpoints: Option<Vec<Endpoint>>,
    /// How much its callers may use.
    pub limits: RateLimits,
    /// How urgent its requests are, from 0 (last) to 9 (first).
    pub priority: u8,
    /// What its callers may decide by headers.
    pub allow: Vec<Allowed>,
    /// Whether the answers to its callers may be on disk and with other gateways.
    pub persists: bool,
}

/// Callers who have a budget together.
#[derive(Clone, Debug, PartialEq)]
pub struct Team {
    /// Their name, as keys have it.
    pub name: Name,
    /// What they may spend.
    pub budget: Budget,
}

/// The gateways that what callers use is counted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// Address of their server, which may hold a password.
    pub url: Secret,
    /// How long a request waits for an answer from there.
    pub timeout: Duration,
}

/// Where it is kept what was used, with budgets and revocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The folder.
    pub path: PathBuf,
    /// How long days are remembered.
    pub retention: Duration,
}

/// An account at a provider: who pays, and what it lets us use.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its name.
    pub name: Name,
    /// Its keys, used in turn.
    pub keys: Vec<Secret>,
    /// What all of them together may use.
    pub limits: RateLimits,
}

/// A model's name, or the beginning of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelPattern {
    /// This one.
    Exact(Name),
    /// All that begin so: `claude-*`.
    Prefix(Name),
}

impl ModelPattern {
    /// What `text` stands for, as models are named in files.
    pub fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.into()),
            None => Self::Exact(text.into()),
        }
    }

    /// Whether it means `model`.
    pub fn matches(&self, model: &str) -> bool {
        match self {
            Self::Exact(name) => **name == *model,
            Self::Prefix(prefix) => model.starts_with(&**prefix),
        }
    }
}

impl std::fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl Key {
    /// Whether its callers may ask for `model`.
    pub fn may_use(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(model)))
    }
}

impl Policy {
    /// Whether a caller may decide `what` by a header: one whose key allows it; and everybody, where nobody is asked for a key and only
    /// this machine can ask.
    pub fn may_decide(&self, key: Option<usize>, what: Allowed) -> bool {
        match key {
            Some(at) => self.keys[at].allow.contains(&what),
            None => self.keys.is_empty() && self.listen.ip().is_loopback(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_or_beginnings() {
        let one = ModelPattern::new("auto");
        assert!(one.matches("auto") && !one.matches("auto-2") && !one.matches("Auto"));
        let many = ModelPattern::new("claude-*");
        assert!(many.matches("claude-") && many.matches("claude-x") && !many.matches("claude"));
        assert!(ModelPattern::new("*").matches("anything"));
        assert_eq!((one.to_string(), many.to_string()), ("auto".to_owned(), "claude-*".to_owned()));
    }
}
