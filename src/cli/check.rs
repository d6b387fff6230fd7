//! `signalbox check`: whether a policy holds, and what it sets up.

use std::{io, path::Path, process::ExitCode};

use serde_json::{Value, json};

use super::output;
use crate::{
    config::{Config, Problems},
    policy::{Backend, Dialect, Engine, Policy, Pool, Target, compile},
};

pub(super) fn check(file: &Path, json: bool) -> io::Result<ExitCode> {
    match Config::load(file).and_then(|config| compile(&config)) {
        Ok(policy) if json => output::json(&policy_json(file, &policy)).map(|()| ExitCode::SUCCESS),
        Ok(policy) => output::print(&policy_text(file, &policy)).map(|()| ExitCode::SUCCESS),
        Err(problems) => {
            if json {
                output::json(&problems_json(&problems))?;
            } else {
                output::complain(&output::report(&problems));
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

fn problems_json(problems: &Problems) -> Value {
    let list = problems.iter().map(|(line, column, problem)| {
        json!({ "line": line, "column": column, "message": problem.message, "help": problem.help })
    });
    json!({ "file": problems.file(), "ok": false, "problems": list.collect::<Vec<_>>() })
}

fn policy_json(file: &Path, policy: &Policy) -> Value {
    let pools = policy.pools.iter().map(|pool| {
        json!({
            "name": &*pool.name,
            "speaks": speaks(pool),
            "backends": pool.backends.iter().map(|backend| backend_json(policy, backend)).collect::<Vec<_>>(),
        })
    });
    let models = models(policy).map(|(name, route, targets)| json!({ "name": name, "route": route, "pools": targets }));
    json!({
        "file": file.display().to_string(),
        "ok": true,
        "hash": policy.hash,
        "listen": policy.listen,
        "admin": policy.admin,
        "keys": policy.keys.len(),
        "pools": pools.collect::<Vec<_>>(),
        "models": models.collect::<Vec<_>>(),
        "notes": notes(policy),
    })
}

fn backend_json(policy: &Policy, backend: &Backend) -> Value {
    json!({
        "name": &*backend.name,
        "url": policy.engines[backend.engine].url,
        "model": backend.model.as_deref().or(backend.deployment.as_deref()),
        "as": backend.serves.as_deref(),
        "weight": backend.weight,
    })
}

fn policy_text(file: &Path, policy: &Policy) -> String {
    let backends = policy.pools.iter().flat_map(|pool| pool.backends.iter().map(move |backend| (pool, backend)));
    let backends = backends.map(|(pool, backend)| {
        let upstream = backend.model.as_deref().or(backend.deployment.as_deref()).unwrap_or("(as asked)");
        let serves = backend.serves.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        let weight =
            backend.weight.map(|share| format!(" {:.3} %", share * 100.0).replace(".000", "")).unwrap_or_default();
        [
            pool.name.to_string(),
            backend.name.to_string(),
            format!("{upstream}{serves}{weight}"),
            policy.engines[backend.engine].url.clone(),
        ]
    });
    let backends = output::table(["pool", "backend", "model", "address"], backends);
    let rows = models(policy).map(|(name, route, targets)| [name, route.to_owned(), targets.join(", ")]);
    let models = output::table(["ask for", "route", "pools"], rows);
    let notes: String =
        notes(policy).into_iter().flat_map(|note| ["note: ".to_owned(), note, "\n".to_owned()]).collect();
    let admin = policy.admin.map_or("off".to_owned(), |admin| admin.to_string());
    let keys = match policy.keys.len() {
        0 => "none: open to all who can connect".to_owned(),
        count => count.to_string(),
    };
    format!(
        "{backends}{models}{notes}{} is good: listen {}, admin {admin}, keys {keys}, hash {}\n",
        file.display(),
        policy.listen,
        policy.hash
    )
}

/// What may be asked for: name, route, pools in order.
fn models(policy: &Policy) -> impl Iterator<Item = (String, &str, Vec<String>)> {
    let table = &policy.models;
    let exact = table.names().filter_map(|name| Some((name.to_string(), table.route(name)?)));
    let patterns = table.patterns().map(|(prefix, route)| (format!("{prefix}*"), route));
    exact.chain(patterns).map(|(name, route)| {
        let target = |target: &Target| policy.pools[target.pool].name.to_string();
        (name, &*route.name, route.targets.iter().map(target).collect())
    })
}

fn speaks(pool: &Pool) -> Vec<&'static str> {
    pool.speaks.iter().map(|endpoint| endpoint.name()).collect()
}

/// What is allowed and yet likely not meant.
fn notes(policy: &Policy) -> Vec<String> {
    let mut notes = Vec::new();
    for engine in policy.engines.iter().filter(|engine| pathless(engine)) {
        notes.push(format!("{} has no path; most engines serve their API under {}/v1", engine.url, engine.url));
    }
    let used = |at| policy.pools.iter().flat_map(|pool| &pool.backends).any(|backend| backend.engine == at);
    for (_, engine) in policy.engines.iter().enumerate().filter(|(at, _)| !used(*at)) {
        notes.push(format!("engine {} is in no pool", engine.name));
    }
    if policy.keys.is_empty() && !policy.listen.ip().is_loopback() {
        notes.push(format!(
            "{} is open to the network and no keys are asked for; `signalbox key new` makes one",
            policy.listen
        ));
    }
    notes
}

fn pathless(engine: &Engine) -> bool {
    engine.dialect == Dialect::OpenAi && engine.url.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'))
}
