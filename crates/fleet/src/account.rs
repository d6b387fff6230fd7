//! Accounts at providers: limits and API keys. Both belong to the account, whichever engine is called with them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use signalbox_policy as policy;
use signalbox_quota::{Allowance, KeyRing, RateLimits, Standing, TokenReservation};
use signalbox_types::{Moment, Name};

/// An account as one policy defines it.
#[derive(Debug)]
pub struct Account {
    /// The account's name.
    pub name: Name,
    used: Arc<Used>,
    /// True if the policy limits the account's requests or tokens.
    limited: bool,
    /// Health of its keys, by their index in the policy. A change of policy resets it, so that all keys are tried
    /// again.
    pub keys: KeyRing,
}

/// The part of an account's state that outlives policies.
#[derive(Debug)]
pub(super) struct Used {
    allowance: Arc<Allowance>,
    ejected: AtomicU64,
}

impl Used {
    /// Creates the state of an account that is still unused.
    pub(super) fn new(spec: &policy::Account) -> Self {
        // The full allowance is available at any time.
        Self { allowance: Arc::new(Allowance::new(spec.limits, Moment::default())), ejected: AtomicU64::new(0) }
    }
}

impl Account {
    /// Creates the account of `spec`, which has `used` this much so far.
    pub(super) fn new(spec: &policy::Account, used: Arc<Used>) -> Self {
        // Allowance that was refilled since the last use is refilled under the new limits.
        used.allowance.set_limits(spec.limits, Moment::default());
        let limited = spec.limits != RateLimits::default();
        Self { name: spec.name.clone(), used, limited, keys: KeyRing::new(spec.keys.len()) }
    }

    /// True if the limits admit a request of `tokens` tokens now.
    pub fn has_room(&self, tokens: u64, now: Moment) -> bool {
        !self.limited || self.used.allowance.has_room(tokens, now)
    }

    /// Reserves room for a request. Returns `None` where the limits do not admit it now.
    pub fn admit(&self, tokens: u64, now: Moment) -> Option<TokenReservation> {
        self.used.allowance.admit(tokens, now)
    }

    /// True if the provider refuses all of its keys.
    pub fn refuses_all_keys(&self, now: Moment) -> bool {
        self.keys.ready(now) == 0
    }

    /// Records that the provider refused a key. Returns true if the key is ejected now.
    pub fn eject(&self, key: usize, now: Moment) -> bool {
        let ejected = self.keys.refuse(key, now);
        self.used.ejected.fetch_add(u64::from(ejected), Relaxed);
        ejected
    }

    /// Number of key ejections so far.
    pub fn ejected(&self) -> u64 {
        self.used.ejected.load(Relaxed)
    }

    /// Allowance that is left.
    pub fn standing(&self, now: Moment) -> Standing {
        self.used.allowance.standing(now)
    }
}
