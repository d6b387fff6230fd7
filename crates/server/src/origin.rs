//! Host names and origins of requests: names that a listener answers to, and pages that a browser says a request comes from.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use http::{HeaderMap, header, uri::Authority};

use signalbox_types::Name;

/// True if `host`, with or without a port, is this machine independent of DNS: a loopback address or `localhost`.
pub(super) fn is_local(host: &str) -> bool {
    bare(host).is_some_and(|host| match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    })
}

/// The host in `authority`, without port and brackets.
fn bare(authority: &str) -> Option<String> {
    let authority = authority.parse::<Authority>().ok().filter(|it| !it.as_str().contains('@'))?;
    let host = authority.host();
    Some(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned())
}

/// Names that a listener answers to.
pub(super) struct Names<'a> {
    /// Its address.
    pub(super) listen: SocketAddr,
    /// Further host names from the policy.
    pub(super) hosts: &'a [Name],
}

impl Names<'_> {
    /// Returns the name that a request was sent to if it is not one of the listener's. A web page may let its own name resolve to this
    /// listener's address and then read the answers in spite of the same-origin policy (DNS rebinding).
    pub(super) fn foreign<'r>(&self, request: &'r Request) -> Option<&'r str> {
        let named = request.headers().get_all(header::HOST).into_iter().map(|host| host.to_str().unwrap_or_default());
        let asked = request.uri().authority().map(Authority::as_str);
        named.chain(asked).find(|host| !self.admit(host))
    }

    fn admit(&self, host: &str) -> bool {
        let Some(name) = bare(host) else { return false };
        // A listener on all addresses cannot know which of them is routed to it. Literal addresses are safe: they cannot be rebound.
        let own = name.parse::<IpAddr>().is_ok_and(|it| it == self.listen.ip() || self.listen.ip().is_unspecified());
        own || is_local(host) || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(&name))
    }
}

/// True if the `Origin` header names this listener.
pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, origin)| origin == host),
        _ => false,
    }
}

/// Value of the `Origin` header; `null` counts too.
pub(super) fn origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_and_localhost_are_local() {
        for host in ["127.0.0.1:4101", "127.0.0.1", "127.8.9.1", "[::1]:4101", "[::1]", "localhost", "LocalHost:4101"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:4101",
            "localhost.evil.example",
            "evil.localhost",
            "127.0.0.1.evil.example:80",
            "10.0.0.7:80",
            "0.0.0.0",
            "2130706433",
            "0x7f.1",
            "evil.example@127.0.0.1",
            "[::2]",
            "",
            ":80",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn a_listener_answers_to_its_address_and_its_names() {
        let hosts = ["signalbox.internal".into(), "::2".into()];
        let at = |listen: &str| Names { listen: listen.parse().unwrap(), hosts: &hosts };
        let near = at("10.0.0.7:4101");
        for host in ["10.0.0.7", "10.0.0.7:9", "localhost", "Signalbox.Internal:4101", "[::2]:4101"] {
            assert!(near.admit(host), "{host}");
        }
        for host in ["10.0.0.8", "signalbox.internal.evil.example", "evil.example", "u@10.0.0.7"] {
            assert!(!near.admit(host), "{host}");
        }
        assert!(at("0.0.0.0:4101").admit("10.0.0.8:4101") && !at("0.0.0.0:4101").admit("evil.example"));
    }
}
