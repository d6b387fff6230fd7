//! `signalbox health`: asks a running gateway if it serves, for health checks of containers and probes.

use std::{io, path::PathBuf, process::ExitCode, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::{operator::admin_url, output};
use signalbox_upstream::{Client, outgoing::Outgoing};

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
    /// Address of the admin listener, or of the API listener: `HOST:PORT` or a URL [env: `SIGNALBOX_ADMIN`] [default: `http://127.0.0.1:4101`]
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
    let base = match admin_url(args.admin.as_deref(), args.config.clone()) {
        Ok(base) => base,
        Err(problem) => {
            output::complain(&problem);
            return Ok(ExitCode::FAILURE);
        }
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
