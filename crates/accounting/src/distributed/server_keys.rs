//! Names of the server's keys for one caller.

use std::sync::Arc;

use super::transaction::LeaseKeys;
use signalbox_policy as policy;
use signalbox_quota::{BudgetAccount, BudgetOwner, RateLimits, Statement};
use signalbox_types::RedisServer;

/// Prefix of all keys on `server`. The braces make a cluster keep them in one slot.
pub(super) fn key_prefix(server: &RedisServer) -> String {
    format!("{}:{{limits}}:", server.prefix())
}

/// The limits of one caller and the server's keys that count its usage.
#[derive(Debug)]
pub(crate) struct ServerKeys {
    pub(super) limits: RateLimits,
    pub(super) requests: Arc<str>,
    pub(super) tokens: Arc<str>,
    pub(super) concurrency: Arc<LeaseKeys>,
    /// In the order of the caller's budgets.
    pub(super) budgets: Vec<BudgetKeys>,
}

/// The server's keys of a budget.
#[derive(Debug)]
pub(super) struct BudgetKeys {
    prefix: Arc<str>,
    owner: BudgetOwner,
    unit: &'static str,
    pub(super) reserved: Arc<LeaseKeys>,
}

impl ServerKeys {
    /// Builds the keys on `server` of a caller with `key` and these budgets.
    pub(crate) fn new(server: &RedisServer, key: &policy::Key, budgets: &[(BudgetOwner, Arc<BudgetAccount>)]) -> Self {
        let own: Arc<str> = key_prefix(server).into();
        let of_key = |what: &str| format!("{own}key:{}:{what}", key.id);
        let budget = |(owner, account): &(BudgetOwner, Arc<BudgetAccount>)| {
            let unit = account.budget().amount.unit();
            let reserved = Arc::new(LeaseKeys::new(&format!("{}:{unit}:held", prefix(&own, owner))));
            BudgetKeys { prefix: own.clone(), owner: owner.clone(), unit, reserved }
        };
        Self {
            limits: key.limits,
            requests: of_key("requests").into(),
            tokens: of_key("tokens").into(),
            concurrency: Arc::new(LeaseKeys::new(&of_key("stays"))),
            budgets: budgets.iter().map(budget).collect(),
        }
    }
}

impl BudgetKeys {
    /// The key of the spending in `statement`'s period; `None` if the budget's unit has changed since.
    pub(super) fn spending_key(&self, statement: &Statement) -> Option<Arc<str>> {
        (statement.budget.amount.unit() == self.unit).then(|| spending_key(&self.prefix, &self.owner, statement))
    }
}

/// The key of an owner's spending in the period of `statement`.
pub(super) fn spending_key(own: &str, owner: &BudgetOwner, statement: &Statement) -> Arc<str> {
    let Statement { budget, since, .. } = statement;
    format!("{}:{}:{}:{since}", prefix(own, owner), budget.amount.unit(), budget.per.name()).into()
}

/// Prefix of the keys of an owner's budget.
fn prefix(own: &str, owner: &BudgetOwner) -> String {
    match owner {
        BudgetOwner::Team(name) => format!("{own}team:{name}"),
        BudgetOwner::Key(id) => format!("{own}key:{id}:budget"),
    }
}
