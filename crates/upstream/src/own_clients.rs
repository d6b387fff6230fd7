//! Servers with HTTP clients of their own: those that are called by a name, and those with certificates or a proxy of their
//! own.
//!
//! An engine that was found by DNS is known by its address, so that the engines of one name stay apart. An HTTP client
//! takes the name for TLS from the URL, and pools connections by it. So each such address has clients of its own, whose
//! only resolver leads to that address. Certificates and proxies are settings of a client as well.

use std::{collections::HashMap, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use arc_swap::ArcSwap;

use signalbox_config::{Proxies, connection::Proxy};
use signalbox_policy::{Connection, Engine};
use signalbox_types::ClientTls;

/// Time for which an idle connection is kept. Common engine servers close theirs after 5 s of silence.
pub(super) const IDLE: Duration = Duration::from_secs(4);

/// The client could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// The HTTP library refused its settings.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(#[from] reqwest::Error),
    /// A file of an engine's certificates cannot be used.
    #[error("the certificates of an engine cannot be read from {path}: {why}")]
    Certificate {
        /// Its path.
        path: String,
        /// The reason.
        why: String,
    },
}

impl SetUpError {
    fn certificate(path: Option<&Path>, why: &dyn std::fmt::Display) -> Self {
        let path = path.map_or_else(String::new, |path| path.display().to_string());
        Self::Certificate { path, why: why.to_string() }
    }
}

/// Clients by scheme and authority of an address.
#[derive(Clone, Debug)]
pub(super) struct OwnClients {
    hosts: Arc<ArcSwap<HashMap<String, Host>>>,
    connect: Duration,
}

#[derive(Clone, Debug)]
struct Host {
    settings: Settings,
    /// Scheme and authority by which the server is called.
    base: String,
    pooled: reqwest::Client,
    fresh: reqwest::Client,
}

/// Settings of the clients of a server.
#[derive(Clone, PartialEq)]
struct Settings {
    /// Its address and its name, if it is called by one.
    name: Option<(String, SocketAddr)>,
    connection: Connection,
    files: Files,
}

/// Contents of the files of its certificates, so that renewed ones are noticed.
#[derive(Clone, Default, PartialEq)]
struct Files {
    roots: Option<Vec<u8>>,
    /// A certificate and its key, one after the other.
    identity: Option<Vec<u8>>,
}

impl OwnClients {
    pub(super) fn new(connect: Duration) -> Self {
        Self { hosts: Arc::default(), connect }
    }

    /// Makes the clients of these engines. Keeps those whose settings stay, and with them their connections. Blocks on the
    /// disk, where certificates are.
    pub(super) fn replace<'a>(&self, engines: impl Iterator<Item = &'a Engine>) -> Result<(), SetUpError> {
        let before = self.hosts.load();
        let mut next = HashMap::new();
        for engine in engines {
            let connection = &engine.way.connection;
            let Some((base, _)) = split(&engine.url) else { continue };
            let name = engine.host.as_deref().and_then(|name| Some((name.to_owned(), place(base)?)));
            if name.is_none() && connection.is_usual() || next.contains_key(base) {
                continue;
            }
            let files = connection.tls.as_ref().map(Files::read).transpose()?.unwrap_or_default();
            let settings = Settings { name, connection: connection.clone(), files };
            let host = match before.get(base).filter(|known| known.settings == settings) {
                Some(known) => known.clone(),
                None => self.host(base, settings)?,
            };
            next.insert(base.to_owned(), host);
        }
        self.hosts.store(Arc::new(next));
        Ok(())
    }

    fn host(&self, base: &str, settings: Settings) -> Result<Host, SetUpError> {
        let build = |idle| settings.apply(builder(self.connect, idle))?.build().map_err(SetUpError::from);
        let (pooled, fresh) = (build(usize::MAX)?, build(0)?);
        let base = match &settings.name {
            Some((name, address)) => {
                let scheme = base.split_once("://").map_or("https", |(scheme, _)| scheme);
                format!("{scheme}://{name}:{}", address.port())
            }
            None => base.to_owned(),
        };
        Ok(Host { settings, base, pooled, fresh })
    }

    /// True if the server of `url` has clients of its own.
    pub(super) fn has(&self, url: &str) -> bool {
        let hosts = self.hosts.load();
        !hosts.is_empty() && split(url).is_some_and(|(base, _)| hosts.contains_key(base))
    }

    /// The client of the server of `url`, if it has one, and the URL by which that server is called.
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

impl Settings {
    fn apply(&self, mut builder: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, SetUpError> {
        builder = match (&self.name, &self.connection.proxy) {
            // A proxy would look the name up again.
            (Some((name, address)), _) => builder.resolve(name, *address),
            (None, None) => builder.proxy(proxy()),
            (None, Some(Proxy::Direct)) => builder,
            (None, Some(Proxy::At(url))) => builder.proxy(reqwest::Proxy::all(url)?),
        };
        let path = |of: fn(&ClientTls) -> Option<&Path>| self.connection.tls.as_ref().and_then(of);
        if let Some(pem) = &self.files.roots {
            let roots = reqwest::Certificate::from_pem_bundle(pem);
            let roots = roots.map_err(|error| SetUpError::certificate(path(|tls| tls.roots.as_deref()), &error))?;
            if roots.is_empty() {
                return Err(SetUpError::certificate(path(|tls| tls.roots.as_deref()), &"it has no certificate"));
            }
            builder = builder.tls_certs_only(roots);
        }
        if let Some(pem) = &self.files.identity {
            let own = |tls: &ClientTls| tls.identity.as_ref().map(|(certificate, _)| certificate.clone());
            let identity = reqwest::Identity::from_pem(pem).map_err(|error| {
                SetUpError::certificate(self.connection.tls.as_ref().and_then(own).as_deref(), &error)
            })?;
            builder = builder.identity(identity);
        }
        Ok(builder)
    }
}

// The files have a key.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("name", &self.name)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Files {
    fn read(tls: &ClientTls) -> Result<Self, SetUpError> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| SetUpError::certificate(Some(path), &error));
        let roots = tls.roots.as_deref().map(read).transpose()?;
        let identity = match &tls.identity {
            Some((certificate, key)) => Some([read(certificate)?, read(key)?].join(&b'\n')),
            None => None,
        };
        Ok(Self { roots, identity })
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

/// The address that a scheme with an authority states.
fn place(base: &str) -> Option<SocketAddr> {
    let (scheme, authority) = base.split_once("://")?;
    let usual = if scheme == "https" { 443 } else { 80 };
    let address = authority.parse().ok();
    address
        .or_else(|| Some(SocketAddr::new(authority.trim_start_matches('[').trim_end_matches(']').parse().ok()?, usual)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_policy::EngineWay;

    fn named(url: &str, name: &str) -> Engine {
        Engine { host: Some(name.into()), ..Engine::at("e".into(), url.to_owned()) }
    }

    #[test]
    fn addresses_with_a_name_are_called_by_it() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let own = OwnClients::new(Duration::from_secs(1));
        let called = |url: &str| own.find(false, url).map_or_else(|| url.to_owned(), |(_, url)| url);
        assert_eq!(called("https://10.0.0.1/v1/x"), "https://10.0.0.1/v1/x");
        let engines = [
            named("https://10.0.0.1/v1", "gpu.example"),
            named("https://[::1]:8443/v1", "gpu.example"),
            named("https://name/v1", "no"),
        ];
        own.replace(engines.iter()).unwrap();
        assert_eq!(called("https://10.0.0.1/v1/x?y=z"), "https://gpu.example:443/v1/x?y=z");
        assert_eq!(called("https://[::1]:8443/metrics"), "https://gpu.example:8443/metrics");
        assert_eq!(called("https://10.0.0.2/v1"), "https://10.0.0.2/v1");
        own.replace(std::iter::empty()).unwrap();
        assert_eq!(called("https://10.0.0.1/v1"), "https://10.0.0.1/v1");
    }

    #[test]
    fn certificates_that_cannot_be_used_are_named() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let tls = |roots: &str| {
            let tls = ClientTls { roots: Some(folder.path().join(roots)), identity: None };
            let connection = Connection { tls: Some(tls), proxy: None };
            let way = EngineWay { connection, ..EngineWay::default() };
            let engine = Engine { way, ..Engine::at("e".into(), "https://e.example/v1".to_owned()) };
            OwnClients::new(Duration::from_secs(1)).replace([&engine].into_iter()).unwrap_err().to_string()
        };
        std::fs::write(folder.path().join("empty.pem"), "").unwrap();
        assert!(tls("absent.pem").contains("absent.pem"), "{}", tls("absent.pem"));
        assert!(tls("empty.pem").contains("empty.pem"), "{}", tls("empty.pem"));
    }
}
