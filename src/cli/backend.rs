//! `signalbox backend`: lists the backends of a running gateway, and adds, removes and drains them.

use std::{io, process::ExitCode};

use http::Method;
use serde_json::{Map, Value};

use super::{
    examples,
    operator::{Gateway, encoded},
    output,
};

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List all backends with their origin and state
    #[command(after_help = examples::BACKEND_LIST)]
    List {
        #[command(flatten)]
        gateway: Gateway,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a backend to a pool, or change one that was added
    #[command(after_help = examples::BACKEND_ADD)]
    Add {
        #[command(flatten)]
        gateway: Gateway,
        /// Pool in the policy
        pool: String,
        /// Name of the new backend
        id: String,
        /// Base address of its API, such as `http://10.0.0.9:8000/v1`
        url: String,
        /// A further key of a backend, as in a policy: `--set model=qwen-7b --set 'drop=["user"]'`
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
        settings: Vec<(String, Value)>,
    },
    /// Remove a backend that was added; requests that run there end by themselves
    #[command(after_help = examples::BACKEND_REMOVE)]
    Remove {
        #[command(flatten)]
        gateway: Gateway,
        /// Its pool
        pool: String,
        /// Its name, as listed
        id: String,
    },
    /// Send no new requests to a backend; those that run there end by themselves
    #[command(after_help = examples::BACKEND_DRAIN)]
    Drain {
        #[command(flatten)]
        gateway: Gateway,
        /// Its pool
        pool: String,
        /// Its name, as listed
        id: String,
    },
    /// Put a drained backend back
    #[command(after_help = examples::BACKEND_UNDRAIN)]
    Undrain {
        #[command(flatten)]
        gateway: Gateway,
        /// Its pool
        pool: String,
        /// Its name, as listed
        id: String,
    },
}

/// Reads `KEY=VALUE`; a value that is not JSON is text.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE, such as max_concurrency=32")?;
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

pub(super) fn run(command: &Command) -> io::Result<ExitCode> {
    match command {
        Command::List { gateway, json } => list(gateway, *json),
        Command::Add { gateway, pool, id, url, settings } => {
            let mut body = Map::from_iter([("url".to_owned(), Value::from(url.as_str()))]);
            body.extend(settings.iter().cloned());
            let body = Value::Object(body);
            let said = |body: &Value| if body["added"] == true { "added" } else { "changed" };
            change(gateway, Method::PUT, &path(pool, id, ""), &body, |body| {
                format!("the backend '{id}' of the pool '{pool}' is {}\n", said(body))
            })
        }
        Command::Remove { gateway, pool, id } => {
            change(gateway, Method::DELETE, &path(pool, id, ""), &Value::Null, |_| {
                format!("the backend '{id}' of the pool '{pool}' is removed\n")
            })
        }
        Command::Drain { gateway, pool, id } => {
            change(gateway, Method::POST, &path(pool, id, "/drain"), &Value::Null, |body| {
                let id = body["id"].as_str().unwrap_or(id);
                match body["in_flight"].as_u64() {
                    None | Some(0) => format!("the backend '{id}' is drained: nothing runs there\n"),
                    Some(count) => format!(
                        "the backend '{id}' drains: {count} requests run there; `signalbox backend list` shows when it is idle\n"
                    ),
                }
            })
        }
        Command::Undrain { gateway, pool, id } => {
            change(gateway, Method::POST, &path(pool, id, "/undrain"), &Value::Null, |_| {
                format!("the backend '{id}' gets requests again\n")
            })
        }
    }
}

fn path(pool: &str, id: &str, what: &str) -> String {
    format!("/admin/backends/{}/{}{what}", encoded(pool), encoded(id))
}

fn list(gateway: &Gateway, json: bool) -> io::Result<ExitCode> {
    let Some(body) = gateway.ask(Method::GET, "/admin/backends", &[])? else { return Ok(ExitCode::FAILURE) };
    let body: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
    if json {
        return output::json(&body).map(|()| ExitCode::SUCCESS);
    }
    let rows = body["backends"].as_array().into_iter().flatten().map(|backend| {
        let text = |name: &str| backend[name].as_str().unwrap_or_default().to_owned();
        [
            text("pool"),
            text("id"),
            text("label"),
            text("state"),
            backend["in_flight"].to_string(),
            text("origin"),
            text("model"),
            text("url"),
        ]
    });
    output::print(&output::table(
        ["pool", "backend", "shown as", "state", "in flight", "origin", "model", "address"],
        rows,
    ))
    .map(|()| ExitCode::SUCCESS)
}

fn change(
    gateway: &Gateway,
    method: Method,
    path: &str,
    body: &Value,
    words: impl FnOnce(&Value) -> String,
) -> io::Result<ExitCode> {
    let Some(answer) = gateway.send(method, path, body)? else { return Ok(ExitCode::FAILURE) };
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let mut said = words(&answer);
    if answer["kept"] == false {
        said += "note: this is forgotten when the gateway restarts; set `discovery: { state: … }` in the policy to keep it\n";
    }
    output::print(&said).map(|()| ExitCode::SUCCESS)
}
