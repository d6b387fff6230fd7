//! State of provider keys: updated by every answer, and by a check of each new key when a policy is loaded. Refusals
//! are logged, because the operator would otherwise learn of them only from callers.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, Method, StatusCode};

use super::Serving;
use signalbox_fleet::Backend;
use signalbox_policy::{self as policy, Engine, Secret};
use signalbox_types::{Clock, Moment};
use signalbox_upstream::{Client, address, outgoing::Outgoing};

/// Maximum number of concurrent checks.
const MAX_CONCURRENT_CHECKS: usize = 4;
/// Timeout of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Updates the state of a key from the `status` of an answer to a request that used it. `key`: its index among the keys
/// of the backend's engine.
pub(super) fn record_status(backend: &Backend, key: usize, status: StatusCode, now: Moment) {
    let (engine, account) = (&backend.engine.name, backend.account.as_ref().map(|account| &*account.name));
    let of = backend.credential.len();
    let whose = || match account {
        Some(account) => format!("key {} of {of} of the account '{account}'", key + 1),
        None => format!("the key of the engine '{engine}'"),
    };
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let Some(refusals) = backend.credential.refuse(key, status.as_u16(), now) else { return };
        let account = account.unwrap_or_default();
        tracing::warn!(
            %engine, account, status = status.as_u16(), refusals,
            "credentials: the provider refuses {}, requests use other keys or backends, or fail: check `keys` in the policy",
            whose()
        );
    } else if status.is_success()
        && let Some(since) = backend.credential.accept(key)
    {
        let account = account.unwrap_or_default();
        tracing::info!(%engine, account, after_s = now.since(since).as_secs(), "credentials: the provider accepts {} again", whose());
    }
}

/// Checks the keys of `serving` whose state is unknown, with a `GET /v1/models` each. A success accepts the key, and a
/// 401 or 403 refuses it. Any other status, an error or a timeout leaves it unknown.
pub async fn check_keys(serving: Arc<Serving>, client: Client, clock: Clock) {
    let unknown = unknown(&serving);
    let ask = |(backend, key, question): (Arc<Backend>, usize, Outgoing)| {
        let client = client.clone();
        async move {
            if let Ok(Ok(answer)) = tokio::time::timeout(CHECK_TIMEOUT, client.send(question)).await {
                record_status(&backend, key, answer.status(), clock.now());
            }
        }
    };
    futures_util::stream::iter(unknown).map(ask).buffer_unordered(MAX_CONCURRENT_CHECKS).collect::<()>().await;
}

/// Returns the keys whose state is unknown, each with its check.
fn unknown(serving: &Serving) -> Vec<(Arc<Backend>, usize, Outgoing)> {
    let policy = &serving.snapshot.policy;
    let backends = serving.snapshot.pools.iter().flat_map(|pool| &pool.backends);
    let mut seen = HashSet::new();
    let mut unknown = Vec::new();
    for backend in backends.filter(|backend| seen.insert(Arc::as_ptr(&backend.credential))) {
        let engine = &policy.engines[backend.spec.engine];
        for key in (0..engine.keys.len()).filter(|key| !backend.credential.is_known(*key)) {
            let question = question(engine, backend, &engine.keys[key]);
            unknown.push((backend.clone(), key, question));
        }
    }
    unknown
}

/// Builds a free request that takes the path of normal requests.
fn question(engine: &Engine, backend: &Backend, key: &Secret) -> Outgoing {
    let mut headers = HeaderMap::new();
    address::authorise(&mut headers, engine, key);
    address::put_engine_headers(&mut headers, engine);
    // Azure lists models next to its deployments, not within one.
    let spec = policy::Backend { deployment: None, ..backend.spec.clone() };
    Outgoing { method: Method::GET, url: address::url(engine, &spec, "/v1/models", None), headers, body: Bytes::new() }
}
