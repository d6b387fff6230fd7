//! Cache eligibility of a request: its key, the backends whose answers are acceptable, and the caller's directives.

use std::sync::Arc;

use http::StatusCode;
use xxhash_rust::xxh3::Xxh3;

use crate::{relay::KeptAs, stages::Routed};
use signalbox_answers::Answers;
use signalbox_cache::{
    self as cache, Bypass, Directives, ExactCache, ExactKey, Found, Origin, ScopeId, SharingLimit, eligible,
};
use signalbox_policy::{self as policy, Caching, Scope};
use signalbox_protocol::{Canonical, LONG_BODY};
use signalbox_types::{Fault, Moment, Name};
use signalbox_upstream::headers;

/// Cache use that policy and caller permit for a request.
pub(super) struct Allowed {
    /// Directives of the caller.
    pub(super) said: Directives,
    /// Reason against exact matches, if they are not permitted.
    pub(super) not_exact: Option<Bypass>,
    /// True if a semantic lookup is permitted, as far as the cheap checks show.
    pub(super) semantic: bool,
}

/// A request that may share answers.
#[expect(clippy::struct_excessive_bools, reason = "each is a right of its own, and they come in every combination")]
pub(super) struct Sharing {
    pub(super) said: Directives,
    /// Reason against exact matches, if they are not permitted.
    pub(super) not_exact: Option<Bypass>,
    /// True if the caller may see how certain a hit is.
    pub(super) debugs: bool,
    /// Canonical form of the request.
    pub(super) form: Canonical,
    /// Headers that may change the answer, normalised.
    pub(super) headers: Vec<u8>,
    pub(super) key: ExactKey,
    pub(super) scope: ScopeId,
    /// The ID of the caller's key, if the gateway requires keys.
    pub(super) caller: Option<Name>,
    /// Backends whose answers are acceptable.
    pub(super) acceptable: Arc<[Origin]>,
    /// True if a stored answer may be returned.
    takes: bool,
    /// True if the answer may be stored.
    pub(super) keeps: bool,
    /// True if the request may join an equal one in progress.
    pub(super) joins: bool,
}

/// Reason why a request bypasses the cache.
pub(super) enum Bypassed {
    Past { reason: Bypass, only_if_cached: bool },
    Refused(Box<Fault>),
}

impl Sharing {
    /// Makes the cheap checks: the policy, the caller's directives, and the kind of request.
    ///
    /// # Errors
    /// The bypass, if no lookup is permitted. A fault, if the directives are invalid or not allowed for the key.
    pub(super) fn check(caching: &Caching, routed: &Routed) -> Result<Allowed, Bypassed> {
        let call = &routed.call;
        let member = call.body.member("cache");
        let said = Directives::read(&call.headers, member).map_err(|misread| {
            let message = misread.to_string();
            Bypassed::Refused(Fault::field(misread.field, message).into())
        })?;
        if call.headers.contains_key(OURS) && !call.serving.snapshot.policy.may_decide(call.key, policy::Allowed::Cache)
        {
            return Err(Bypassed::Refused(refused().into()));
        }
        let past = |reason| Bypassed::Past { reason, only_if_cached: said.only_if_cached };
        let used = routed.route.cache;
        // An answer in the caller's own API could not be shared with callers of chat.
        let exact = if call.original.is_some() {
            Err(Bypass::Endpoint)
        } else if (caching.exact.is_some() || caching.coalesce) && used.exact && said.most != SharingLimit::Off {
            eligible::exact(call.endpoint, call.query.as_deref(), &call.body, caching.any_temperature)
        } else {
            Err(Bypass::Off)
        };
        let semantic = caching.semantic.is_some()
            && used.semantic
            && said.most >= SharingLimit::Shadow
            && matches!(exact, Ok(()) | Err(Bypass::Off | Bypass::Temperature));
        match exact {
            Err(reason) if !semantic => Err(past(reason)),
            exact => Ok(Allowed { said, not_exact: exact.err(), semantic }),
        }
    }

    /// Computes the key of a request that passed the checks.
    ///
    /// # Errors
    /// The bypass, if the request has no scope to share in, or no canonical form.
    pub(super) async fn of(
        answers: &Answers,
        caching: &Caching,
        routed: &Routed,
        allowed: Allowed,
    ) -> Result<Self, Bypassed> {
        let Allowed { said, mut not_exact, semantic } = allowed;
        let call = &routed.call;
        let past = |reason| Bypassed::Past { reason, only_if_cached: said.only_if_cached };
        let caller = call.key.map(|at| call.serving.snapshot.policy.keys[at].id.clone());
        let user = call.body.member("user").and_then(|raw| serde_json::from_slice::<String>(raw).ok());
        let scope =
            answers.local.cache.keys.load().scope(caching.scope, caller.as_deref(), user.as_deref().map(str::as_bytes));
        let scope = match scope {
            Some(scope) => scope,
            None if semantic => {
                not_exact = not_exact.or(Some(Bypass::User));
                answers
                    .local
                    .cache
                    .keys
                    .load()
                    .scope(Scope::Key, caller.as_deref(), None)
                    .ok_or_else(|| past(Bypass::User))?
            }
            None => return Err(past(Bypass::User)),
        };
        let form = if call.body.bytes().len() <= LONG_BODY {
            Canonical::of(call.endpoint, &call.body)
        } else {
            // Too long to process on a worker thread.
            let (endpoint, body) = (call.endpoint, call.body.clone());
            let form = tokio::task::spawn_blocking(move || Canonical::of(endpoint, &body)).await;
            form.map_err(|_| past(Bypass::Ambiguous))?
        };
        let form = form.map_err(|_| past(Bypass::Ambiguous))?;
        let headers = headers::distinguishing(&call.headers, &caching.key_headers);
        let key = answers.local.cache.keys.load().exact(&cache::KeyParts {
            scope,
            model: call.body.model.as_deref().unwrap_or_default(),
            namespace: said.namespace.as_deref().unwrap_or_default(),
            headers: &headers,
            form: &form,
        });
        let exact = not_exact.is_none();
        Ok(Self {
            not_exact,
            debugs: call.serving.snapshot.policy.may_decide(call.key, policy::Allowed::Cache),
            form,
            headers,
            key,
            scope,
            caller,
            acceptable: acceptable(routed),
            takes: exact && caching.exact.is_some() && !said.no_cache,
            keeps: exact && caching.exact.is_some() && !said.no_store && said.ttl.is_none_or(|ttl| !ttl.is_zero()),
            joins: exact && caching.coalesce && !said.no_store && !said.no_cache,
            said,
        })
    }

    /// Returns the stored answer.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn look(&self, exact: &ExactCache, now: Moment) -> Result<Found, &'static str> {
        if !self.takes {
            return Err(if self.said.no_cache { "no_cache" } else { "not_kept" });
        }
        let may_serve = |record: &cache::Record| record.may_serve(&self.acceptable);
        exact.get(&self.key, self.said.max_age, may_serve, now).map_err(cache::Missing::label)
    }

    /// Returns the key to store the answer under, and the limits on storing it.
    pub(super) fn kept(&self) -> KeptAs {
        KeptAs { key: self.key, scope: self.scope, caller: self.caller.clone(), ttl: self.said.ttl }
    }

    /// Hashes the identities of the backends whose answers are acceptable.
    pub(super) fn acceptable_hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        self.acceptable.iter().for_each(|origin| hash.update(&origin.0.to_le_bytes()));
        hash.digest()
    }
}

const OURS: &str = "x-signalbox-cache";

/// Lists the backends whose answers are acceptable: those of the route's first target, and those known to be better.
fn acceptable(routed: &Routed) -> Arc<[Origin]> {
    let serving = &routed.call.serving;
    let of = |target: &signalbox_policy::Target| {
        let pool = target.pool;
        let members: Vec<_> = serving.snapshot.pools[pool].members(target).collect();
        members.into_iter().map(move |backend| serving.origin(pool, backend))
    };
    routed.route.acceptable().flat_map(of).collect()
}

fn refused() -> Fault {
    let message = format!(
        "'{OURS}' may be set only with a key that allows it (allow: [cache] in the policy), or where the gateway asks for no keys and \
         listens on loopback; 'Cache-Control' is always heeded"
    );
    Fault::client(StatusCode::FORBIDDEN, "override_refused", message).with_code("override_refused")
}
