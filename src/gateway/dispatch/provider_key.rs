//! With which of an account's keys an attempt is made, and what becomes of one that the provider refuses.

use http::StatusCode;

use crate::{
    fleet::{Account, Backend},
    policy::{Engine, Secret},
    types::Moment,
};

/// The key of an attempt.
#[derive(Copy, Clone)]
pub(super) struct ProviderKey<'a> {
    /// The key itself; `None` where the engine asks for none.
    pub(super) secret: Option<&'a Secret>,
    /// Its account and its place there, where it is one of an account's.
    of: Option<(&'a Account, usize)>,
}

impl<'a> ProviderKey<'a> {
    /// The next key that the provider takes; one that it does not, where there is no other: only the provider can tell when that is over.
    pub(super) fn next(engine: &'a Engine, backend: &'a Backend, now: Moment) -> Self {
        let place = |account: &Account| account.keys.next(now).or_else(|| account.keys.least_refused());
        let of = backend.account.as_deref().and_then(|account| Some((account, place(account)?)));
        let secret = match of {
            Some((_, at)) => engine.keys.get(at),
            None => fastrand::choice(&*engine.keys),
        };
        Self { secret, of }
    }

    /// Learns from the status of an answer. Whether the request is to be sent once more, with another key.
    pub(super) fn told(self, status: StatusCode, now: Moment) -> bool {
        let Some((account, at)) = self.of else { return false };
        if status != StatusCode::UNAUTHORIZED {
            account.keys.accept(at);
            return false;
        }
        if account.eject(at, now) {
            let (name, number, of) = (&account.name, at + 1, account.keys.len());
            tracing::warn!(
                account = %name,
                "the provider refuses key {number} of {of} of the account '{name}' (401): it is left out, and tried again in a while"
            );
        }
        !account.is_shut(now)
    }
}
