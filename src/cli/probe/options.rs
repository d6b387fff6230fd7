//! Options that an engine was started without, and what it cannot be asked.

use std::time::Duration;

use serde_json::Value;

use signalbox_engines::{Flag, Profile, read_engine_signals};
use signalbox_policy::Engine;
use signalbox_upstream::{Client, EngineAccess, address};

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(2);
/// Largest answer, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Remarks on the options of an engine, which is one of `profile` if its kind is known.
pub(super) async fn remarks(
    client: &Client,
    engine: &Engine,
    access: &EngineAccess,
    profile: Option<&Profile>,
) -> Vec<String> {
    let mut remarks = Vec::new();
    if engine.scrape.is_some() {
        remarks.extend(metrics(client, engine, access, profile).await);
    }
    for flag in profile.map(|profile| profile.flags).unwrap_or_default() {
        remarks.extend(option(client, engine, access, flag).await);
    }
    remarks
}

/// The remark on an engine without a metrics page that is known.
async fn metrics(client: &Client, engine: &Engine, access: &EngineAccess, profile: Option<&Profile>) -> Option<String> {
    // Some have none under any option.
    if profile.is_some_and(|profile| profile.metrics.is_none()) {
        return None;
    }
    let urls = address::metrics_urls(engine);
    for url in &urls {
        let page = client.fetch(url, access, LIMIT, MAX_BYTES).await;
        if page.is_ok_and(|page| read_engine_signals(&String::from_utf8_lossy(&page.body)).is_some()) {
            return None;
        }
    }
    let start = profile.and_then(|profile| profile.metrics?.flag);
    let start = start.map_or_else(String::new, |flag| format!("start it with `{flag}`, or "));
    Some(format!(
        "no known metrics at {}, its queue and caches are estimated: {start}set `metrics` to where they are, or `scrape: false`",
        urls.join(" and ")
    ))
}

/// The remark on an option that is not set, or that cannot be asked for.
async fn option(client: &Client, engine: &Engine, access: &EngineAccess, flag: &Flag) -> Option<String> {
    let Flag { name, lacks, reported_by } = *flag;
    let Some((path, member)) = reported_by else {
        return Some(format!("it cannot be asked whether it was started with `{name}`: without it, {lacks}"));
    };
    let url = address::root_url(&engine.url, path);
    let page = client.fetch(&url, access, LIMIT, MAX_BYTES).await;
    let reported = page.ok().and_then(|page| serde_json::from_slice::<Value>(&page.body).ok()?[member].as_bool());
    match reported {
        Some(true) => None,
        Some(false) => Some(format!("start it with `{name}`: without it, {lacks}")),
        None => Some(format!("{path} does not tell whether it was started with `{name}`: without it, {lacks}")),
    }
}
