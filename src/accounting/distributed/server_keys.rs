//! Names of the server's keys for one caller.

use std::sync::Arc;

use super::transaction::LeaseKeys;
use crate::{
    policy,
    quota::{Amount, RateLimits, Statement},
};

/// Prefix of all keys. The braces make a cluster keep them in one slot.
pub(super) const PREFIX: &str = "signalbox:{limits}:";

/// The limits of one caller and the server's keys that count its usage.
#[derive(Debug)]
pub(crate) struct ServerKeys {
    pub(super) limits: RateLimits,
    pub(super) requests: Arc<str>,
    pub(super) tokens: Arc<str>,
    pub(super) concurrency: Arc<LeaseKeys>,
    pub(super) team: Option<TeamKeys>,
}

/// The server's keys of its team.
#[derive(Debug)]
pub(super) struct TeamKeys {
    name: Arc<str>,
    unit: &'static str,
    pub(super) reserved: Arc<LeaseKeys>,
}

impl ServerKeys {
    /// Builds the keys of a caller with `key`, whose team has `budget`.
    pub(crate) fn new(key: &policy::Key, budget: Option<Amount>) -> Self {
        let of_key = |what: &str| format!("{PREFIX}key:{}:{what}", key.id);
        let team = key.team.as_ref().zip(budget).map(|(name, budget)| {
            let unit = budget.unit();
            let reserved = Arc::new(LeaseKeys::new(&format!("{PREFIX}team:{name}:{unit}:held")));
            TeamKeys { name: name.clone(), unit, reserved }
        });
        Self {
            limits: key.limits,
            requests: of_key("requests").into(),
            tokens: of_key("tokens").into(),
            concurrency: Arc::new(LeaseKeys::new(&of_key("stays"))),
            team,
        }
    }
}

impl TeamKeys {
    /// The key of the spending in `statement`'s period; `None` if the budget's unit has changed since.
    pub(super) fn spending_key(&self, statement: &Statement) -> Option<Arc<str>> {
        (statement.budget.amount.unit() == self.unit).then(|| spending_key(&self.name, statement))
    }
}

/// The key of a team's spending in the period of `statement`.
pub(super) fn spending_key(team: &str, statement: &Statement) -> Arc<str> {
    let Statement { budget, since, .. } = statement;
    format!("{PREFIX}team:{team}:{}:{}:{since}", budget.amount.unit(), budget.per.name()).into()
}
