//! Client of a running gateway's admin API, for commands.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::output;
use signalbox_config::Config;
use signalbox_policy::{Policy, compile};
use signalbox_upstream::{Client, outgoing::Outgoing};

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// Address and credential of a running gateway.
#[derive(Debug, clap::Args)]
pub(super) struct Gateway {
    /// Address of the gateway's admin listener: `HOST:PORT` or a URL [env: `SIGNALBOX_ADMIN`] [default: `http://127.0.0.1:4101`]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// The policy file of the gateway, for that address [env: `SIGNALBOX_CONFIG`]
    #[arg(long, short, conflicts_with = "admin")]
    config: Option<PathBuf>,
    /// Operators' token, if the gateway requires one [default: `SIGNALBOX_ADMIN_TOKEN`]
    #[arg(long)]
    token: Option<String>,
}

/// Operators' token from the environment.
pub(super) fn token_from_env() -> Option<String> {
    std::env::var("SIGNALBOX_ADMIN_TOKEN").ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

impl Gateway {
    /// Base URL, without a trailing slash.
    pub(super) fn base(&self) -> io::Result<String> {
        admin_url(self.admin.as_deref(), self.config.clone()).map_err(io::Error::other)
    }

    /// Operators' token from the command line or the environment.
    pub(super) fn token(&self) -> Option<String> {
        self.token.clone().filter(|token| !token.is_empty()).or_else(token_from_env)
    }

    /// Sends a request to `path`. If the gateway refuses, prints the reason and returns `None`.
    pub(super) fn ask(&self, method: Method, path: &str, query: &[(&str, &str)]) -> io::Result<Option<Bytes>> {
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        self.request(method, &format!("{path}?{}", query.join("&")), Bytes::new())
    }

    /// Sends `body` as JSON to `path`, like [`ask`](Self::ask).
    pub(super) fn send(&self, method: Method, path: &str, body: &Value) -> io::Result<Option<Bytes>> {
        self.request(method, path, body.to_string().into())
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> io::Result<Option<Bytes>> {
        let base = self.base()?;
        let url = format!("{base}{path}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (status, body) =
            runtime.block_on(send(method, url, self.token(), body)).map_err(|error| unreached(&base, &error))?;
        if status.is_success() {
            return Ok(Some(body));
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason was given");
        let message = in_commands(message);
        output::complain(&format!("signalbox: the gateway at {base} answered {}: {message}\n", status.as_u16()));
        Ok(None)
    }
}

/// A message of the admin API with commands in place of requests.
fn in_commands(message: &str) -> String {
    const COMMANDS: [(&str, &str); 4] = [
        ("GET /admin/backends", "`signalbox backend list`"),
        ("GET /admin/keys", "`signalbox key list`"),
        ("POST /admin/backends/{pool}/{id}/drain", "`signalbox backend drain`"),
        ("change it with PATCH", "change it with `signalbox key update`"),
    ];
    COMMANDS.iter().fold(message.to_owned(), |message, (request, command)| message.replace(request, command))
}

/// The error of a gateway that does not answer, with the address that was tried.
pub(super) fn unreached(base: &str, error: &impl std::fmt::Display) -> io::Error {
    let usual = "start one with `signalbox serve`, or name its admin address with --admin ADDRESS or --config FILE";
    io::Error::other(format!("no gateway answers at {base}: {error}: {usual}"))
}

/// URL of an admin listener, without a trailing slash: of the address `admin`, of the policy `config`, of the
/// environment, or the usual one. The error is formatted for people.
pub(super) fn admin_url(admin: Option<&str>, config: Option<PathBuf>) -> Result<String, String> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let from_env = || variable("SIGNALBOX_ADMIN").map(|address| address.to_string_lossy().into_owned());
    match (admin, config) {
        (Some(address), _) => Ok(url(address)),
        (None, Some(file)) => of_policy(&file),
        (None, None) => match (from_env(), variable("SIGNALBOX_CONFIG")) {
            (Some(address), _) => Ok(url(&address)),
            (None, Some(file)) => of_policy(Path::new(&file)),
            (None, None) => Ok(of_listeners(&Policy::default())),
        },
    }
}

/// The address at which the gateway of a policy has its admin API. Variables that are not set are no error: the policy
/// is read for its addresses alone.
fn of_policy(file: &Path) -> Result<String, String> {
    let policy = Config::load(file).and_then(|config| compile(&config.allowing_unset()));
    policy.map(|policy| of_listeners(&policy)).map_err(|problems| output::report(&problems))
}

/// The admin listener, or the API listener where that is off or asks for certificates of its clients.
fn of_listeners(policy: &Policy) -> String {
    let secured = |at: SocketAddr| policy.tls.is_some() && !at.ip().is_loopback();
    let admin = policy.admin.filter(|admin| !(secured(*admin) && policy.admin_access.client_roots.is_some()));
    let (at, secured) = match admin {
        Some(admin) => (admin, secured(admin)),
        None => (policy.listen, policy.tls.is_some()),
    };
    let scheme = if secured { "https" } else { "http" };
    format!("{scheme}://{}", reachable(at))
}

/// The address for clients on this machine.
fn reachable(at: SocketAddr) -> SocketAddr {
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, at.port())
}

/// A URL without a trailing slash, of an address or a URL.
fn url(address: &str) -> String {
    let address = address.trim_end_matches('/');
    if address.contains("://") { address.to_owned() } else { format!("http://{address}") }
}

async fn send(
    method: Method,
    url: String,
    token: Option<String>,
    body: Bytes,
) -> io::Result<(http::StatusCode, Bytes)> {
    let client = Client::new(CONNECT).map_err(io::Error::other)?;
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(io::Error::other)?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let asked = Outgoing { method, url, headers, body };
    let (head, body) = client.send(asked).await.map_err(io::Error::other)?.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?;
    Ok((head.status, body.to_bytes()))
}

/// Percent-encodes a value for a query or a path.
pub(super) fn encoded(value: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    value.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_percent_encoded() {
        assert_eq!(super::encoded("web-1"), "web-1");
        assert_eq!(super::encoded("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }

    #[test]
    fn addresses_become_urls() {
        assert_eq!(url("127.0.0.1:4101"), "http://127.0.0.1:4101");
        assert_eq!(url("https://gw:4101/"), "https://gw:4101");
    }

    #[test]
    fn a_policy_is_asked_at_its_admin_listener() {
        let base = |text: &str| {
            let text = format!("pools: {{ p: {{ backends: [http://a:8000/v1] }} }}\n{text}");
            let config =
                Config::parse("test.yaml", &text, &|_| None, &|_| Err(io::ErrorKind::NotFound.into())).unwrap();
            of_listeners(&compile(&config).unwrap())
        };
        assert_eq!(base(""), "http://127.0.0.1:4101");
        assert_eq!(base("admin: 127.0.0.2:9\n"), "http://127.0.0.2:9");
        assert_eq!(base("admin: { listen: 0.0.0.0:9, token: 0123456789abcdef }\n"), "http://127.0.0.1:9");
        assert_eq!(base("admin: { listen: \"[::]:9\", token: 0123456789abcdef }\n"), "http://[::1]:9");
        assert_eq!(base("admin: off\nlisten: 127.0.0.1:7\n"), "http://127.0.0.1:7");
    }
}
