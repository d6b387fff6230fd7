//! Proxies of the environment for requests that leave the gateway: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and
//! `NO_PROXY`, as curl and the SDKs of providers read them.

use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use super::{network::Network, scalar::Scalar};

/// Proxies of the environment, and the hosts that are reached without one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    without: Vec<Exception>,
    /// Variables that cannot be used, each with the reason.
    problems: Vec<String>,
}

/// Hosts that are reached without a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    All,
    Network(Network),
    /// A domain with the names below it, or an address, at any port or one.
    Host(String, Option<u16>),
}

impl Proxies {
    /// The proxies of this process, read once.
    pub fn of_process() -> Arc<Self> {
        static READ: LazyLock<Arc<Proxies>> =
            LazyLock::new(|| Arc::new(Proxies::read(&|name| std::env::var(name).ok())));
        READ.clone()
    }

    /// Reads the variables that `value_of` returns.
    pub fn read(value_of: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut proxies = Self::default();
        let set = |name: &str| value_of(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut either = |name: &str| {
            let (name, text) =
                [name.to_lowercase(), name.to_owned()].into_iter().find_map(|it| Some((it.clone(), set(&it)?)))?;
            address(&text).map_err(|why| proxies.problems.push(format!("{name} {why}"))).ok()
        };
        let all = either("ALL_PROXY");
        let https = either("HTTPS_PROXY").or_else(|| all.clone());
        // A CGI server sets this variable from a header of its client, in capitals.
        let http = if value_of("REQUEST_METHOD").is_some() { None } else { either("HTTP_PROXY") };
        (proxies.http, proxies.https) = (http.or(all), https);
        let list = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
        let entries = list.split([',', ' ']).filter(|entry| !entry.is_empty());
        proxies.without = entries.map(Exception::read).collect();
        proxies
    }

    /// The proxy for requests to `url`. Engines on this machine are reached directly.
    pub fn of(&self, url: &str) -> Option<&str> {
        let is_tls = url.starts_with("https:") || url.starts_with("wss:");
        let proxy = if is_tls { &self.https } else { &self.http }.as_deref()?;
        let (host, port) = authority(url)?;
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        let is_local = host == "localhost" || host.ends_with(".localhost") || ip.is_some_and(|ip| ip.is_loopback());
        let port = port.unwrap_or(if is_tls { 443 } else { 80 });
        let is_direct = is_local || self.without.iter().any(|exception| exception.holds(&host, ip, port));
        (!is_direct).then_some(proxy)
    }

    /// True if no request takes a proxy.
    pub fn is_empty(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }

    /// Variables that cannot be used, each with the reason.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for Proxies {
    /// Writes the proxies without their credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |url: &Option<String>| {
            let Some((scheme, rest)) = url.as_deref().and_then(|url| url.split_once("://")) else {
                return "none".to_owned();
            };
            let place = rest.split('/').next().unwrap_or_default();
            format!("{scheme}://{}", place.rsplit('@').next().unwrap_or_default())
        };
        write!(f, "https={} http={} exceptions={}", shown(&self.https), shown(&self.http), self.without.len())
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Exception {
    fn read(text: &str) -> Self {
        if text == "*" {
            return Self::All;
        }
        if let Ok(network) = Network::read(text.trim_start_matches('[').trim_end_matches(']')) {
            return Self::Network(network);
        }
        let (host, port) = authority(text).unwrap_or((text, None));
        let host = host.trim_start_matches('*').trim_start_matches('.').trim_end_matches('.');
        Self::Host(host.to_ascii_lowercase(), port)
    }

    fn holds(&self, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Network(network) => ip.is_some_and(|ip| network.contains(ip)),
            Self::Host(name, at) => {
                let is_below = || host.strip_suffix(&**name).is_some_and(|front| front.ends_with('.'));
                let is_named = match (ip, name.parse::<IpAddr>()) {
                    (Some(ip), own) => own.is_ok_and(|own| own.to_canonical() == ip),
                    (None, _) => host == name || (!name.is_empty() && is_below()),
                };
                is_named && at.is_none_or(|at| at == port)
            }
        }
    }
}

/// The address of a proxy with its scheme, or the reason why it cannot be used.
pub(super) fn address(text: &str) -> Result<String, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let scheme = url.split("://").next().unwrap_or_default().to_ascii_lowercase();
    if authority(&url).is_none_or(|(host, _)| host.is_empty()) {
        return Err("is not the address of a proxy".to_owned());
    }
    if !["http", "https", "socks4", "socks4a", "socks5", "socks5h"].contains(&&*scheme) {
        return Err(format!("has the scheme '{scheme}', and http, https and socks5 are supported"));
    }
    Ok(url)
}

/// Host and port of a URL or of an authority; an IPv6 address without its brackets.
fn authority(url: &str) -> Option<(&str, Option<u16>)> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next()?;
    let place = place.rsplit('@').next()?;
    if let Some(inner) = place.strip_prefix('[') {
        let (host, rest) = inner.split_once(']')?;
        return Some((host, rest.strip_prefix(':').and_then(|port| port.parse().ok())));
    }
    match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => Some((host, Some(port.parse().ok()?))),
        _ => Some((place, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Proxies {
        let of = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        Proxies::read(&of)
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        let both = read(&[("HTTPS_PROXY", "http://a:1"), ("http_proxy", "b:2"), ("HTTP_PROXY", "c:3")]);
        assert_eq!(
            (both.of("https://x.example/v1"), both.of("http://x.example/v1")),
            (Some("http://a:1"), Some("http://b:2"))
        );
        let all = read(&[("all_proxy", "socks5://s:1080"), ("https_proxy", "http://a:1")]);
        assert_eq!(
            (all.of("https://x.example"), all.of("http://x.example")),
            (Some("http://a:1"), Some("socks5://s:1080"))
        );
        assert!(read(&[]).is_empty() && read(&[("HTTPS_PROXY", " ")]).is_empty());
        assert_eq!(read(&[("HTTP_PROXY", "http://a:1"), ("REQUEST_METHOD", "GET")]).of("http://x.example"), None);
        for odd in ["ftp://a:1", "http://", "http://:80"] {
            let odd = read(&[("HTTPS_PROXY", odd)]);
            assert_eq!((odd.is_empty(), odd.problems().len()), (true, 1), "{odd}");
        }
    }

    #[test]
    fn exceptions_are_hosts_suffixes_networks_and_ports() {
        let direct = |list: &str, url: &str| read(&[("ALL_PROXY", "http://p:1"), ("NO_PROXY", list)]).of(url).is_none();
        for (list, url) in [
            ("*", "https://x.example"),
            ("x.example", "https://x.example/v1"),
            ("X.Example", "https://x.EXAMPLE./v1"),
            ("example", "https://x.example"),
            (".example", "https://x.example"),
            ("*.example", "https://x.example:8443"),
            ("a, x.example ,b", "https://x.example"),
            ("x.example:443", "https://x.example"),
            ("10.0.0.0/8", "http://10.1.2.3:8000/v1"),
            ("10.1.2.3", "http://10.1.2.3:8000/v1"),
            ("10.1.2.3:8000", "http://10.1.2.3:8000/v1"),
            ("fd00::/8", "http://[fd00::1]:8000/v1"),
            ("[fd00::1]", "http://[fd00::1]/v1"),
            ("[fd00::1]:80", "http://[fd00::1]/v1"),
            ("", "http://127.0.0.1:8000/v1"),
            ("", "http://[::1]:8000/v1"),
            ("", "https://localhost/v1"),
        ] {
            assert!(direct(list, url), "{list}: {url}");
        }
        for (list, url) in [
            ("", "https://x.example"),
            ("ample", "https://x.example"),
            ("y.example", "https://x.example"),
            ("x.example:80", "https://x.example"),
            ("10.0.0.0/8", "http://11.1.2.3"),
            ("10.1.2.3:80", "http://10.1.2.3:8000/v1"),
            ("3", "http://10.1.2.3/v1"),
        ] {
            assert!(!direct(list, url), "{list}: {url}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let shown =
            read(&[("HTTPS_PROXY", "http://user:secret@proxy.example:3128/x"), ("NO_PROXY", "a,b")]).to_string();
        assert_eq!(shown, "https=http://proxy.example:3128 http=none exceptions=2");
    }
}
