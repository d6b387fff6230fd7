//! What a client may decide itself, by headers: where nobody is asked for a key and only this machine can ask, everybody may.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};

use crate::{
    config::{duration, nearest},
    policy::Policy,
    types::Fault,
};

const BOUND: &str = "x-signalbox-bound-ttft";
const POOL: &str = "x-signalbox-pool";

/// What a client decides itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    /// The bound on the time to the first token, in the place of its route's.
    pub(super) bound: Option<Duration>,
    /// Place of the pool to be used.
    pub(super) pool: Option<usize>,
}

impl Overrides {
    pub(super) fn read(policy: &Policy, headers: &HeaderMap) -> Result<Self, Fault> {
        let bound = value(policy, headers, BOUND)?.map(|value| {
            let bound = value.to_str().ok().and_then(|text| duration(text).ok());
            let fault = || Fault::field(BOUND, format!("'{BOUND}' is a time with its unit, such as 800ms or 2s"));
            bound.ok_or_else(fault)
        });
        let pool = value(policy, headers, POOL)?.map(|value| {
            let name = value.to_str().unwrap_or_default();
            let names = || policy.pools.iter().map(|pool| &*pool.name);
            names().position(|pool| pool == name).ok_or_else(|| {
                let help = match nearest(name, names()) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => {
                        format!("there is {}", names().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "))
                    }
                };
                Fault::field(POOL, format!("'{POOL}' names no pool of this gateway: {help}"))
            })
        });
        Ok(Self { bound: bound.transpose()?, pool: pool.transpose()? })
    }
}

fn value<'a>(policy: &Policy, headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a HeaderValue>, Fault> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    if !policy.keys.is_empty() || !policy.listen.ip().is_loopback() {
        let message = format!("'{name}' may be set only where the gateway asks for no keys and listens on loopback");
        return Err(Fault::client(StatusCode::FORBIDDEN, "override_refused", message).with_code("override_refused"));
    }
    Ok(Some(value))
}
