//! The sections of settings: what they mean for the policy, and what has no counterpart.

use super::{
    context::{Context, environ, variable},
    remarks::{self, Section},
};
use crate::tree::Node;

/// Shortest key that is not called weak.
const LEAST_KEY: usize = 20;

/// Settings of the policy outside engines, pools and models.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// The most concurrent requests.
    pub(super) in_flight: Option<u64>,
    /// The largest request body in MiB.
    pub(super) body: Option<u64>,
    /// Seconds between two events of an answer, and until the first token.
    pub(super) idle: Option<f64>,
    pub(super) first_token: Option<f64>,
    pub(super) json_logs: bool,
    /// The address of an OpenTelemetry collector.
    pub(super) otel: Option<String>,
    pub(super) cache: Option<Cache>,
    /// The address of the Redis server that LiteLLM uses for limits.
    pub(super) redis: Option<RedisServer>,
    pub(super) key: Option<MasterKey>,
    /// US dollars per `day` or `month`.
    pub(super) budget: Option<(f64, &'static str)>,
    /// True if LiteLLM stores usage in a database.
    pub(super) usage: bool,
    /// True if the routing strategy counts requests under way.
    pub(super) least_request: bool,
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Seconds.
    pub(super) ttl: Option<f64>,
    pub(super) semantic: bool,
    /// The Redis server and the secret that encrypts the entries there.
    pub(super) shared: Option<(RedisServer, String)>,
}

#[derive(Debug)]
pub(super) struct MasterKey {
    /// The hash, or a reference to a variable with it.
    pub(super) hash: String,
    pub(super) concurrency: Option<u64>,
    /// The command that prints the hash, if the key is not in the configuration.
    pub(super) from: Option<String>,
}

/// A Redis server, with the variable of its password.
#[derive(Clone, Debug)]
pub(super) struct RedisServer {
    pub(super) url: String,
    pub(super) password: Option<String>,
}

/// Reads the three sections.
pub(super) fn read(cx: &mut Context, router: &Node, litellm: &Node, general: &Node) -> Settings {
    let mut settings = Settings {
        in_flight: general.get("global_max_parallel_requests").and_then(Node::count),
        body: general.get("max_request_size_mb").and_then(Node::count),
        json_logs: litellm.get("json_logs").is_some_and(Node::is_true),
        usage: general.get("database_url").is_some() || general.get("store_model_in_db").is_some(),
        ..Settings::default()
    };
    let seconds = |node: &Node, key: &str| node.get(key).and_then(Node::number).filter(|seconds| *seconds > 0.0);
    settings.idle = seconds(router, "timeout").or_else(|| seconds(litellm, "request_timeout"));
    settings.first_token = seconds(router, "stream_timeout").or_else(|| seconds(litellm, "stream_timeout"));
    let strategy = router.get("routing_strategy").and_then(Node::text);
    settings.least_request = strategy.as_deref() == Some("least-busy");
    settings.redis = redis(cx, router, "router_settings", "redis_");
    settings.key = master_key(cx, general);
    settings.budget = budget(cx, litellm);
    settings.cache = cache(cx, litellm);
    settings.otel = callbacks(cx, litellm, general);
    remarks::of(cx, Section::Router, router);
    remarks::of(cx, Section::Litellm, litellm);
    remarks::of(cx, Section::General, general);
    settings
}

fn master_key(cx: &mut Context, general: &Node) -> Option<MasterKey> {
    let node = general.get("master_key")?;
    let concurrency = general.get("max_parallel_requests").and_then(Node::count);
    if let Some(name) = variable(node) {
        let hash = format!("{name}_HASH");
        let purpose = "the hash of LiteLLM's master key, as `signalbox key hash` prints it";
        let from = Some(format!("printenv {name} | signalbox key hash --id master"));
        return Some(MasterKey { hash: cx.require(&hash, purpose), concurrency, from });
    }
    let secret = node.text().filter(|secret| !secret.trim().is_empty())?;
    if secret.trim().len() < LEAST_KEY {
        let text = "a key that can be guessed: whoever finds this port may spend what the providers' keys pay for; `signalbox key new` makes another";
        cx.differs(node.line, "general_settings.master_key", text);
    }
    let hash = format!("blake3:{}", blake3::hash(secret.trim().as_bytes()).to_hex());
    Some(MasterKey { hash, concurrency, from: None })
}

fn budget(cx: &mut Context, litellm: &Node) -> Option<(f64, &'static str)> {
    let node = litellm.get("max_budget")?;
    let usd = node.number().filter(|usd| *usd > 0.0)?;
    let duration = litellm.get("budget_duration").and_then(Node::text).unwrap_or_default();
    let per = match &*duration {
        "1d" | "24h" | "daily" => "day",
        "30d" | "31d" | "1mo" | "monthly" => "month",
        _ => {
            let text = "a budget is renewed by the day or by the month: it was left out; add `teams` with a `budget`";
            cx.gap(node.line, "litellm_settings.max_budget", text);
            return None;
        }
    };
    cx.differs(node.line, "litellm_settings.max_budget", "the budget became that of the team `everyone`, which the master key belongs to: put other keys into it, or into teams of their own");
    Some((usd, per))
}

fn cache(cx: &mut Context, litellm: &Node) -> Option<Cache> {
    let switch = litellm.get("cache").filter(|node| node.is_true())?;
    let none = Node::default();
    let params = litellm.get("cache_params").unwrap_or(&none);
    let kind = params.get("type").and_then(Node::text).unwrap_or_else(|| "redis".to_owned());
    let line = params.get("type").map_or(switch.line, |node| node.line);
    let place = "litellm_settings.cache_params";
    let mut cache =
        Cache { ttl: params.get("ttl").and_then(Node::number).filter(|ttl| *ttl > 0.0), ..Cache::default() };
    cache.semantic = kind.ends_with("-semantic");
    match &*kind {
        "local" | "qdrant-semantic" => {}
        "disk" => cx.differs(line, place, "answers are kept in memory: `cache.persist` keeps them on disk"),
        "redis" | "redis-semantic" | "valkey-semantic" => {
            let url = redis(cx, params, place, "").or_else(|| redis_of_environment(cx));
            let purpose = "a random text of at least 16 characters: it encrypts cached answers in Redis";
            cache.shared = url.map(|url| (url, cx.require("SIGNALBOX_CACHE_KEY", purpose)));
        }
        _ => {
            let text = format!(
                "no cache of the type `{kind}`: answers are kept in memory; `cache.persist` and `cache.shared` keep them elsewhere"
            );
            cx.gap(line, place, text);
        }
    }
    if kind == "qdrant-semantic" {
        cx.differs(
            line,
            place,
            "answers and their vectors are kept in memory: no Qdrant is needed; `cache.persist` keeps them on disk",
        );
    }
    if cache.semantic {
        let text = "a hit is decided by its estimated error (`max_false_hit_rate`), not by a fixed similarity; the embedder is built in";
        cx.differs(line, place, text);
    }
    cx.differs(
        switch.line,
        "litellm_settings.cache",
        "each key has its own answers: `scope: shared` shares them between all callers, as LiteLLM does",
    );
    if params.get("mode").and_then(Node::text).as_deref() == Some("default_off") {
        let text =
            "a request cannot turn the cache on: turn it off for models with `cache: { exact: off, semantic: off }`";
        cx.gap(line, format!("{place}.mode"), text);
    }
    Some(cache)
}

/// The address of a Redis server from `host`, `port`, `password`, `url` and so on, with `prefix` before each.
fn redis(cx: &mut Context, node: &Node, place: &str, prefix: &str) -> Option<RedisServer> {
    let get = |key: &str| node.get(&format!("{prefix}{key}"));
    if let Some(nodes) = get("startup_nodes").or_else(|| get("sentinel_nodes")) {
        cx.gap(
            nodes.line,
            place,
            "clusters and sentinels are not translated: name the server yourself (`limits.shared`, `cache.shared`)",
        );
        return None;
    }
    if let Some(url) = get("url") {
        let url = match variable(url) {
            Some(_) => cx.text(url)?,
            // The address may contain a password.
            None => cx.secret(url, "REDIS_URL")?,
        };
        return Some(RedisServer { url, password: None });
    }
    let host = get("host")?;
    let host = cx.text(host)?;
    let port = get("port").and_then(|port| cx.text(port)).unwrap_or_else(|| "6379".to_owned());
    let password = get("password").and_then(|password| cx.secret(password, "REDIS_PASSWORD"));
    let db = get("db").and_then(Node::count).map(|db| format!("/{db}")).unwrap_or_default();
    let scheme = if get("ssl").is_some_and(Node::is_true) { "rediss" } else { "redis" };
    Some(RedisServer { url: format!("{scheme}://{host}:{port}{db}"), password })
}

/// The Redis server of the variables that LiteLLM reads where the cache names none.
fn redis_of_environment(cx: &mut Context) -> Option<RedisServer> {
    if cx.mentions("REDIS_URL") {
        return Some(RedisServer { url: cx.refer("REDIS_URL"), password: None });
    }
    let host = cx.text(&environ("REDIS_HOST", 0))?;
    let password = cx.mentions("REDIS_PASSWORD").then(|| cx.refer("REDIS_PASSWORD"));
    let port = if cx.mentions("REDIS_PORT") { cx.refer("REDIS_PORT") } else { "${REDIS_PORT:-6379}".to_owned() };
    Some(RedisServer { url: format!("redis://{host}:{port}"), password })
}

/// The collector of OpenTelemetry, if a callback exports to one. Notes the others.
fn callbacks(cx: &mut Context, litellm: &Node, general: &Node) -> Option<String> {
    let mut otel = general.get("otel").is_some_and(Node::is_true);
    for key in ["callbacks", "success_callback", "failure_callback", "service_callback"] {
        let Some(node) = litellm.get(key) else { continue };
        for name in node.texts() {
            otel |= matches!(&*name, "otel" | "arize" | "arize_phoenix" | "traceloop");
            remarks::callback(cx, node.line, key, &name);
        }
    }
    let name = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_ENDPOINT"].into_iter().find(|name| cx.mentions(name));
    otel.then(|| match name {
        Some(name) => cx.refer(name),
        None => "${OTEL_EXPORTER_OTLP_ENDPOINT:-http://127.0.0.1:4318}".to_owned(),
    })
}
