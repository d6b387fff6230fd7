//! Paths that an engine serves, learned from requests that are invalid on purpose and generate nothing.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::{BodyExt, Collected, Limited};
use tokio::time::timeout;

use crate::{
    Client, EngineAccess,
    outgoing::{Outgoing, SendError},
};
use signalbox_engines::endpoint_evidence;
use signalbox_fleet::{ApiChange, Engine};
use signalbox_types::{Clock, EngineApi, Presence};

/// Body of a probe. No API takes an array: servers that route first answer 404 for an absent path, and those that parse
/// first accept its syntax.
const BODY: &[u8] = b"[]";
/// Time limit of a probe.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes read of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Longest interval at which an engine is looked at for paths that are due.
const LOOK: Duration = Duration::from_secs(1);

/// Probes one engine until the task is aborted: at the start, after each restart or outage, and each path whenever it is
/// due. One probe is under way at a time. `every` is the interval of its metrics, if they are read.
pub(super) async fn follow(
    engine: Arc<Engine>,
    access: EngineAccess,
    every: Option<Duration>,
    client: Client,
    clock: Clock,
) {
    let (mut lives, mut is_logged) = (None, engine.apis.is_asked());
    loop {
        let now_lives = Some(engine.lives());
        if lives != now_lives {
            lives = now_lives;
            engine.apis.ask_all(clock.now());
        }
        let changes = round(&engine, &access, &client, clock).await;
        log_changes(&engine, &changes);
        if !is_logged && engine.apis.is_asked() {
            is_logged = true;
            log_served(&engine);
        }
        tokio::time::sleep(every.map_or(LOOK, |every| every.min(LOOK)).mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

/// Asks for each path that is due, one after another, until one is not answered. Returns the changes to log.
async fn round(engine: &Engine, access: &EngineAccess, client: &Client, clock: Clock) -> Vec<(EngineApi, ApiChange)> {
    let mut changes = Vec::new();
    for api in engine.apis.due(clock.now()) {
        let Ok(Ok((presence, status))) = timeout(TIMEOUT, ask(client, &engine.id.url, access, api)).await else {
            engine.apis.postpone(clock.now());
            break;
        };
        changes.extend(engine.apis.probed(api, presence, status, clock.now()).map(|change| (api, change)));
    }
    changes
}

/// Logs the paths that an engine was found to serve.
fn log_served(engine: &Engine) {
    let served = engine.apis.served().unwrap_or_default();
    let (name, served) = (&engine.name, served.iter().map(|api| api.name()).collect::<Vec<_>>().join(" "));
    if served.is_empty() {
        tracing::warn!(engine = %name, "endpoints: engine '{name}' serves none yet, it is asked again within seconds; check its 'url'");
        return;
    }
    tracing::info!(engine = %name, served, "endpoints: engine '{name}' serves: {served}");
}

/// Logs the paths that an engine serves no longer, and those that it serves again.
fn log_changes(engine: &Engine, changes: &[(EngineApi, ApiChange)]) {
    let name = &engine.name;
    let names = |wanted: fn(&ApiChange) -> bool| {
        let such = changes.iter().filter(|(_, change)| wanted(change));
        such.map(|(api, _)| api.path()).collect::<Vec<_>>().join(" ")
    };
    let gone = names(|change| matches!(change, ApiChange::Gone(_)));
    if let Some(status) = changes.iter().find_map(|(_, change)| change.status()) {
        tracing::warn!(
            engine = %name, gone, status,
            "endpoints: engine '{name}' serves {gone} no longer, a probe got {status}: requests go to other backends or are \
             translated, and it is asked again within seconds, later once a minute; check its version and the options it was \
             started with, or set 'speaks' of its pool"
        );
    }
    let found = names(|change| matches!(change, ApiChange::Found(_)));
    if let Some(missing_s) = changes.iter().filter_map(|(_, change)| change.missing_for()).max() {
        let missing_s = missing_s.as_secs();
        tracing::info!(engine = %name, found, missing_s, "endpoints: engine '{name}' serves {found} now, missing for {missing_s} s");
    }
}

/// Asks an engine at the base address `base` whether it serves a path.
pub async fn probe(client: &Client, base: &str, access: &EngineAccess, api: EngineApi) -> Result<Presence, SendError> {
    Ok(ask(client, base, access, api).await?.0)
}

/// Asks for a path. Returns the status of the answer with what it says.
async fn ask(client: &Client, base: &str, access: &EngineAccess, api: EngineApi) -> Result<(Presence, u16), SendError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if api == EngineApi::Messages {
        // Required by the API.
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    headers.extend(access.headers());
    let url = access.api_url(base, api.path());
    let asked = Outgoing { method: Method::POST, url, headers, body: Bytes::from_static(BODY) };
    let (head, body) = client.send(asked).await?.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map(Collected::to_bytes).unwrap_or_default();
    let status = head.status.as_u16();
    Ok((endpoint_evidence::probed(status, &body), status))
}
