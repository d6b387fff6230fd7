//! The settings of a deployment beside its model and address.

use super::context::{Context, is_word};
use crate::{Kind, tree::Node};

/// Limits, weights, prices, timeouts and request fields of a deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parameters {
    pub(super) weight: Option<f64>,
    /// Lower ones are tried first; deployments without one come last, as LiteLLM leaves them out where others have one.
    pub(super) order: u64,
    pub(super) rpm: Option<u64>,
    pub(super) tpm: Option<u64>,
    pub(super) concurrency: Option<u64>,
    /// US dollars per million tokens: input, cached input, output.
    pub(super) price: Option<(f64, Option<f64>, f64)>,
    pub(super) context: Option<u64>,
    /// Seconds between two events of an answer.
    pub(super) timeout: Option<f64>,
    /// Seconds until the first token.
    pub(super) stream_timeout: Option<f64>,
    pub(super) drop: Vec<String>,
    /// Request fields to add, with values of YAML in flow style.
    pub(super) defaults: Vec<(String, serde_json::Value)>,
}

/// Fields of requests: set for a deployment, they are defaults of its requests.
const FIELDS: [&str; 37] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "stop",
    "seed",
    "n",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "reasoning_effort",
    "reasoning",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "user",
    "service_tier",
    "thinking",
    "verbosity",
    "dimensions",
    "encoding_format",
    "chat_template_kwargs",
    "metadata",
    "store",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "voice",
    "safety_settings",
];

/// Parameters that the address and the model are made of, and those without effect on requests.
const READ: [&str; 16] = [
    "model",
    "api_base",
    "base_url",
    "api_key",
    "api_version",
    "custom_llm_provider",
    "litellm_credential_name",
    "region_name",
    "mock_testing_fallbacks",
    "use_in_pass_through",
    "litellm_trace_id",
    "id",
    "aws_region_name",
    "vertex_project",
    "vertex_location",
    "model_info",
];

/// Parameters with a remark.
const REMARKS: [(&str, Kind, &str); 22] = [
    ("max_retries", Kind::BuiltIn, "another backend is tried at once, within a budget of retries"),
    ("num_retries", Kind::BuiltIn, "another backend is tried at once, within a budget of retries"),
    ("cooldown_time", Kind::BuiltIn, "a breaker opens after failures and closes when a probe succeeds"),
    ("allowed_fails", Kind::BuiltIn, "a breaker opens after failures and closes when a probe succeeds"),
    (
        "drop_params",
        Kind::Differs,
        "fields are passed on as they came: name those that this engine rejects in the backend's `drop`",
    ),
    ("organization", Kind::Gap, "no header `OpenAI-Organization` is sent: use a key of a project of that organization"),
    (
        "extra_headers",
        Kind::Gap,
        "no headers are added to requests: have clients send them, or a proxy before the engine",
    ),
    ("headers", Kind::Gap, "no headers are added to requests: have clients send them, or a proxy before the engine"),
    ("tags", Kind::Gap, "routing by tags of the request: use `routes` with conditions on `key.tags`"),
    ("tag_regex", Kind::Gap, "routing by headers: use `routes` with conditions on keys"),
    (
        "max_budget",
        Kind::Gap,
        "no budget for a deployment: budgets belong to teams (`teams: { NAME: { budget: { usd: … } } }`)",
    ),
    (
        "budget_duration",
        Kind::Gap,
        "no budget for a deployment: budgets belong to teams (`teams: { NAME: { budget: { usd: … } } }`)",
    ),
    ("mock_response", Kind::Gap, "answers are not made up: `signalbox serve --simulate` simulates whole engines"),
    (
        "configurable_clientside_auth_params",
        Kind::Gap,
        "clients cannot send provider keys: make an engine for each account",
    ),
    ("cache_control_injection_points", Kind::Gap, "prompts are not changed: have clients set `cache_control`"),
    ("merge_reasoning_content_in_choices", Kind::Gap, "answers are not changed: read `reasoning_content`"),
    ("guardrails", Kind::Gap, "no guardrails: run them in the application or as an engine of their own"),
    ("input_cost_per_second", Kind::Gap, "no price per second: set `gpu_hour` of the engine"),
    ("output_cost_per_second", Kind::Gap, "no price per second: set `gpu_hour` of the engine"),
    ("default_api_key_rpm_limit", Kind::Gap, "no limits per key and model: set `limits` of the keys"),
    ("default_api_key_tpm_limit", Kind::Gap, "no limits per key and model: set `limits` of the keys"),
    ("ssl_verify", Kind::Gap, "certificates of engines are always verified: add the authority to the system's"),
];

/// Parameters that are read below.
const SETTINGS: [&str; 15] = [
    "weight",
    "order",
    "rpm",
    "tpm",
    "max_parallel_requests",
    "timeout",
    "stream_timeout",
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "additional_drop_params",
    "extra_body",
    "itpm",
    "otpm",
];

/// Keys of `model_info` that change where requests go.
const INFO: [(&str, &str); 2] = [
    ("access_groups", "no groups of models: list the models of a key in its `models`"),
    ("team_id", "no models of a team: list the models of the team's keys in their `models`"),
];

/// Reads the settings and notes those without a counterpart.
pub(super) fn read(cx: &mut Context, place: &str, params: &Node, info: Option<&Node>) -> Parameters {
    let number = |key: &str| params.get(key).and_then(Node::number).filter(|number| *number > 0.0);
    let count = |key: &str| params.get(key).and_then(Node::count);
    let mut with = Parameters {
        weight: params.get("weight").and_then(Node::number).map(|weight| weight.max(0.0)),
        order: count("order").unwrap_or(u64::MAX),
        rpm: count("rpm"),
        tpm: count("tpm"),
        concurrency: count("max_parallel_requests"),
        price: price(params).or_else(|| price(info?)),
        context: info.and_then(|info| info.get("max_input_tokens")).and_then(Node::count),
        timeout: number("timeout"),
        stream_timeout: number("stream_timeout"),
        ..Parameters::default()
    };
    for node in params.get("additional_drop_params").map(Node::list).unwrap_or_default() {
        match node.text() {
            Some(name) if !name.contains(['.', '[']) && is_word(&name) => with.drop.push(name),
            _ => cx.gap(node.line, place, "a part of a field cannot be dropped: only whole fields (`drop`)"),
        }
    }
    let body = params.get("extra_body").map(Node::entries).unwrap_or_default();
    for (key, node) in params.entries().iter().filter(|(key, _)| FIELDS.contains(&&**key)).chain(body) {
        if !node.is_null() {
            with.defaults.push((key.clone(), escaped(node.json())));
        }
    }
    for (key, node) in params.entries().iter().filter(|(_, node)| !node.is_null()) {
        remark(cx, place, key, node);
    }
    for (key, text) in INFO {
        if let Some(node) = info.and_then(|info| info.get(key)) {
            cx.gap(node.line, format!("{place} {key}"), text);
        }
    }
    with
}

fn remark(cx: &mut Context, place: &str, key: &str, node: &Node) {
    let known = FIELDS.contains(&key) || READ.contains(&key) || SETTINGS.contains(&key);
    if let Some((_, kind, text)) = REMARKS.iter().find(|(name, ..)| *name == key) {
        if *kind != Kind::Differs || node.is_true() {
            cx.note(*kind, node.line, format!("{place} {key}"), *text);
        }
    } else if key == "itpm" || key == "otpm" {
        cx.gap(
            node.line,
            format!("{place} {key}"),
            "no separate limits of input and output: use `tpm`, for both together",
        );
    } else if !known {
        let text = "a parameter that this import does not know: if it is a field of requests, add it to the backend's `defaults`";
        cx.gap(node.line, format!("{place} {key}"), text);
    }
}

/// The price per million tokens, if both directions have one.
fn price(of: &Node) -> Option<(f64, Option<f64>, f64)> {
    let million = |key: &str| {
        let usd = of.get(key)?.number().filter(|usd| (0.0..1.0).contains(usd))?;
        // Six digits are more than any price has; the rest is an artefact of the conversion.
        Some((usd * 1e12).round() / 1e6)
    };
    Some((million("input_cost_per_token")?, million("cache_read_input_token_cost"), million("output_cost_per_token")?))
}

/// `value` with `${` escaped, which a policy would read as a variable.
fn escaped(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(text.replace("${", "$${")),
        Value::Array(list) => list.into_iter().map(escaped).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, escaped(value))).collect::<serde_json::Map<_, _>>().into()
        }
        other => other,
    }
}
