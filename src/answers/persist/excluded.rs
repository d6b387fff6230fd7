//! Whose answers never come to the disk.

use std::collections::HashSet;

use crate::{cache::Record, policy::Policy, types::Name};

/// Routes and callers whose answers, and what they asked, stay off the disk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Excluded {
    pub(crate) routes: HashSet<Name>,
    pub(crate) callers: HashSet<Name>,
}

impl Excluded {
    /// As the policy says.
    pub(crate) fn of(policy: &Policy) -> Self {
        let routes = policy.models.rules().flat_map(|rule| rule.way.routes()).filter(|route| !route.cache.persist);
        let keys = policy.keys.iter().filter(|key| !key.persists);
        Self {
            routes: routes.map(|route| route.name.clone()).collect(),
            callers: keys.map(|key| key.id.clone()).collect(),
        }
    }

    /// Whether it means this answer.
    pub(crate) fn means(&self, record: &Record) -> bool {
        self.routes.contains(&record.route)
            || record.caller.as_ref().is_some_and(|caller| self.callers.contains(caller))
    }
}
