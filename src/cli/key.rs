//! `signalbox key`: creates keys for callers, and lists, revokes and restores the keys of a running gateway.

use std::{io, process::ExitCode};

use http::Method;
use serde_json::{Value, json};

use super::{
    examples,
    operator::{Gateway, encoded},
    output,
};
use crate::config::{Scalar, Word};

/// Random bytes in a secret: as many as in its hash.
const BYTES: usize = 32;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Create a key: a secret for the caller and a line for the policy
    #[command(after_help = examples::KEY_NEW)]
    New {
        /// Id of the key in logs and metrics
        #[arg(long, default_value = "web")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the keys of a running gateway with their standing
    #[command(after_help = examples::KEY_LIST)]
    List {
        #[command(flatten)]
        gateway: Gateway,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key until it is restored
    #[command(after_help = examples::KEY_REVOKE)]
    Revoke {
        #[command(flatten)]
        gateway: Gateway,
        /// Id of the key in the policy
        id: String,
    },
    /// Restore a revoked key
    #[command(after_help = examples::KEY_RESTORE)]
    Restore {
        #[command(flatten)]
        gateway: Gateway,
        /// Id of the key in the policy
        id: String,
    },
}

pub(super) fn run(command: &Command) -> io::Result<ExitCode> {
    match command {
        Command::New { id, json } => new(id, *json),
        Command::List { gateway, json } => list(gateway, *json),
        Command::Revoke { gateway, id } => change(gateway, id, "revoke"),
        Command::Restore { gateway, id } => change(gateway, id, "restore"),
    }
}

fn list(gateway: &Gateway, json: bool) -> io::Result<ExitCode> {
    let Some(body) = gateway.ask(Method::GET, "/admin/keys", &[])? else { return Ok(ExitCode::FAILURE) };
    let body: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
    if json {
        return output::json(&body).map(|()| ExitCode::SUCCESS);
    }
    if body["keys"].as_array().is_none_or(Vec::is_empty) {
        output::complain(&format!(
            "signalbox: the gateway at {} has no keys: its policy lists none, so everyone who can connect may call; `signalbox key new` makes one\n",
            gateway.base()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = body["keys"].as_array().into_iter().flatten().map(|key| {
        let state = match (key["revoked"] == true, key["in_policy"] == true) {
            (false, _) => "active",
            (true, true) => "revoked",
            (true, false) => "revoked, not in the policy",
        };
        let left = |what: &str| match key.pointer(&format!("/standing/{what}")) {
            Some(figures) if figures.is_object() => format!("{} of {}", figures["remaining"], figures["limit"]),
            _ => "no limit".to_owned(),
        };
        let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
        [text("id"), text("team"), state.to_owned(), left("requests"), left("tokens")]
    });
    output::print(&output::table(["key", "team", "state", "requests/min left", "tokens/min left"], rows))
        .map(|()| ExitCode::SUCCESS)
}

fn change(gateway: &Gateway, id: &str, what: &str) -> io::Result<ExitCode> {
    let path = format!("/admin/keys/{}/{what}", encoded(id));
    let Some(body) = gateway.ask(Method::POST, &path, &[])? else { return Ok(ExitCode::FAILURE) };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut said = format!("the key '{id}' is {}\n", if body["revoked"] == true { "revoked" } else { "restored" });
    if body["kept"] == false {
        said +=
            "note: this is forgotten when the gateway restarts; set `usage: { path: … }` in the policy to keep it\n";
    }
    output::print(&said).map(|()| ExitCode::SUCCESS)
}

fn new(id: &str, json: bool) -> io::Result<ExitCode> {
    if Word::read(id).is_err() {
        output::complain("signalbox: an id is visible ASCII characters without spaces, such as `web`\n");
        return Ok(ExitCode::FAILURE);
    }
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("the system provides no random bytes: {error}")))?;
    // A prefix lets secret scanners recognise a leaked key.
    let secret = format!("sb-{}", blake3::Hash::from_bytes(bytes).to_hex());
    let hash = format!("blake3:{}", blake3::hash(secret.as_bytes()).to_hex());
    if json {
        output::json(&json!({ "id": id, "secret": secret, "hash": hash }))?;
    } else {
        output::print(&format!(
            "The secret, for the caller; it is shown only once:\n\n  {secret}\n\nThe line for the policy, under `keys`:\n\n  - {{ id: {}, hash: \"{hash}\" }}\n",
            yaml(id)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `id` as a YAML scalar in a flow mapping.
fn yaml(id: &str) -> String {
    let plain = id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if plain { id.to_owned() } else { serde_json::Value::from(id).to_string() }
}
