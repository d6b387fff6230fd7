//! Routing overrides that clients set by header. A key permits them one by one; a gateway that requires no keys and
//! listens on loopback permits all.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};

use signalbox_config::{duration, nearest};
use signalbox_policy::{Allowed, PRIORITY, Policy};
use signalbox_types::Fault;

const BOUND: &str = "x-signalbox-bound-ttft";
const POOL: &str = "x-signalbox-pool";
const PRIORITY_OF: &str = "x-signalbox-priority";
const SESSION: &str = "x-signalbox-session";

/// Overrides set by a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    /// Limit on the time to the first token, in place of the route's.
    pub(super) bound: Option<Duration>,
    /// Index of the pool to use.
    pub(super) pool: Option<usize>,
}

impl Overrides {
    /// Reads the overrides from the headers. `key` is the index of the caller's key in the policy.
    ///
    /// # Errors
    /// A fault if a header is invalid, or not permitted for the caller.
    pub(super) fn read(policy: &Policy, key: Option<usize>, headers: &HeaderMap) -> Result<Self, Fault> {
        let value = |name, what| value(policy, key, headers, name, what);
        let bound = value(BOUND, Allowed::BoundTtft)?.map(|value| {
            let bound = value.to_str().ok().and_then(|text| duration(text).ok());
            let fault = || Fault::field(BOUND, format!("'{BOUND}' is a time with its unit, such as 800ms or 2s"));
            bound.ok_or_else(fault)
        });
        let pool = value(POOL, Allowed::Pool)?.map(|value| {
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
        if let Some(given) = value(PRIORITY_OF, Allowed::Priority)?
            && digit(given).is_none()
        {
            let message = format!("'{PRIORITY_OF}' is a digit from 0 (last) to 9 (first)");
            return Err(Fault::field(PRIORITY_OF, message));
        }
        // A session is not a privilege, so callers without a key may always set it.
        if key.is_some() {
            value(SESSION, Allowed::Session)?;
        }
        Ok(Self { bound: bound.transpose()?, pool: pool.transpose()? })
    }
}

/// Returns the priority: the caller's, whose permission was checked before, else the key's.
pub(crate) fn priority(policy: &Policy, key: Option<usize>, headers: &HeaderMap) -> u8 {
    let usual = key.map_or(PRIORITY, |at| policy.keys[at].priority);
    headers.get(PRIORITY_OF).and_then(digit).unwrap_or(usual)
}

fn digit(value: &HeaderValue) -> Option<u8> {
    match value.as_bytes() {
        [digit @ b'0'..=b'9'] => Some(digit - b'0'),
        _ => None,
    }
}

fn value<'a>(
    policy: &Policy,
    key: Option<usize>,
    headers: &'a HeaderMap,
    name: &'static str,
    what: Allowed,
) -> Result<Option<&'a HeaderValue>, Fault> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    if !policy.may_decide(key, what) {
        let message = format!(
            "'{name}' may be set only with a key that allows it (allow: [{}] in the policy), or where the gateway asks for no keys and \
             listens on loopback",
            what.name()
        );
        return Err(Fault::client(StatusCode::FORBIDDEN, "override_refused", message).with_code("override_refused"));
    }
    Ok(Some(value))
}
