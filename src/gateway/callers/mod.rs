//! What each caller uses of what it may use, alive: it outlives policies, keyed by the key's id.

mod bill;
mod headers;
mod refusal;

use std::sync::Arc;

use dashmap::DashMap;

pub(super) use self::{bill::Bill, refusal::refused};
use crate::{
    policy::Policy,
    quota::{Allowance, Exceeded, Reserved, Standing, Stay},
    types::{Moment, Name},
};

/// Every caller with a key in the policy in force.
#[derive(Default)]
pub struct Callers(DashMap<Name, Arc<Caller>>);

/// Who calls with one key.
pub(super) struct Caller {
    /// The key's id.
    pub(super) id: Name,
    allowance: Arc<Allowance>,
}

impl Callers {
    /// Keeps to another policy; gives its callers, in the order of its keys.
    pub(super) fn follow(&self, policy: &Policy, now: Moment) -> Vec<Arc<Caller>> {
        self.0.retain(|id, _| policy.keys.iter().any(|key| key.id == *id));
        let caller = |key: &crate::policy::Key| {
            let known = self.0.get(&key.id).map(|known| known.clone());
            if let Some(known) = known {
                known.allowance.follow(key.limits, now);
                return known;
            }
            let allowance = Arc::new(Allowance::new(key.limits, now));
            let new = Arc::new(Caller { id: key.id.clone(), allowance });
            self.0.insert(key.id.clone(), new.clone());
            new
        };
        policy.keys.iter().map(caller).collect()
    }
}

impl Caller {
    fn enter(&self, now: Moment) -> Result<Stay, Exceeded> {
        self.allowance.enter(now)
    }

    fn reserve(&self, tokens: u64, now: Moment) -> Result<Reserved, Exceeded> {
        self.allowance.reserve(tokens, now)
    }

    fn standing(&self, now: Moment) -> Standing {
        self.allowance.standing(now)
    }
}
