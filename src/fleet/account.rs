//! An account at a provider: what it lets us use, and which of its keys it takes. Limits and keys belong to the account, whichever engine is
//! called with them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    policy,
    quota::{Allowance, KeyRing, RateLimits, Standing, TokenReservation},
    types::{Moment, Name},
};

/// An account as one policy has it.
#[derive(Debug)]
pub struct Account {
    /// Its name.
    pub name: Name,
    used: Arc<Used>,
    /// Whether it has limits.
    limited: bool,
    /// Its keys, by their places in the policy. A change of policy tries all of them again.
    pub keys: KeyRing,
}

/// What of an account outlives policies.
#[derive(Debug)]
pub(super) struct Used {
    allowance: Arc<Allowance>,
    ejected: AtomicU64,
}

impl Used {
    /// Nothing used yet of what `spec` lets us use.
    pub(super) fn new(spec: &policy::Account) -> Self {
        // Whatever the time, all of it is left.
        Self { allowance: Arc::new(Allowance::new(spec.limits, Moment::default())), ejected: AtomicU64::new(0) }
    }
}

impl Account {
    /// The account that `spec` describes, of which this was `used` so far.
    pub(super) fn new(spec: &policy::Account, used: Arc<Used>) -> Self {
        // What has come back since it was used last comes back under the new limits.
        used.allowance.set_limits(spec.limits, Moment::default());
        let limited = spec.limits != RateLimits::default();
        Self { name: spec.name.clone(), used, limited, keys: KeyRing::new(spec.keys.len()) }
    }

    /// Whether it lets a request of so many tokens in now.
    pub fn has_room(&self, tokens: u64, now: Moment) -> bool {
        !self.limited || self.used.allowance.has_room(tokens, now)
    }

    /// One more request; `None` where it has no room for it now.
    pub fn admit(&self, tokens: u64, now: Moment) -> Option<TokenReservation> {
        self.used.allowance.admit(tokens, now)
    }

    /// Whether the provider takes none of its keys.
    pub fn is_shut(&self, now: Moment) -> bool {
        self.keys.ready(now) == 0
    }

    /// The provider refused one of its keys; whether that leaves it out now.
    pub fn eject(&self, key: usize, now: Moment) -> bool {
        let ejected = self.keys.refuse(key, now);
        self.used.ejected.fetch_add(u64::from(ejected), Relaxed);
        ejected
    }

    /// How often one of its keys was left out.
    pub fn ejected(&self) -> u64 {
        self.used.ejected.load(Relaxed)
    }

    /// What is left of its limits.
    pub fn standing(&self, now: Moment) -> Standing {
        self.used.allowance.standing(now)
    }
}
