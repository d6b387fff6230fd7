//! Backends that are discovered at run time, as written in the file: DNS names, and files of endpoints.

use std::{net::IpAddr, net::SocketAddr, time::Duration};

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    patterns::text_schema,
    scalar::{Field, Pause, Scalar, choice, choice_schema},
};

/// Changes of the fleet at run time.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Discovery {
    /// The file that keeps the backends added and drained over the admin API. Default: they are lost with the process.
    pub state: Option<Field<String>>,
}

/// A DNS name whose addresses are backends, such as a headless Kubernetes service. It is resolved again when its TTL has
/// passed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// The name, such as `vllm.default.svc.cluster.local`.
    pub name: Field<HostName>,
    /// The port of every address. SRV records bring their own.
    pub port: Option<Field<Port>>,
    /// The records: `A` (the default; A and AAAA) or `SRV`, of which those with the lowest priority number are used.
    pub kind: Option<Field<RecordKind>>,
    /// The longest time between two resolutions; a shorter TTL of the records counts, from 1 s on. Default: `10s`.
    pub every: Option<Field<Duration>>,
    /// The time for which answers must stay empty before the last backends are given up. Default: `30s`.
    pub empty_after: Option<Field<Pause>>,
    /// The address of the DNS server, such as `10.96.0.10:53`. Default: those of `/etc/resolv.conf`.
    pub server: Option<Field<DnsServer>>,
    /// The host name for TLS and the `Host` header, over https. Default: `name`; with SRV, the name that the record points
    /// to.
    pub host: Option<Field<HostName>>,
}

/// The name of a host or a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(pub String);

impl Scalar for HostName {
    fn read(text: &str) -> Result<Self, Mistake> {
        let name = text.trim_end_matches('.');
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if name.parse::<IpAddr>().is_ok() {
            return Err(
                Mistake::new("an address, not a name").help("an address is a backend of its own: `- url: http://…`")
            );
        }
        if text.contains("://") || text.contains(':') {
            return Err(Mistake::new("not a host name").help(
                "write the bare name, such as `vllm.default.svc.cluster.local`; `port` and `scheme` stand beside it",
            ));
        }
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(Mistake::new("not a host name").help("write it like `vllm.default.svc.cluster.local`"));
        }
        // A final dot keeps the resolver from trying search domains.
        Ok(Self(text.to_ascii_lowercase()))
    }

    fn schema() -> Schema {
        text_schema(
            r"(?![0-9.]+$)(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?",
            &["vllm.default.svc.cluster.local"],
        )
    }
}

/// A TCP port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Port(pub u16);

impl Scalar for Port {
    fn read(text: &str) -> Result<Self, Mistake> {
        match text.parse() {
            Ok(port) if port > 0 => Ok(Self(port)),
            _ => Err(Mistake::new("not a port").help("write a number from 1 to 65535, such as `8000`")),
        }
    }

    fn schema() -> Schema {
        schemars::json_schema!({ "type": ["integer", "string"] })
    }
}

/// The DNS records that name the backends.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A and AAAA records.
    #[default]
    Address,
    /// SRV records.
    Service,
}

const KINDS: [(&str, RecordKind); 2] = [("A", RecordKind::Address), ("SRV", RecordKind::Service)];

impl Scalar for RecordKind {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(&text.to_ascii_uppercase(), &KINDS)
    }

    fn schema() -> Schema {
        choice_schema(&KINDS)
    }
}

/// The address of a DNS server, with port 53 unless another is given.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DnsServer(pub SocketAddr);

impl Scalar for DnsServer {
    fn read(text: &str) -> Result<Self, Mistake> {
        let whole = text.parse::<SocketAddr>().ok();
        let bare = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 53));
        whole.or_else(bare).map(Self).ok_or_else(|| {
            Mistake::new("not the address of a DNS server")
                .help("write `10.96.0.10`, or `127.0.0.1:5353` for another port than 53")
        })
    }

    fn schema() -> Schema {
        text_schema(
            r"[0-9.]+(?::[0-9]{1,5})?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5}",
            &["10.96.0.10"],
        )
    }
}

/// The scheme of discovered addresses.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain http.
    #[default]
    Http,
    /// TLS.
    Https,
}

const SCHEMES: [(&str, Scheme); 2] = [("http", Scheme::Http), ("https", Scheme::Https)];

impl Scheme {
    /// Its name in a URL.
    pub fn name(self) -> &'static str {
        SCHEMES[usize::from(self == Self::Https)].0
    }
}

impl Scalar for Scheme {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &SCHEMES)
    }

    fn schema() -> Schema {
        choice_schema(&SCHEMES)
    }
}

/// The path of an API below its server's root, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasePath(pub String);

impl Scalar for BasePath {
    fn read(text: &str) -> Result<Self, Mistake> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
        if !text.starts_with('/') || !text.bytes().all(is_plain) || text.split('/').any(|part| part == "..") {
            return Err(Mistake::new("not a path").help("write it like `/v1` (the default), or `/` for the root"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }

    fn schema() -> Schema {
        text_schema(r"/[A-Za-z0-9/_.~-]*", &["/v1", "/"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ports_and_servers_are_read() {
        assert_eq!(HostName::read("VLLM.default.svc.").unwrap().0, "vllm.default.svc.");
        assert_eq!(HostName::read("_http._tcp.vllm").unwrap().0, "_http._tcp.vllm");
        for text in ["", "a..b", "http://a", "a:80", "10.0.0.1", "::1", "a b", "é"] {
            assert!(HostName::read(text).is_err(), "{text}");
        }
        assert_eq!(
            (Port::read("8000"), Port::read("0").is_err(), Port::read("70000").is_err()),
            (Ok(Port(8000)), true, true)
        );
        let server = |text| DnsServer::read(text).map(|DnsServer(at)| at.to_string());
        assert_eq!(server("10.0.0.1").unwrap(), "10.0.0.1:53");
        assert_eq!(server("[::1]:5353").unwrap(), "[::1]:5353");
        assert!(server("dns.example").is_err());
        assert_eq!(RecordKind::read("srv"), Ok(RecordKind::Service));
        assert_eq!(BasePath::read("/").unwrap().0, "");
        assert_eq!(BasePath::read("/v1/").unwrap().0, "/v1");
        assert!(["v1", "/a/../b", "/a?b", ""].iter().all(|text| BasePath::read(text).is_err()));
    }
}
