//! `signalbox cache purge`: removes cached answers of a running gateway.

use std::{io, process::ExitCode};

use http::Method;
use serde_json::Value;

use crate::cli::{operator::Gateway, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    gateway: Gateway,
    /// Only answers to the key with this id
    #[arg(long)]
    key: Option<String>,
    /// Only answers of this route
    #[arg(long)]
    route: Option<String>,
    /// Only this answer, by its id in the journal
    #[arg(long)]
    entry: Option<String>,
    /// All answers
    #[arg(long, conflicts_with_all = ["key", "route", "entry"])]
    all: bool,
}

/// Sends the purge.
pub(super) fn purge(args: &Args) -> io::Result<ExitCode> {
    let named = [("key", &args.key), ("route", &args.route), ("entry", &args.entry)];
    let query: Vec<_> = named.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    if query.is_empty() && !args.all {
        output::complain("signalbox: name a --key, a --route or an --entry; --all forgets everything\n");
        return Ok(ExitCode::FAILURE);
    }
    let Some(body) = args.gateway.ask(Method::POST, "/admin/cache/purge", &query)? else {
        return Ok(ExitCode::FAILURE);
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    output::print(&format!("{} answers forgotten\n", body["purged"])).map(|()| ExitCode::SUCCESS)
}
