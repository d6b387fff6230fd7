//! The text of an imported policy.

use std::fmt::Write as _;

use super::{
    fallbacks::{PlannedModel, RequestNames},
    groups::{Fleet, PlannedBackend, PlannedEngine, PlannedPool},
    scalars::{map_key, mapping, names, quoted, scalar, seconds, value},
    settings::{Cache, RedisServer, Settings},
};

/// Everything below the comment.
pub(super) fn body(fleet: &Fleet, models: &RequestNames, settings: &Settings) -> String {
    let mut text = "# LiteLLM listens at 0.0.0.0:4000. Without this line it is 127.0.0.1:4100, so that both can run on one machine.\n\
        # listen: 0.0.0.0:4000\n"
        .to_owned();
    general(&mut text, settings);
    callers(&mut text, settings);
    engines(&mut text, &fleet.engines);
    text += "\npools:\n";
    for pool in &fleet.pools {
        write_pool(&mut text, pool, settings.least_request);
    }
    text += "\nmodels:\n";
    for model in &models.models {
        write_model(&mut text, model);
    }
    for (name, line) in &models.refused {
        let reason = format!("its deployments were left out by the import, the first on line {line}");
        let _ = writeln!(text, "  {}: {{ refuse: {} }}", map_key(name), quoted(&reason));
    }
    for (alias, model) in &models.aliases {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}: {{ alias: {} }}", map_key(alias), scalar(model));
    }
    text
}

/// Address and password of a Redis server. A password in the address would have to be percent-encoded.
fn address(server: &RedisServer) -> Vec<(&'static str, String)> {
    let password = server.password.as_ref().map(|password| ("password", quoted(password)));
    [("url", quoted(&server.url))].into_iter().chain(password).collect()
}

fn general(text: &mut String, settings: &Settings) {
    let mut limits = Vec::new();
    limits.extend(settings.in_flight.map(|most| ("in_flight", most.to_string())));
    if let Some(body) = settings.body {
        limits.push(("body", format!("{body}Mi")));
        // The memory for all bodies must not be less than one of them.
        limits.extend((body > 1024).then(|| ("bodies", format!("{body}Mi"))));
    }
    limits.extend(settings.redis.as_ref().map(|server| ("shared", mapping(&address(server)))));
    let mut timeouts = Vec::new();
    timeouts.extend(settings.idle.map(|idle| ("idle", seconds(idle))));
    timeouts.extend(settings.first_token.map(|first| ("first_token", seconds(first))));
    for (key, entries) in [("limits", limits), ("timeouts", timeouts)] {
        if !entries.is_empty() {
            let _ = writeln!(text, "\n{key}: {}", mapping(&entries));
        }
    }
    if settings.json_logs {
        *text += "\naccess_log: { format: json }\n";
    }
    if let Some(endpoint) = &settings.otel {
        let _ = writeln!(text, "\notel: {}", mapping(&[("endpoint", quoted(endpoint))]));
    }
    if let Some(cache) = &settings.cache {
        write_cache(text, cache, settings.key.is_some());
    }
    if settings.usage {
        *text += "\nusage: { path: usage } # a folder; LiteLLM has usage in its database\n";
    }
    *text += "\n# Prices and context sizes of well-known hosted models, unless a pool has its own: `signalbox prices` lists them.\nprices: builtin\n";
}

fn write_cache(text: &mut String, cache: &Cache, has_keys: bool) {
    let mut exact = Vec::new();
    exact.extend(cache.ttl.map(|ttl| ("ttl", seconds(ttl))));
    // LiteLLM reuses answers at any temperature.
    exact.push(("temperature", "any".to_owned()));
    let _ = writeln!(text, "\ncache:\n  exact: {}", mapping(&exact));
    if cache.semantic {
        let mut semantic = Vec::new();
        semantic.extend(cache.ttl.map(|ttl| ("ttl", seconds(ttl))));
        if !has_keys {
            semantic.push(("scope", "shared".to_owned()));
        }
        let semantic = if semantic.is_empty() { "{}".to_owned() } else { mapping(&semantic) };
        let _ = writeln!(text, "  semantic: {semantic}");
    }
    if let Some((server, key)) = &cache.shared {
        let mut entries = address(server);
        entries.push(("key", quoted(key)));
        let _ = writeln!(text, "  shared: {}", mapping(&entries));
    }
}

fn callers(text: &mut String, settings: &Settings) {
    if let Some((usd, per)) = settings.budget {
        let budget = mapping(&[("usd", usd.to_string()), ("per", per.to_owned())]);
        let _ = writeln!(text, "\nteams:\n  everyone: {{ budget: {budget} }}");
    }
    let Some(key) = &settings.key else {
        *text += "\n# LiteLLM has no `master_key`: everyone who can connect may call.\nkeys: none\n";
        return;
    };
    *text += "\n# The callers' keys. `signalbox key hash` prints the lines of keys that clients have already.\nkeys:\n";
    if let Some(command) = &key.from {
        let _ = writeln!(text, "  # The hash of the master key: {command}");
    }
    let mut entries = vec![("id", "master".to_owned()), ("hash", quoted(&key.hash))];
    entries.extend(settings.budget.map(|_| ("team", "everyone".to_owned())));
    entries.extend(key.concurrency.map(|most| ("limits", mapping(&[("concurrency", most.to_string())]))));
    let _ = writeln!(text, "  - {}", mapping(&entries));
}

fn engines(text: &mut String, engines: &[PlannedEngine]) {
    let keyed: Vec<_> = engines.iter().filter_map(|it| Some((it, it.engine.key.as_ref()?))).collect();
    if !keyed.is_empty() {
        *text += "\n# The accounts at providers. Several `keys` of an account are used in rotation.\naccounts:\n";
    }
    for (planned, key) in keyed {
        let mut entries = vec![("keys", format!("[{}]", quoted(key)))];
        let mut limits = Vec::new();
        limits.extend(planned.rpm.map(|rpm| ("rpm", rpm.to_string())));
        limits.extend(planned.tpm.map(|tpm| ("tpm", tpm.to_string())));
        if !limits.is_empty() {
            entries.push(("limits", mapping(&limits)));
        }
        let _ = writeln!(text, "  {}: {}", map_key(&planned.name), mapping(&entries));
    }
    *text += "\nengines:\n";
    for planned in engines {
        let mut entries = vec![("url", quoted(&planned.engine.url))];
        if let Some(version) = &planned.engine.azure {
            entries.extend([("dialect", "azure".to_owned()), ("api_version", quoted(version))]);
        }
        if planned.engine.key.is_some() {
            entries.push(("account", scalar(&planned.name)));
        }
        entries.extend(planned.engine.is_exact.then(|| ("base", "exact".to_owned())));
        entries.extend(planned.concurrency.map(|most| ("max_concurrency", most.to_string())));
        let _ = writeln!(text, "  {}: {}", map_key(&planned.name), mapping(&entries));
    }
}

fn write_pool(text: &mut String, pool: &PlannedPool, least_request: bool) {
    let _ = writeln!(text, "  {}:", map_key(&pool.name));
    if least_request {
        *text += "    balance: least_request\n";
    }
    if !pool.speaks.is_empty() {
        let _ = writeln!(text, "    speaks: {}", names(pool.speaks.iter().map(|endpoint| endpoint.name())));
    }
    if let Some((input, cached, output)) = pool.price {
        let mut entries = vec![("input", input.to_string())];
        entries.extend(cached.map(|usd| ("cached_input", usd.to_string())));
        entries.push(("output", output.to_string()));
        let _ = writeln!(text, "    price: {}", mapping(&entries));
    }
    if let Some(tokens) = pool.context {
        let _ = writeln!(text, "    context: {tokens}");
    }
    *text += "    backends:\n";
    for backend in &pool.backends {
        let _ = writeln!(text, "      - {}{}", write_backend(backend), from(backend.deployment.line));
    }
}

fn write_backend(backend: &PlannedBackend) -> String {
    let deployment = &backend.deployment;
    let mut entries = vec![("engine", scalar(&backend.engine))];
    entries.extend(deployment.azure.as_ref().map(|name| ("deployment", scalar(name))));
    entries.extend(deployment.model.as_ref().map(|name| ("model", scalar(name))));
    entries.extend(deployment.strip.as_ref().map(|prefix| ("strip", scalar(prefix))));
    entries.extend(backend.share.map(|percent| ("weight", format!("{percent}%"))));
    if !deployment.with.drop.is_empty() {
        entries.push(("drop", names(deployment.with.drop.iter().map(String::as_str))));
    }
    if !deployment.with.defaults.is_empty() {
        let mut fields = serde_json::Map::new();
        fields.extend(deployment.with.defaults.iter().cloned());
        entries.push(("defaults", value(&fields.into())));
    }
    mapping(&entries)
}

fn write_model(text: &mut String, model: &PlannedModel) {
    let group = &model.group;
    let mut entries = vec![("to", scalar(group.pools.first().map_or("", String::as_str)))];
    if !model.fallback.is_empty() {
        entries.push(("fallback", names(model.fallback.iter().map(String::as_str))));
        // LiteLLM falls back after failures only.
        entries.push(("spill", "off".to_owned()));
    }
    let mut timeouts = Vec::new();
    timeouts.extend(group.timeout.map(|idle| ("idle", seconds(idle))));
    timeouts.extend(group.stream_timeout.map(|first| ("first_token", seconds(first))));
    if !timeouts.is_empty() {
        entries.push(("timeouts", mapping(&timeouts)));
    }
    let _ = writeln!(text, "  {}: {}", map_key(&group.name), mapping(&entries));
}

fn from(line: usize) -> String {
    if line > 0 { format!(" # line {line}") } else { String::new() }
}
