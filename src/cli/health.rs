//! `signalbox health`: asks a running gateway if it serves, for health checks of containers and probes.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::output;
use crate::{
    config::Config,
    policy::{Policy, compile},
    upstream::{Client, client::Outgoing},
};

/// Time limit of the whole check. Container engines give one 30 s, Kubernetes 1 s unless it is set.
const LIMIT: Duration = Duration::from_secs(3);
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  signalbox health                            the gateway on this machine, at its usual admin address
  signalbox health --config signalbox.yaml    at the admin address of that policy
  signalbox health --admin 10.0.0.7:4101 --ready

Exit code 0: it serves. Exit code 1: nothing answers in 3 s, something else answers, or, with --ready, it is draining.")]
pub(super) struct Args {
    /// Address of the admin listener, or of the API listener: `HOST:PORT` or a URL [default: `http://127.0.0.1:4101`]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// The policy file of the gateway, for its addresses [env: `SIGNALBOX_CONFIG`]
    #[arg(long, short, conflicts_with = "admin")]
    config: Option<PathBuf>,
    /// Fail while the gateway drains or starts, as a probe of readiness
    #[arg(long)]
    ready: bool,
}

pub(super) fn health(args: &Args) -> io::Result<ExitCode> {
    let from_env = || std::env::var_os("SIGNALBOX_CONFIG").filter(|file| !file.is_empty()).map(PathBuf::from);
    let base = match (&args.admin, args.config.clone().or_else(from_env)) {
        (Some(address), _) => url(address),
        (None, Some(file)) => match of_policy(&file) {
            Ok(base) => base,
            Err(problem) => {
                output::complain(&problem);
                return Ok(ExitCode::FAILURE);
            }
        },
        (None, None) => of_listeners(&Policy::default()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(async { tokio::time::timeout(LIMIT, ask(&base)).await });
    match asked.unwrap_or_else(|_| Err(format!("no answer in {} s", LIMIT.as_secs()))) {
        Ok(status) if status == "ready" => output::print(&format!("ready: {base}\n")).map(|()| ExitCode::SUCCESS),
        Ok(status) => {
            output::print(&format!("{status}: {base}\n"))?;
            Ok(if args.ready { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(why) => {
            output::complain(&format!(
                "signalbox: no gateway at {base}: {why} (another address: --admin ADDRESS or --config FILE)\n"
            ));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The status that a gateway reports: `ready`, or another while it lives and takes no new work.
async fn ask(base: &str) -> Result<String, String> {
    let client = Client::for_probes(LIMIT).map_err(|error| error.to_string())?;
    let url = format!("{base}/readyz");
    let asked = Outgoing { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new() };
    let (head, body) = client.send(asked).await.map_err(|error| error.to_string())?.into_parts();
    let body =
        Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|_| "its answer broke off".to_owned())?.to_bytes();
    let status = serde_json::from_slice::<Value>(&body).ok().and_then(|body| Some(body["status"].as_str()?.to_owned()));
    status
        .filter(|_| matches!(head.status, StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE))
        .ok_or_else(|| format!("something else answers there, with status {}", head.status.as_u16()))
}

/// The address at which the gateway of a policy reports its health.
fn of_policy(file: &Path) -> Result<String, String> {
    let policy = Config::load(file).and_then(|config| compile(&config));
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

#[cfg(test)]
mod tests {
    use super::*;

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
