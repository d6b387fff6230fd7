//! `signalbox key`: creates keys for callers, and lists, revokes and restores the keys of a running gateway.

use std::{io, process::ExitCode};

use http::Method;
use serde_json::{Value, json};

use super::{
    examples, key_hash,
    operator::{Gateway, encoded},
    output,
};
use signalbox_config::{Scalar, Word};
use signalbox_server::NewKey;
use signalbox_types::dollars;

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
        /// Settings of `key create`, to point there
        #[arg(long, hide = true)]
        team: Option<String>,
    },
    /// Create a key on a running gateway; its policy needs `managed_keys`
    #[command(after_help = examples::KEY_CREATE)]
    Create {
        #[command(flatten)]
        gateway: Gateway,
        /// Id of the key in logs and metrics
        id: String,
        #[command(flatten)]
        settings: Settings,
        /// Hash of an existing secret, as in the policy, instead of a new secret
        #[arg(long)]
        hash: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the settings of a key that was created on a running gateway; settings that are not named stay
    #[command(after_help = examples::KEY_UPDATE)]
    Update {
        #[command(flatten)]
        gateway: Gateway,
        /// Id of the key
        id: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Give a key that was created on a running gateway another secret; the one before stays valid for a while
    #[command(after_help = examples::KEY_ROTATE)]
    Rotate {
        #[command(flatten)]
        gateway: Gateway,
        /// Id of the key
        id: String,
        /// Time for which the secret before stays valid; 0s ends it at once
        #[arg(long, default_value = "24h")]
        overlap: String,
        /// Hash of an existing secret, as in the policy, instead of a new secret
        #[arg(long)]
        hash: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a key that was created on a running gateway
    #[command(after_help = examples::KEY_DELETE)]
    Delete {
        #[command(flatten)]
        gateway: Gateway,
        /// Id of the key
        id: String,
    },
    /// Hash keys that clients have already, such as LiteLLM's, and print their lines for the policy
    #[command(after_help = examples::KEY_HASH)]
    Hash(key_hash::Args),
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

/// Settings of a key.
#[derive(Debug, clap::Args)]
pub(super) struct Settings {
    /// Team that it belongs to
    #[arg(long)]
    team: Option<String>,
    /// Models that its callers may request, such as auto,claude-*
    #[arg(long, value_delimiter = ',')]
    models: Vec<String>,
    /// Requests per minute
    #[arg(long)]
    rpm: Option<String>,
    /// Tokens per minute, such as 200k
    #[arg(long)]
    tpm: Option<String>,
    /// Concurrent requests
    #[arg(long)]
    concurrency: Option<String>,
    /// Budget of this key: usd=50/month or tokens=10M/day
    #[arg(long, value_parser = budget)]
    budget: Option<Value>,
    /// Day or time from which it is rejected: 2027-03-01, or 2027-03-01T12:00:00Z
    #[arg(long)]
    expires: Option<String>,
    /// Priority of its requests, from 0 to 9
    #[arg(long)]
    priority: Option<String>,
}

/// Reads a budget, such as `usd=50/month`.
fn budget(text: &str) -> Result<Value, String> {
    let parts = text.split_once('=').and_then(|(unit, rest)| Some((unit, rest.split_once('/')?)));
    match parts {
        Some((unit @ ("usd" | "tokens"), (amount, per))) => Ok(json!({ unit: amount, "per": per })),
        _ => Err("write `usd=50/month` or `tokens=10M/day`".to_owned()),
    }
}

impl Settings {
    /// The settings in the form of the policy's `keys`.
    fn json(&self) -> serde_json::Map<String, Value> {
        let mut all = serde_json::Map::new();
        let words = [("team", &self.team), ("expires", &self.expires), ("priority", &self.priority)];
        for (name, value) in words {
            all.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
        }
        if !self.models.is_empty() {
            all.insert("models".to_owned(), json!(self.models));
        }
        let limits = [("rpm", &self.rpm), ("tpm", &self.tpm), ("concurrency", &self.concurrency)];
        let limits: serde_json::Map<_, _> =
            limits.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))).collect();
        if !limits.is_empty() {
            all.insert("limits".to_owned(), limits.into());
        }
        all.extend(self.budget.clone().map(|budget| ("budget".to_owned(), budget)));
        all
    }
}

fn create(gateway: &Gateway, id: &str, settings: &Settings, hash: Option<&str>, json: bool) -> io::Result<ExitCode> {
    let mut body = serde_json::Map::from_iter([("id".to_owned(), json!(id))]);
    body.extend(hash.map(|hash| ("hash".to_owned(), json!(hash))));
    body.extend(settings.json());
    let Some(answer) = gateway.send(Method::POST, "/admin/keys", &body.into())? else { return Ok(ExitCode::FAILURE) };
    let answer: Value = serde_json::from_slice(&answer).map_err(io::Error::other)?;
    if json {
        output::json(&answer)?;
    } else if let Some(secret) = answer["secret"].as_str() {
        output::print(&format!("The secret, for the caller; it is shown only once:\n\n  {secret}\n"))?;
    } else {
        output::print(&format!("the key '{id}' is created\n"))?;
    }
    remark(&answer);
    Ok(ExitCode::SUCCESS)
}

/// Prints the gateway's remark on a change, if it has one.
fn remark(answer: &Value) {
    if let Some(remark) = answer["remark"].as_str() {
        output::complain(&format!("signalbox: {remark}\n"));
    }
}

fn update(gateway: &Gateway, id: &str, settings: &Settings) -> io::Result<ExitCode> {
    let changes = settings.json();
    if changes.is_empty() {
        output::complain("signalbox: nothing to change: name a setting, such as --rpm 600\n");
        return Ok(ExitCode::FAILURE);
    }
    let path = format!("/admin/keys/{}", encoded(id));
    let Some(answer) = gateway.send(Method::PATCH, &path, &changes.into())? else { return Ok(ExitCode::FAILURE) };
    remark(&serde_json::from_slice(&answer).unwrap_or_default());
    output::print(&format!("the key '{id}' is changed\n")).map(|()| ExitCode::SUCCESS)
}

fn rotate(gateway: &Gateway, id: &str, (overlap, hash): (&str, Option<&str>), json: bool) -> io::Result<ExitCode> {
    let mut body = serde_json::Map::from_iter([("overlap".to_owned(), json!(overlap))]);
    body.extend(hash.map(|hash| ("hash".to_owned(), json!(hash))));
    let path = format!("/admin/keys/{}/rotate", encoded(id));
    let Some(answer) = gateway.send(Method::POST, &path, &body.into())? else { return Ok(ExitCode::FAILURE) };
    let answer: Value = serde_json::from_slice(&answer).map_err(io::Error::other)?;
    if json {
        output::json(&answer)?;
    } else {
        let until = answer["before_valid_until"].as_str().unwrap_or_default();
        let ends = format!("the secret before is valid until {until}");
        output::print(&match answer["secret"].as_str() {
            Some(secret) => format!("The secret, for the caller; it is shown only once:\n\n  {secret}\n\n{ends}\n"),
            None => format!("the key '{id}' is rotated; {ends}\n"),
        })?;
    }
    remark(&answer);
    Ok(ExitCode::SUCCESS)
}

fn delete(gateway: &Gateway, id: &str) -> io::Result<ExitCode> {
    let path = format!("/admin/keys/{}", encoded(id));
    let Some(_) = gateway.ask(Method::DELETE, &path, &[])? else { return Ok(ExitCode::FAILURE) };
    output::print(&format!("the key '{id}' is deleted\n")).map(|()| ExitCode::SUCCESS)
}

pub(super) fn run(command: &Command) -> io::Result<ExitCode> {
    match command {
        Command::New { id, json, team } => new(id, *json, team.as_deref()),
        Command::Create { gateway, id, settings, hash, json } => create(gateway, id, settings, hash.as_deref(), *json),
        Command::Update { gateway, id, settings } => update(gateway, id, settings),
        Command::Rotate { gateway, id, overlap, hash, json } => rotate(gateway, id, (overlap, hash.as_deref()), *json),
        Command::Delete { gateway, id } => delete(gateway, id),
        Command::Hash(args) => key_hash::hash(args),
        Command::List { gateway, json } => list(gateway, *json),
        Command::Revoke { gateway, id } => change(gateway, id, "revoke"),
        Command::Restore { gateway, id } => change(gateway, id, "restore"),
    }
}

/// Columns of `key list`.
const COLUMNS: [&str; 7] = ["key", "team", "state", "expires", "budget spent", "requests/min left", "tokens/min left"];

/// Spending of a key's own budget, such as `1.25 of 50 USD/month`.
fn spent(budget: &Value) -> String {
    let per = budget["per"].as_str().unwrap_or_default();
    match (budget["budget_usd"].as_f64(), budget["budget_tokens"].as_u64()) {
        (Some(usd), _) => {
            format!("{} of {usd} USD/{per}", dollars(budget["spent_usd"].as_f64().unwrap_or_default(), usd))
        }
        (_, Some(tokens)) => format!("{} of {tokens} tokens/{per}", budget["spent_tokens"]),
        _ => "none".to_owned(),
    }
}

fn list(gateway: &Gateway, json: bool) -> io::Result<ExitCode> {
    let Some(body) = gateway.ask(Method::GET, "/admin/keys", &[])? else { return Ok(ExitCode::FAILURE) };
    let body: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
    if json {
        return output::json(&body).map(|()| ExitCode::SUCCESS);
    }
    if body["keys"].as_array().is_none_or(Vec::is_empty) {
        let what = if body["required"] == true {
            "has no keys yet, and rejects requests without one: `signalbox key create ID` makes one"
        } else {
            "has no keys: its policy lists none, so everyone who can connect may call; `signalbox key new` makes one"
        };
        output::complain(&format!("signalbox: the gateway at {} {what}\n", gateway.base()?));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = body["keys"].as_array().into_iter().flatten().map(|key| {
        let state = match (key["revoked"] == true, key["in_policy"] == true) {
            (false, _) if key["expired"] == true => "expired",
            (false, _) => "active",
            (true, true) => "revoked",
            (true, false) => "revoked, not in the policy",
        };
        let left = |what: &str| match key.pointer(&format!("/standing/{what}")) {
            Some(figures) if figures.is_object() => format!("{} of {}", figures["remaining"], figures["limit"]),
            _ => "no limit".to_owned(),
        };
        let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
        let expires = key["expires"].as_str().unwrap_or("never").to_owned();
        [text("id"), text("team"), state.to_owned(), expires, spent(&key["budget"]), left("requests"), left("tokens")]
    });
    output::print(&output::table(COLUMNS, rows)).map(|()| ExitCode::SUCCESS)
}

fn change(gateway: &Gateway, id: &str, what: &str) -> io::Result<ExitCode> {
    let path = format!("/admin/keys/{}/{what}", encoded(id));
    let Some(body) = gateway.ask(Method::POST, &path, &[])? else { return Ok(ExitCode::FAILURE) };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut said = format!("the key '{id}' is {}\n", if body["revoked"] == true { "revoked" } else { "restored" });
    if let Some(remark) = body["remark"].as_str() {
        said = said + "note: " + remark + "\n";
    } else if body["kept"] == false {
        said +=
            "note: this is forgotten when the gateway restarts; set `usage: { path: … }` in the policy to keep it\n";
    }
    output::print(&said).map(|()| ExitCode::SUCCESS)
}

fn new(id: &str, json: bool, team: Option<&str>) -> io::Result<ExitCode> {
    if team.is_some() {
        output::complain(
            "signalbox: `key new` makes a secret and a line for the policy: add `team` to that line; `signalbox key create ID --team NAME` \
             makes a key on a running gateway\n",
        );
        return Ok(ExitCode::FAILURE);
    }
    if Word::read(id).is_err() {
        output::complain("signalbox: an id is visible ASCII characters without spaces, such as `web`\n");
        return Ok(ExitCode::FAILURE);
    }
    let NewKey { secret, hash } = NewKey::generate()?;
    if json {
        output::json(&json!({ "id": id, "secret": secret, "hash": hash }))?;
    } else {
        output::print(&format!(
            "The secret, for the caller; it is shown only once:\n\n  {secret}\n\nThe line for the policy, under `keys`:\n\n  - {{ id: {}, hash: \"{hash}\" }}\n",
            key_hash::yaml(id)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
