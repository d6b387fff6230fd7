//! Where the server has what one caller uses.

use std::sync::Arc;

use super::transaction::Place;
use crate::{
    policy,
    quota::{Amount, RateLimits, Statement},
};

/// What all names begin with: in braces, so that a cluster has all of it in one place.
pub(super) const ROOT: &str = "signalbox:{limits}:";

/// What is counted of one caller, and where.
#[derive(Debug)]
pub(crate) struct Names {
    pub(super) limits: RateLimits,
    pub(super) requests: Arc<str>,
    pub(super) tokens: Arc<str>,
    pub(super) stays: Arc<Place>,
    pub(super) team: Option<TeamNames>,
}

/// The same of its team.
#[derive(Debug)]
pub(super) struct TeamNames {
    name: Arc<str>,
    unit: &'static str,
    pub(super) holds: Arc<Place>,
}

impl Names {
    /// Of a caller with `key`, whose team has `budget`.
    pub(crate) fn new(key: &policy::Key, budget: Option<Amount>) -> Self {
        let of = |what: &str| format!("{ROOT}key:{}:{what}", key.id);
        let team = key.team.as_ref().zip(budget).map(|(name, budget)| {
            let unit = budget.unit();
            let holds = Arc::new(Place::new(&format!("{ROOT}team:{name}:{unit}:held")));
            TeamNames { name: name.clone(), unit, holds }
        });
        Self {
            limits: key.limits,
            requests: of("requests").into(),
            tokens: of("tokens").into(),
            stays: Arc::new(Place::new(&of("stays"))),
            team,
        }
    }
}

impl TeamNames {
    /// Where what is spent of `statement` is; `None` where that is another budget by now.
    pub(super) fn spent(&self, statement: &Statement) -> Option<Arc<str>> {
        (statement.budget.amount.unit() == self.unit).then(|| spent(&self.name, statement))
    }
}

/// Where the server has what a team has spent in the period of `statement`.
pub(super) fn spent(team: &str, statement: &Statement) -> Arc<str> {
    let Statement { budget, since, .. } = statement;
    format!("{ROOT}team:{team}:{}:{}:{since}", budget.amount.unit(), budget.per.name()).into()
}
