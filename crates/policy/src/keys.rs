//! Callers' keys: access, limits, teams, and the headers that callers may use.

use std::{path::PathBuf, time::Duration};

use super::{ModelGlob, Policy, Secret};
use signalbox_config::keys::Allowed;
use signalbox_quota::{Budget, RateLimits};
use signalbox_types::{Endpoint, Name, RedisServer};

/// The default priority of a request.
pub const PRIORITY: u8 = 5;

/// A caller's key.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its public name.
    pub id: Name,
    /// Hash of the secret: BLAKE3, or SHA-256.
    pub hash: [u8; 32],
    /// Further secrets of the key, while it is rotated.
    pub also: Vec<OtherSecret>,
    /// The team it belongs to, if any.
    pub team: Option<Name>,
    /// Its tags.
    pub tags: Vec<Name>,
    /// The models that its callers may request; `None` for all.
    pub models: Option<Vec<ModelGlob>>,
    /// The endpoints that its callers may use; `None` for all.
    pub endpoints: Option<Vec<Endpoint>>,
    /// The limits of its callers.
    pub limits: RateLimits,
    /// The time from which it is rejected, in seconds since 1970; `None` if it does not expire.
    pub expires: Option<i64>,
    /// Its own budget, besides that of its team.
    pub budget: Option<Budget>,
    /// The priority of its requests, from 0 (last) to 9 (first).
    pub priority: u8,
    /// The headers that its callers may use.
    pub allow: Vec<Allowed>,
    /// True if prompts and answers of the key's callers may be stored on disk and on other gateways.
    pub persists: bool,
    /// True if the key was created over the admin API; false for a key of the policy file.
    pub managed: bool,
}

/// A further secret of a key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct OtherSecret {
    /// Its hash.
    pub hash: [u8; 32],
    /// The time from which it is rejected, in seconds since 1970; `None` if it does not end before the key.
    pub valid_until: Option<i64>,
}

/// The keys that are created on the running gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedKeys {
    /// The file that they are stored in.
    pub path: PathBuf,
    /// All teams of the policy, which they may belong to.
    pub teams: Vec<Name>,
}

/// Callers with a common budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Team {
    /// The name that keys refer to.
    pub name: Name,
    /// The budget.
    pub budget: Budget,
}

/// The server through which gateways count the usage of callers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// The server.
    pub server: RedisServer,
    /// The longest that a request waits for the server.
    pub timeout: Duration,
}

/// The storage of usage, with budgets and revocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The folder.
    pub path: PathBuf,
    /// The time that daily usage is kept in memory.
    pub retention: Duration,
}

/// An account at a provider, with its keys and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its name.
    pub name: Name,
    /// Its keys, used in rotation.
    pub keys: Vec<Secret>,
    /// The limits of all its keys together.
    pub limits: RateLimits,
}

impl Key {
    /// The hashes of all its secrets.
    pub fn hashes(&self) -> impl Iterator<Item = &[u8; 32]> {
        std::iter::once(&self.hash).chain(self.also.iter().map(|other| &other.hash))
    }

    /// True if one of its secrets has this hash.
    pub fn has_hash(&self, hash: &[u8; 32]) -> bool {
        self.hashes().any(|own| own == hash)
    }

    /// True if it is rejected at `unix`, in seconds since 1970.
    pub fn is_expired(&self, unix: i64) -> bool {
        self.expires.is_some_and(|expires| expires <= unix)
    }

    /// True if its callers may request `model`.
    pub fn may_use(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(model)))
    }
}

impl Policy {
    /// The team of the key at this index, if it has provider accounts of its own.
    pub fn paying_team(&self, key: Option<usize>) -> Option<&Name> {
        let team = self.keys.get(key?)?.team.as_ref()?;
        self.paying_teams.contains(team).then_some(team)
    }

    /// True if callers need a key.
    pub fn asks_keys(&self) -> bool {
        !self.keys.is_empty() || self.managed_keys.is_some()
    }

    /// True if a caller may use the header of `what`: if its key allows it, or if keys are not required and only this
    /// machine can connect.
    pub fn may_decide(&self, key: Option<usize>, what: Allowed) -> bool {
        match key {
            Some(at) => self.keys[at].allow.contains(&what),
            None => !self.asks_keys() && self.listen.ip().is_loopback(),
        }
    }
}
