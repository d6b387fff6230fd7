//! Servers that are reached at an address but called by a name: TLS checks the name, and `Host` carries it.
//!
//! An engine that was found by DNS is known by its address, so that the engines of one name stay apart. An HTTP client
//! takes the name for TLS from the URL, and pools connections by it. So each such address has clients of its own, whose
//! only resolver leads to that address.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;

use signalbox_config::Proxies;

/// Time for which an idle connection is kept. Common engine servers close theirs after 5 s of silence.
pub(super) const IDLE: Duration = Duration::from_secs(4);

/// Clients by scheme and authority of an address.
#[derive(Clone, Debug)]
pub(super) struct NamedHosts {
    hosts: Arc<ArcSwap<HashMap<String, Host>>>,
    connect: Duration,
}

#[derive(Clone, Debug)]
struct Host {
    name: String,
    /// Scheme and authority with the name.
    base: String,
    pooled: reqwest::Client,
    fresh: reqwest::Client,
}

impl NamedHosts {
    pub(super) fn new(connect: Duration) -> Self {
        Self { hosts: Arc::default(), connect }
    }

    /// Keeps the clients of addresses whose name stays, and with them their connections. Blocks on the disk, where
    /// root certificates are.
    pub(super) fn replace<'a>(&self, hosts: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), reqwest::Error> {
        let before = self.hosts.load();
        let mut next = HashMap::new();
        for (url, name) in hosts {
            let Some((base, address)) = place(url) else { continue };
            let host = match before.get(base).filter(|known| known.name == name) {
                Some(known) => known.clone(),
                None => self.host(base, address, name)?,
            };
            next.insert(base.to_owned(), host);
        }
        self.hosts.store(Arc::new(next));
        Ok(())
    }

    fn host(&self, base: &str, address: SocketAddr, name: &str) -> Result<Host, reqwest::Error> {
        let build = |idle| builder(self.connect, idle).resolve(name, address).build();
        let scheme = base.split_once("://").map_or("https", |(scheme, _)| scheme);
        let base = format!("{scheme}://{name}:{}", address.port());
        Ok(Host { name: name.to_owned(), base, pooled: build(usize::MAX)?, fresh: build(0)? })
    }

    /// True if the address of `url` has a name.
    pub(super) fn has(&self, url: &str) -> bool {
        let hosts = self.hosts.load();
        !hosts.is_empty() && split(url).is_some_and(|(base, _)| hosts.contains_key(base))
    }

    /// The client for the address of `url`, and the URL by which its server is called, if it has a name.
    pub(super) fn find(&self, fresh: bool, url: &str) -> Option<(reqwest::Client, String)> {
        let hosts = self.hosts.load();
        if hosts.is_empty() {
            return None;
        }
        let (base, rest) = split(url)?;
        let host = hosts.get(base)?;
        Some((if fresh { &host.fresh } else { &host.pooled }.clone(), format!("{}{rest}", host.base)))
    }
}

/// The way through the proxies of the environment.
pub(super) fn proxy() -> reqwest::Proxy {
    let proxies = Proxies::of_process();
    reqwest::Proxy::custom(move |url| proxies.of(url.as_str()).map(str::to_owned))
}

/// Settings of every client, which takes no proxy: `idle_per_host` connections are kept.
pub(super) fn builder(connect: Duration, idle_per_host: usize) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(connect)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle_per_host)
        .tcp_nodelay(true)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
}

/// Scheme with authority, and the rest.
fn split(url: &str) -> Option<(&str, &str)> {
    let authority = url.find("://")? + 3;
    let end = url[authority..].find('/').map_or(url.len(), |at| authority + at);
    Some(url.split_at(end))
}

/// Scheme with authority, and the address that it states.
fn place(url: &str) -> Option<(&str, SocketAddr)> {
    let (base, _) = split(url)?;
    let (scheme, authority) = base.split_once("://")?;
    let usual = if scheme == "https" { 443 } else { 80 };
    let address = authority.parse().ok();
    let without_port =
        || Some(SocketAddr::new(authority.trim_start_matches('[').trim_end_matches(']').parse().ok()?, usual));
    Some((base, address.or_else(without_port)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_a_name_are_called_by_it() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let named = NamedHosts::new(Duration::from_secs(1));
        let called = |url: &str| named.find(false, url).map_or_else(|| url.to_owned(), |(_, url)| url);
        assert_eq!(called("https://10.0.0.1/v1/x"), "https://10.0.0.1/v1/x");
        let hosts = [
            ("https://10.0.0.1/v1", "gpu.example"),
            ("https://[::1]:8443/v1", "gpu.example"),
            ("https://name/v1", "no"),
        ];
        named.replace(hosts.into_iter()).unwrap();
        assert_eq!(called("https://10.0.0.1/v1/x?y=z"), "https://gpu.example:443/v1/x?y=z");
        assert_eq!(called("https://[::1]:8443/metrics"), "https://gpu.example:8443/metrics");
        assert_eq!(called("https://10.0.0.2/v1"), "https://10.0.0.2/v1");
        named.replace(std::iter::empty()).unwrap();
        assert_eq!(called("https://10.0.0.1/v1"), "https://10.0.0.1/v1");
    }
}
