//! With which of its keys an attempt is made, and what becomes of one that the provider refuses.

use http::StatusCode;

use crate::{
    fleet::{Account, Backend, Snapshot},
    gateway::credentials,
    policy::{Engine, Secret},
    types::Moment,
};

/// The key of an attempt.
#[derive(Copy, Clone)]
pub(super) struct ProviderKey<'a> {
    /// The key itself; `None` where the engine asks for none.
    pub(super) secret: Option<&'a Secret>,
    /// Its place among the engine's keys.
    at: usize,
    backend: &'a Backend,
    /// Its account, where it is one of an account's.
    account: Option<&'a Account>,
}

impl<'a> ProviderKey<'a> {
    /// The next key that the provider takes; one that it does not, where there is no other: only the provider can tell when that is over.
    pub(super) fn next(engine: &'a Engine, backend: &'a Backend, now: Moment) -> Self {
        let place = |account: &Account| account.keys.next(now).or_else(|| account.keys.least_refused());
        let of = backend.account.as_deref().and_then(|account| Some((account, place(account)?)));
        let at = match of {
            Some((_, at)) => at,
            None if engine.keys.is_empty() => 0,
            None => fastrand::usize(..engine.keys.len()),
        };
        Self { secret: engine.keys.get(at), at, backend, account: of.map(|(account, _)| account) }
    }

    /// Learns from the status of an answer. Whether the request is to be sent once more, with another key.
    pub(super) fn told(self, status: StatusCode, now: Moment) -> bool {
        credentials::told(self.backend, self.at, status, now);
        let Some(account) = self.account else { return false };
        if status != StatusCode::UNAUTHORIZED {
            account.keys.accept(self.at);
            return false;
        }
        account.eject(self.at, now);
        !account.refuses_all_keys(now)
    }
}

/// Whose key an attempt at `backend` was made with, for its caller: by the names of the pool and the account, never the key.
pub(super) fn payer(snapshot: &Snapshot, backend: &Backend) -> String {
    // The load is that of one backend in one pool, whichever model is asked for.
    let owns = |own: &std::sync::Arc<Backend>| std::sync::Arc::ptr_eq(&own.load, &backend.load);
    let pool = snapshot.pools.iter().find(|pool| pool.backends.iter().any(owns));
    let pool = pool.map_or_else(|| "a pool".to_owned(), |pool| format!("the pool '{}'", pool.spec.name));
    match &backend.account {
        Some(account) => format!("the key of the account '{}' for {pool}", account.name),
        None => format!("the key for {pool}"),
    }
}
