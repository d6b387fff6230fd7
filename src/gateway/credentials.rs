//! Whether providers take the keys that the policy gives them: learned from every answer, and asked for when the policy is loaded. A refusal
//! is the operator's business, who would else hear of it from callers alone.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::Serving;
use crate::{
    fleet::Backend,
    policy::{self, Engine, Secret},
    types::{Clock, Endpoint, Moment},
    upstream::{Client, address, client::Outgoing},
};

/// Keys that are asked about at once.
const AT_ONCE: usize = 4;
/// How long a provider may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Learns from the status of an answer to a request with the key at this place among those of the backend's engine.
pub(super) fn told(backend: &Backend, key: usize, status: StatusCode, now: Moment) {
    let (engine, account) = (&backend.engine.name, backend.account.as_ref().map(|account| &*account.name));
    let of = backend.credential.len();
    let whose = || match account {
        Some(account) => format!("key {} of {of} of the account '{account}'", key + 1),
        None => format!("the key of the engine '{engine}', or that there is none"),
    };
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let Some(refusals) = backend.credential.refuse(key, status.as_u16(), now) else { return };
        let account = account.unwrap_or_default();
        tracing::warn!(
            %engine, account, status = status.as_u16(), refusals,
            "the provider refuses {}: requests that need it fail or go elsewhere until it is taken again; look at 'keys' in the policy",
            whose()
        );
    } else if status.is_success()
        && let Some(since) = backend.credential.accept(key)
    {
        let account = account.unwrap_or_default();
        tracing::warn!(%engine, account, after_s = now.since(since).as_secs(), "the provider takes {} again", whose());
    }
}

/// Asks the providers of `serving` about the keys that nothing is known of yet: `GET /v1/models` with each. Only a refusal says something of
/// a key; what else is answered, or that nothing is, does not.
pub async fn check_keys(serving: Arc<Serving>, client: Client, clock: Clock) {
    let unknown = unknown(&serving);
    let ask = |(backend, key, question): (Arc<Backend>, usize, Outgoing)| {
        let client = client.clone();
        async move {
            if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, client.send(question)).await {
                told(&backend, key, answer.status(), clock.now());
            }
        }
    };
    futures_util::stream::iter(unknown).map(ask).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// The keys that nothing is known of, and the questions about them.
fn unknown(serving: &Serving) -> Vec<(Arc<Backend>, usize, Outgoing)> {
    let policy = &serving.snapshot.policy;
    let backends = serving.snapshot.pools.iter().flat_map(|pool| pool.backends.iter().map(move |it| (pool, it)));
    let mut seen = HashSet::new();
    let mut unknown = Vec::new();
    for (pool, backend) in backends.filter(|(_, backend)| seen.insert(Arc::as_ptr(&backend.credential))) {
        let engine = &policy.engines[backend.spec.engine];
        for key in (0..engine.keys.len()).filter(|key| !backend.credential.is_known(*key)) {
            let question = question(engine, backend, &engine.keys[key], pool.spec.speaks.contains(&Endpoint::Messages));
            unknown.push((backend.clone(), key, question));
        }
    }
    unknown
}

/// A question that costs nothing, by the way that requests go; `anthropic`: requests of Anthropic's API go there too.
fn question(engine: &Engine, backend: &Backend, key: &Secret, anthropic: bool) -> Outgoing {
    let mut headers = HeaderMap::new();
    address::authorise(&mut headers, engine, if anthropic { Endpoint::Messages } else { Endpoint::Chat }, key);
    if anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    // Azure lists models beside its deployments, not within one.
    let spec = policy::Backend { deployment: None, ..backend.spec.clone() };
    Outgoing { method: Method::GET, url: address::url(engine, &spec, "/v1/models", None), headers, body: Bytes::new() }
}
