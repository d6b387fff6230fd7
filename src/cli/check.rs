//! `signalbox check`: validates a policy and shows what it configures.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};

use super::{
    output,
    probe::{self, Probed},
    sources,
};
use signalbox_config::{Config, Problems};
use signalbox_policy::{
    AddressSource, Backend, BackendSource, Model, Policy, Pool, RouteChoice, Rule, compile, condition::Condition,
    prices,
};
use signalbox_quota::Amount;
use signalbox_types::{Aim, Endpoint, Name};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The policy file, or `-` for the standard input
    file: PathBuf,
    /// Note environment variables that are not set, instead of failing: their values stay unchecked
    #[arg(long)]
    allow_unset: bool,
    /// Ask each engine for its models and endpoints: address, TLS, keys, names, context lengths. Nothing is generated
    #[arg(long)]
    probe: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn check(args: &Args) -> io::Result<ExitCode> {
    let file = &*args.file;
    let read = Config::load(file).and_then(|config| {
        let config = if args.allow_unset { config.allowing_unset() } else { config };
        let policy = compile(&config)?;
        sources::check(&config, &policy)?;
        sources::check_own_address(&config, &policy)?;
        let exposed = config.exposed().map(exposed);
        let unset = config.unset().map(|name| format!("{name} is not set: what refers to it was not checked"));
        let notes = notes(&policy).into_iter().chain(exposed).chain(unset).collect::<Vec<_>>();
        Ok((policy, notes))
    });
    match read {
        Ok((policy, notes)) => {
            let probed = if args.probe { Some(probe::probe(&policy)?) } else { None };
            let passed = probed.as_ref().is_none_or(Probed::passed);
            if args.json {
                output::json(&policy_json(file, &policy, &notes, probed.as_ref()))?;
            } else {
                output::print(&policy_text(file, &policy, notes, probed.as_ref()))?;
            }
            Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(problems) => {
            if args.json {
                output::json(&problems_json(&problems))?;
            } else {
                output::complain(&output::report(&problems));
                if !args.allow_unset && problems.iter().any(|(.., problem)| !problem.unset.is_empty()) {
                    output::complain("note: --allow-unset checks the rest where variables are not set\n");
                }
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Warning for a world-readable policy with secrets in it, the first of which is on `line`.
pub(super) fn exposed(line: usize) -> String {
    format!(
        "the policy contains secrets (the first is on line {line}) and every user of this machine may read it: chmod 640 it, or refer \
         to variables (`\"${{KEY}}\"`) or files (`{{ file: … }}`)"
    )
}

fn problems_json(problems: &Problems) -> Value {
    let list = problems.iter().map(|(line, column, problem)| {
        json!({ "line": line, "column": column, "message": problem.message, "help": problem.help })
    });
    json!({ "file": problems.file(), "ok": false, "problems": list.collect::<Vec<_>>() })
}

fn policy_json(file: &Path, policy: &Policy, notes: &[String], probed: Option<&Probed>) -> Value {
    let all = policy.pools.iter().map(|pool| {
        json!({
            "name": &*pool.name,
            "speaks": speaks(pool),
            "backends": pool.backends.iter().map(|backend| backend_json(policy, backend)).collect::<Vec<_>>(),
            "sources": pool.sources.iter().map(source_json).collect::<Vec<_>>(),
        })
    });
    let models = ways(policy).map(|way| {
        json!({
            "name": way.model, "route": way.rule.name, "when": way.rule.when.as_ref().map(Condition::text),
            "decides": decides(way.rule), "pools": pools(policy, way.rule), "cascade": cascade(policy, way.rule),
        })
    });
    json!({
        "file": file.display().to_string(),
        "ok": true,
        "hash": policy.hash,
        "listen": policy.listen,
        "admin": policy.admin,
        "keys": policy.keys.len(),
        "pools": all.collect::<Vec<_>>(),
        "models": models.collect::<Vec<_>>(),
        "notes": notes,
        "probe": probed.map(Probed::json),
    })
}

fn backend_json(policy: &Policy, backend: &Backend) -> Value {
    json!({
        "name": &*backend.name,
        "url": policy.engines[backend.engine].url,
        "model": backend.model.as_deref().or(backend.deployment.as_deref()),
        "as": backend.serves.as_deref(),
        "serves": backend.follows.as_ref().map(|glob| &*glob.0),
        "weight": backend.weight,
    })
}

fn source_json(source: &BackendSource) -> Value {
    json!({
        "source": source.from.label(),
        "model": source.backend.model.as_deref(),
        "as": source.backend.serves.as_deref(),
        "address": address(source),
    })
}

/// Pattern of the addresses that a source brings.
fn address(source: &BackendSource) -> String {
    let scheme = source.scheme.name();
    match &source.from {
        AddressSource::Dns(dns) if dns.port > 0 => format!("{scheme}://(each):{}{}", dns.port, source.path),
        AddressSource::Dns(_) | AddressSource::File(_) => format!("{scheme}://(each){}", source.path),
    }
}

fn policy_text(file: &Path, policy: &Policy, notes: Vec<String>, probed: Option<&Probed>) -> String {
    let backends = policy.pools.iter().flat_map(|pool| pool.backends.iter().map(move |backend| (pool, backend)));
    let backends = backends.map(|(pool, backend)| {
        let followed = backend.follows.as_ref().map(|glob| format!("{} (as listed)", glob.0));
        let upstream = backend.model.as_deref().or(backend.deployment.as_deref()).or(followed.as_deref());
        let upstream = upstream.unwrap_or("(as asked)");
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
    let sources = policy.pools.iter().flat_map(|pool| pool.sources.iter().map(move |source| (pool, source)));
    let sources = sources.map(|(pool, source)| {
        let upstream = source.backend.model.as_deref().unwrap_or("(as asked)");
        let serves = source.backend.serves.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        [pool.name.to_string(), source.from.label(), format!("{upstream}{serves}"), address(source)]
    });
    let backends = output::table(["pool", "backend", "model", "address"], backends.chain(sources));
    let rows = ways(policy).map(|way| {
        let pools = pools(policy, way.rule).join(", ");
        [way.model, way.rule.name.to_string(), when(way.rule), decided(policy, way.rule), pools]
    });
    let models = output::table(["ask for", "route", "when", "decides", "pools"], rows);
    let notes: String = notes.into_iter().flat_map(|note| ["note: ".to_owned(), note, "\n".to_owned()]).collect();
    let verdict = match probed.map(Probed::bad).filter(|(bad, _)| *bad > 0) {
        Some((bad, of)) => format!("is valid, but {bad} of {of} probes went BAD"),
        None => "is good".to_owned(),
    };
    let probed = probed.map(Probed::text).unwrap_or_default();
    let admin = policy.admin.map_or("off".to_owned(), |admin| admin.to_string());
    let keys = match policy.keys.len() {
        0 => "none: open to all who can connect".to_owned(),
        count => count.to_string(),
    };
    format!(
        "{backends}{models}{notes}{probed}{} {verdict}: listen {}, admin {admin}, keys {keys}, hash {}\n",
        file.display(),
        policy.listen,
        policy.hash
    )
}

/// Longest condition that a table shows, in characters.
const LONGEST_CONDITION: usize = 60;

/// A rule with the model name it belongs to.
struct WayOf<'a> {
    /// Name that clients ask for.
    model: String,
    rule: &'a Rule,
}

/// Every model name with its rules, in order.
fn ways(policy: &Policy) -> impl Iterator<Item = WayOf<'_>> {
    let table = &policy.models;
    let exact = table.names().filter_map(|name| Some((name.to_string(), table.get(name)?)));
    let patterns = table.patterns().map(|(prefix, model)| (format!("{prefix}*"), model));
    exact.chain(patterns).flat_map(|(name, model)| rules(name, model))
}

fn rules(name: String, model: &Model) -> impl Iterator<Item = WayOf<'_>> {
    model.rules.iter().map(move |rule| WayOf { model: name.clone(), rule })
}

/// Condition of a rule for a table, shortened if it is long.
fn when(rule: &Rule) -> String {
    let text = rule.when.as_ref().map(Condition::text).unwrap_or_default();
    match text.char_indices().nth(LONGEST_CONDITION) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Criterion by which a rule selects a pool.
fn decides(rule: &Rule) -> String {
    let percent = |share: &f64| format!("{:.3} %", share * 100.0).replace(".000", "");
    match &rule.way {
        RouteChoice::Pools(_) => "the order".to_owned(),
        RouteChoice::Length(by) => match by.boundary {
            Some(tokens) => format!("length, from {tokens} tokens"),
            None => "length, learned".to_owned(),
        },
        RouteChoice::Tiers(tiers) => match &tiers.aim {
            Aim::Shares(shares) => {
                format!("complexity, {}", shares.iter().map(percent).collect::<Vec<_>>().join(" : "))
            }
            Aim::MinQuality(quality) => format!("complexity, quality of at least {}", percent(quality)),
            Aim::ValuePerPoint { usd, .. } => format!("complexity, ${usd} per point"),
            Aim::MaxSpendPerHour(most) => format!("complexity, at most ${most} per hour"),
        },
    }
}

/// Criterion of a rule, with the pool that it escalates to.
fn decided(policy: &Policy, rule: &Rule) -> String {
    let cascade = cascade(policy, rule).map(|larger| format!(", cascade to {larger}"));
    decides(rule) + &cascade.unwrap_or_default()
}

/// The larger pool of a rule's cascade.
fn cascade<'p>(policy: &'p Policy, rule: &Rule) -> Option<&'p str> {
    let cascade = rule.way.routes().iter().find_map(|route| route.cascade.as_ref())?;
    Some(&policy.pools[cascade.to.pool].name)
}

/// Pools of a rule, in the order of its first route.
fn pools(policy: &Policy, rule: &Rule) -> Vec<String> {
    let targets = rule.way.routes().first().map_or(&[][..], |route| &route.targets);
    targets.iter().map(|target| policy.pools[target.pool].name.to_string()).collect()
}

fn speaks(pool: &Pool) -> Vec<&'static str> {
    pool.speaks.iter().map(|endpoint| endpoint.name()).collect()
}

/// Settings that are valid, but probably not intended.
fn notes(policy: &Policy) -> Vec<String> {
    let mut notes = Vec::new();
    let used = |at| policy.pools.iter().flat_map(|pool| &pool.backends).any(|backend| backend.engine == at);
    for (_, engine) in policy.engines.iter().enumerate().filter(|(at, _)| !used(*at)) {
        notes.push(format!("engine {} is in no pool", engine.name));
    }
    if policy.usage.is_none() && !policy.teams.is_empty() {
        notes
            .push("budgets begin anew when the process does; `usage: { path: usage }` keeps what was spent".to_owned());
    }
    let in_dollars = policy.teams.iter().find(|team| matches!(team.budget.amount, Amount::Usd(_)));
    if let Some(team) = in_dollars {
        for pool in policy.pools.iter().filter(|pool| pool.price.is_none()) {
            notes.push(format!(
                "pool {} has no price for tokens: what it does costs the budget of team {} nothing",
                pool.name, team.name
            ));
        }
    }
    notes.extend(policy.models.names().filter_map(|name| embeddings_of_several(policy, name)));
    notes.extend(policy.exposures());
    notes.extend(listed(policy));
    notes
}

/// Note on a model whose pools are said to have embeddings, but of several models: only one of them serves a name.
fn embeddings_of_several(policy: &Policy, name: &Name) -> Option<String> {
    let targets = policy.models.get(name)?.routes().flat_map(|route| &route.targets);
    let mut pools: Vec<&Pool> = Vec::new();
    for pool in targets.map(|target| &policy.pools[target.pool]) {
        let is_stated = !pool.learns_endpoints && pool.speaks.contains(&Endpoint::Embeddings);
        if is_stated && pools.iter().all(|known| known.name != pool.name) {
            pools.push(pool);
        }
    }
    let first = pools.first()?.backends.first()?.identity_for(Some(name))?;
    let is_other = |pool: &&&Pool| pool.backends.iter().all(|backend| backend.identity_for(Some(name)) != Some(first));
    let others: Vec<&str> = pools.iter().filter(is_other).map(|pool| &*pool.name).collect();
    (!others.is_empty()).then(|| {
        format!(
            "embeddings of {name} come from one model only: pools with another one serve none of them ({}), unless `same_as` says that it is the same",
            others.join(", ")
        )
    })
}

/// The pools with prices from the built-in table, and those that have none.
fn listed(policy: &Policy) -> Vec<String> {
    let table = prices::builtin();
    let mut notes = Vec::new();
    if !policy.builtin_prices {
        return notes;
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for pool in &policy.pools {
        let listed = table.of_pool(pool, &policy.engines).and_then(|(price, _)| price);
        match (pool.price, listed) {
            (Some(own), Some(listed)) if own == listed => {
                with.push(format!("{} (${} in, ${} out)", pool.name, own.input, own.output));
            }
            (None, _) => without.push(pool.name.to_string()),
            (Some(_), _) => {}
        }
    }
    if !with.is_empty() {
        notes.push(format!("prices per million tokens from the built-in table of {}: {}", table.date, with.join(", ")));
    }
    if !without.is_empty() {
        notes.push(format!(
            "the built-in table of {} has no price for pools {}: give them a `price` if their tokens cost something",
            table.date,
            without.join(", ")
        ));
    }
    notes
}
