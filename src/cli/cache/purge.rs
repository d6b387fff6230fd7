//! `signalbox cache purge`: makes a running gateway forget answers.

use std::{io, process::ExitCode, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{
    cli::output,
    upstream::{Client, client::Outgoing},
};

/// How long the gateway may take to be reached.
const CONNECT: Duration = Duration::from_secs(5);

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the gateway's operators connect
    #[arg(long, default_value = "http://127.0.0.1:4101")]
    admin: String,
    /// Only answers to the callers of this key, by its id
    #[arg(long)]
    key: Option<String>,
    /// Only answers to requests that took this route
    #[arg(long)]
    route: Option<String>,
    /// Only this answer, as the journal names it
    #[arg(long)]
    entry: Option<String>,
    /// All answers
    #[arg(long, conflicts_with_all = ["key", "route", "entry"])]
    all: bool,
}

/// Makes a running gateway forget kept answers.
pub(super) fn purge(args: &Args) -> io::Result<ExitCode> {
    let named = [("key", &args.key), ("route", &args.route), ("entry", &args.entry)];
    let mut query: Vec<String> = Vec::new();
    for (name, value) in named {
        query.extend(value.as_ref().map(|value| format!("{name}={}", encoded(value))));
    }
    if query.is_empty() && !args.all {
        output::complain("signalbox: name a --key, a --route or an --entry; --all forgets everything\n");
        return Ok(ExitCode::FAILURE);
    }
    let url = format!("{}/admin/cache/purge?{}", args.admin.trim_end_matches('/'), query.join("&"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (status, body) = runtime.block_on(post(url))?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if !status.is_success() {
        let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason was given");
        output::complain(&format!("signalbox: the gateway answered {}: {message}\n", status.as_u16()));
        return Ok(ExitCode::FAILURE);
    }
    output::print(&format!("{} answers forgotten\n", body["purged"])).map(|()| ExitCode::SUCCESS)
}

async fn post(url: String) -> io::Result<(http::StatusCode, Bytes)> {
    let client = Client::new(CONNECT).map_err(io::Error::other)?;
    let asked = Outgoing { method: Method::POST, url, headers: HeaderMap::new(), body: Bytes::new() };
    let (head, body) = client.send(asked).await.map_err(io::Error::other)?.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?;
    Ok((head.status, body.to_bytes()))
}

/// A value as it stands in a query.
fn encoded(value: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    value.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_stand_in_a_query_as_they_are() {
        assert_eq!(super::encoded("web-1"), "web-1");
        assert_eq!(super::encoded("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }
}
