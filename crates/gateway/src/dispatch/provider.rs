//! Provider of a backend: its name, and the key of an attempt, also if the provider refuses some.

use http::StatusCode;

use crate::credentials;
use signalbox_engines::Profile;
use signalbox_fleet::{Account, Backend, Snapshot};
use signalbox_policy::{Dialect, Engine, Secret};
use signalbox_types::Moment;

/// Provider of a backend by its address, else by the kind that its engine reports, else `unknown`.
pub(super) fn provider(engine: &Engine, backend: &Backend) -> &'static str {
    if matches!(engine.dialect, Dialect::Azure { .. }) {
        return "azure.ai.openai";
    }
    let known = Profile::provider_at(signalbox_config::authority(&engine.url));
    known.or_else(|| Some(backend.engine.reading()?.signals.kind.name())).unwrap_or("unknown")
}

/// Host and port that an engine is called at.
pub(super) fn address(engine: &Engine) -> Option<(String, u16)> {
    let url: http::Uri = engine.url.parse().ok()?;
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    Some((url.host()?.to_owned(), port))
}

/// Provider key of an attempt.
#[derive(Copy, Clone)]
pub(super) struct ProviderKey<'a> {
    /// The secret; `None` if the engine needs none.
    pub(super) secret: Option<&'a Secret>,
    /// Index among the engine's keys.
    at: usize,
    backend: &'a Backend,
    /// Account that owns the key, if any.
    account: Option<&'a Account>,
}

impl<'a> ProviderKey<'a> {
    /// Selects the next key that the provider accepts. If it refuses all of them, selects the one whose pause ends
    /// first: only the provider knows when it accepts a key again.
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

    /// Records the status of a response to this key. Returns true if the request should be sent once more, with another
    /// key.
    pub(super) fn record_status(self, status: StatusCode, now: Moment) -> bool {
        credentials::record_status(self.backend, self.at, status, now);
        let Some(account) = self.account else { return false };
        if status != StatusCode::UNAUTHORIZED {
            account.keys.accept(self.at);
            return false;
        }
        account.eject(self.at, now);
        !account.refuses_all_keys(now)
    }
}

/// Describes the owner of a backend's key to the caller: the names of the pool and the account, never the key.
pub(super) fn payer(snapshot: &Snapshot, backend: &Backend) -> String {
    // A load belongs to one backend of one pool, for all models.
    let owns = |own: &std::sync::Arc<Backend>| std::sync::Arc::ptr_eq(&own.load, &backend.load);
    let pool = snapshot.pools.iter().find(|pool| pool.backends.iter().any(owns));
    let pool = pool.map_or_else(|| "a pool".to_owned(), |pool| format!("the pool '{}'", pool.spec.name));
    match &backend.account {
        Some(account) => format!("the key of the account '{}' for {pool}", account.name),
        None => format!("the key for {pool}"),
    }
}
