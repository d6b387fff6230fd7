//! `signalbox usage`: exports usage from a running gateway.

use std::{io, process::ExitCode};

use http::Method;

use super::{operator::Gateway, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    gateway: Gateway,
    /// Output format
    #[arg(long, value_parser = ["csv", "jsonl"], default_value = "csv")]
    format: String,
    /// First day, in UTC, such as 2026-11-01
    #[arg(long)]
    from: Option<String>,
    /// Last day, in UTC
    #[arg(long)]
    to: Option<String>,
    /// Only usage of the key with this id
    #[arg(long)]
    key: Option<String>,
    /// Only usage of this team
    #[arg(long)]
    team: Option<String>,
}

pub(super) fn usage(args: &Args) -> io::Result<ExitCode> {
    let named = [("from", &args.from), ("to", &args.to), ("key", &args.key), ("team", &args.team)];
    let named = named.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let query: Vec<_> = [("format", args.format.as_str())].into_iter().chain(named).collect();
    let Some(body) = args.gateway.ask(Method::GET, "/admin/usage", &query)? else { return Ok(ExitCode::FAILURE) };
    let text = String::from_utf8_lossy(&body);
    output::print(&text)?;
    let header = usize::from(args.format == "csv");
    if text.lines().count() <= header {
        let wanted = [&args.from, &args.to, &args.key, &args.team].into_iter().any(Option::is_some);
        let why = if wanted {
            "none matches --from, --to, --key and --team: leave them out to see everything"
        } else {
            "it is counted by key, and no request with a key has ended yet; without `usage: { path: … }` in the policy, counts \
             begin anew with the gateway"
        };
        output::complain(&format!("signalbox: there is no usage at {}: {why}\n", args.gateway.base()?));
    }
    Ok(ExitCode::SUCCESS)
}
