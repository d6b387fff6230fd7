//! Authentication: looks up the API key by its hash and counts the request, before any byte of the body is read. A
//! policy without keys admits every caller.

use std::borrow::Cow;

use http::{HeaderMap, StatusCode, header};

use super::{
    Reply, Serving, Step,
    route::check_endpoint,
    serving::Secret,
    stages::{Arrival, Authed},
};
use signalbox_quota::calendar;
use signalbox_types::{Fault, wall_clock};

pub(super) struct Auth<S>(pub S);

impl<S: Step<Authed>> Step<Arrival> for Auth<S> {
    async fn call(&self, arrival: Arrival) -> Result<Reply, Fault> {
        let key = check(&arrival.serving, arrival.request.headers())?;
        if let Some(at) = key {
            let Arrival { record, serving, .. } = &arrival;
            let caller = serving.caller(at);
            record.progress().authenticated(caller.id.clone());
            record.charge(caller.clone()).enter(record.arrived()).await?;
            check_endpoint(&serving.snapshot.policy.keys[at], arrival.endpoint)?;
        }
        self.0.boxed(Authed { arrival, key }).await
    }
}

/// Returns the index in the policy of the key in `headers`, or `None` if the policy has no keys.
pub(super) fn check(serving: &Serving, headers: &HeaderMap) -> Result<Option<usize>, Fault> {
    if !serving.snapshot.policy.asks_keys() {
        return Ok(None);
    }
    let Some(secret) = secret(headers) else {
        return Err(refused("no API key was sent: put it into the header 'Authorization: Bearer …'"));
    };
    let known = serving.secret(blake3::hash(secret.as_bytes()).as_bytes()).or_else(|| serving.secret(&sha256(secret)));
    let Some(Secret { key, hash, valid_until }) = known else {
        return Err(refused("the API key is not known here: check it, or ask the operator of this gateway for one"));
    };
    let caller = serving.caller(key);
    if caller.is_revoked(&hash) {
        return Err(refused("the API key was revoked: ask the operator of this gateway for another"));
    }
    if let Some(unix) = caller.expired_at() {
        let expired = calendar::written(unix);
        return Err(refused(format!("the API key expired at {expired}: ask the operator of this gateway for another")));
    }
    if let Some(unix) = valid_until.filter(|until| *until <= wall_clock::seconds()) {
        let replaced = calendar::written(unix);
        return Err(refused(format!(
            "this secret of the API key was replaced and is not valid since {replaced}: use the new one"
        )));
    }
    Ok(Some(key))
}

/// The other hash that a policy may have of a key.
fn sha256(secret: &str) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, secret.as_bytes());
    // A SHA-256 digest has 32 bytes; no policy has the empty one.
    digest.as_ref().try_into().unwrap_or_default()
}

fn secret(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, secret) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
    });
    let plain = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    bearer.or_else(|| plain("x-api-key")).or_else(|| plain("api-key"))
}

fn refused(message: impl Into<Cow<'static, str>>) -> Fault {
    Fault::client(StatusCode::UNAUTHORIZED, "unauthorized", message)
        .with_class("authentication_error")
        .with_code("invalid_api_key")
}
