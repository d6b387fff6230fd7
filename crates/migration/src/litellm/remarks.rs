//! Remarks on settings, by section and key.

use super::context::Context;
use crate::{Kind, tree::Node};

/// A section of the configuration.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Router,
    Litellm,
    General,
}

use Kind::{BuiltIn, Differs, Gap};
use Section::{General, Litellm, Router};

const RETRIES: &str =
    "a failed request goes to another backend at once, within a budget of retries; no setting is needed";
const BREAKERS: &str =
    "a breaker per backend opens after failures and closes when a probe succeeds; no setting is needed";
const CHECKS: &str = "health is inferred from answers and scrapes; `engines.NAME.health` adds active checks";
const DATABASE: &str = "there is no database: keys, teams and models are in the policy, and usage is in files (`usage`); export keys and models that were made in LiteLLM's interface";
const ALERTS: &str =
    "`notifications` sends budgets and burning objectives to a webhook or Slack; alert on the metrics for the rest";
const KEYS: &str = "keys are in the policy, with `limits`, `models` and `team` of their own";
const GUARDS: &str = "no guardrails: run them in the application, or as an engine in front of the model";
const LOGIN: &str = "callers are known by keys: put a proxy that checks tokens in front";
const SILENCE: &str =
    "a timeout of LiteLLM limits silence, so it became `timeouts.idle`: add `total` to limit whole answers";

/// Settings with a remark.
const REMARKS: [(Section, &str, Kind, &str); 68] = [
    (Router, "num_retries", BuiltIn, RETRIES),
    (Router, "retry_after", BuiltIn, RETRIES),
    (Router, "max_fallbacks", BuiltIn, RETRIES),
    (Router, "retry_policy", BuiltIn, RETRIES),
    (Router, "model_group_retry_policy", BuiltIn, RETRIES),
    (Router, "allowed_fails", BuiltIn, BREAKERS),
    (Router, "allowed_fails_policy", BuiltIn, BREAKERS),
    (Router, "cooldown_time", BuiltIn, BREAKERS),
    (Router, "disable_cooldowns", Gap, "breakers cannot be turned off: they only avoid a backend while others work"),
    (Router, "enable_pre_call_checks", BuiltIn, "a prompt that does not fit a pool goes to one with room"),
    (Router, "timeout", Differs, SILENCE),
    (
        Router,
        "stream_timeout",
        Differs,
        "after `timeouts.first_token` another backend is tried in parallel, and the first answer wins",
    ),
    (Router, "cache_responses", BuiltIn, "answers are cached if the policy has a `cache`"),
    (Router, "enable_tag_filtering", Gap, "no routing by tags of requests: use `routes` with conditions on `key.tags`"),
    (Router, "provider_budget_config", Gap, "no budgets of providers: budgets belong to teams"),
    (Router, "default_max_parallel_requests", Gap, "set `max_concurrency` of the engines"),
    (Router, "default_priority", Gap, "set `priority` of the keys"),
    (Router, "alerting_config", Gap, ALERTS),
    (Router, "caching_groups", Gap, "models do not share answers"),
    (Litellm, "num_retries", BuiltIn, RETRIES),
    (Litellm, "allowed_fails", BuiltIn, BREAKERS),
    (Litellm, "cooldown_time", BuiltIn, BREAKERS),
    (Litellm, "request_timeout", Differs, SILENCE),
    (
        Litellm,
        "stream_timeout",
        Differs,
        "after `timeouts.first_token` another backend is tried in parallel, and the first answer wins",
    ),
    (
        Litellm,
        "drop_params",
        Differs,
        "fields are passed on as they came: name those that an engine rejects in `drop` of its backends",
    ),
    (
        Litellm,
        "modify_params",
        Gap,
        "requests are not changed to suit a provider: have clients send what the model accepts",
    ),
    (Litellm, "additional_drop_params", Gap, "name the fields in `drop` of the backends"),
    (Litellm, "turn_off_message_logging", BuiltIn, "texts of prompts and answers are never logged"),
    (Litellm, "redact_user_api_key_info", BuiltIn, "logs and traces show the id of a key, never the key"),
    (Litellm, "guardrails", Gap, GUARDS),
    (Litellm, "default_team_settings", Gap, "set `team` of the keys; callbacks per team do not exist"),
    (Litellm, "default_internal_user_params", Gap, KEYS),
    (Litellm, "max_internal_user_budget", Gap, KEYS),
    (Litellm, "internal_user_budget_duration", Gap, KEYS),
    (
        Litellm,
        "max_end_user_budget",
        Gap,
        "no budgets of end users: give each application a key in a team with a budget",
    ),
    (Litellm, "default_key_generate_params", Gap, KEYS),
    (Litellm, "upperbound_key_generate_params", Gap, KEYS),
    (Litellm, "key_generation_settings", Gap, KEYS),
    (Litellm, "tag_budget_config", Gap, "no budgets of tags: budgets belong to teams"),
    (
        Litellm,
        "custom_provider_map",
        Gap,
        "no code runs in the gateway: serve the model behind an OpenAI-compatible server",
    ),
    (Litellm, "forward_traceparent_to_llm_provider", BuiltIn, "`traceparent` is passed on"),
    (Litellm, "public_model_groups", Gap, "no public list of models"),
    (General, "database_url", Differs, DATABASE),
    (General, "store_model_in_db", Differs, DATABASE),
    (
        General,
        "max_parallel_requests",
        Differs,
        "the limit became that of the master key: repeat it in `limits` of other keys",
    ),
    (General, "alerting", Gap, ALERTS),
    (General, "alert_types", Gap, ALERTS),
    (General, "alerting_threshold", Gap, ALERTS),
    (General, "alert_to_webhook_url", Gap, ALERTS),
    (
        General,
        "pass_through_endpoints",
        Gap,
        "only endpoints of the OpenAI and Anthropic APIs are served: route other paths in a proxy in front",
    ),
    (General, "custom_auth", Gap, LOGIN),
    (General, "enable_jwt_auth", Gap, LOGIN),
    (General, "litellm_jwtauth", Gap, LOGIN),
    (General, "enable_oauth2_auth", Gap, LOGIN),
    (
        General,
        "litellm_key_header_name",
        Gap,
        "keys are read from `Authorization`, `x-api-key` and `api-key`: have the proxy in front move the header",
    ),
    (General, "allowed_routes", Gap, "set `endpoints` of the keys, such as `[chat, embeddings]`"),
    (General, "allowed_ips", Gap, "limit addresses in the firewall, or in a proxy in front"),
    (General, "use_x_forwarded_for", Gap, "limit addresses in the firewall, or in a proxy in front"),
    (General, "completion_model", Gap, "the request names the model: `models` may have a pattern `\"*\"`"),
    (General, "enforce_user_param", Gap, "requests without `user` are accepted"),
    (General, "key_management_system", Gap, "keys come from variables or files (`{ file: … }`): mount the secrets"),
    (General, "key_management_settings", Gap, "keys come from variables or files (`{ file: … }`): mount the secrets"),
    (General, "max_response_size_mb", Gap, "answers have no limit but `max_tokens`"),
    (General, "background_health_checks", BuiltIn, CHECKS),
    (General, "health_check_interval", BuiltIn, CHECKS),
    (
        General,
        "forward_client_headers_to_llm_api",
        BuiltIn,
        "headers of clients are passed on, except keys and cookies",
    ),
    (General, "ui_access_mode", Gap, "the page at the admin address shows the state; settings are in the policy"),
    (General, "allow_requests_on_db_unavailable", BuiltIn, "there is no database to wait for"),
];

/// Settings that were translated, and those that do not affect requests.
const SILENT: [(Section, &[&str]); 3] = [
    (
        Router,
        &[
            "routing_strategy",
            "routing_strategy_args",
            "fallbacks",
            "default_fallbacks",
            "context_window_fallbacks",
            "content_policy_fallbacks",
            "model_group_alias",
            "redis_host",
            "redis_port",
            "redis_password",
            "redis_url",
            "redis_db",
            "redis_ssl",
            "redis_startup_nodes",
            "set_verbose",
            "debug_level",
            "client_ttl",
            "polling_interval",
            "optional_pre_call_checks",
        ],
    ),
    (
        Litellm,
        &[
            "fallbacks",
            "default_fallbacks",
            "context_window_fallbacks",
            "content_policy_fallbacks",
            "model_group_alias",
            "cache",
            "cache_params",
            "max_budget",
            "budget_duration",
            "json_logs",
            "set_verbose",
            "callbacks",
            "success_callback",
            "failure_callback",
            "service_callback",
            "telemetry",
            "suppress_debug_info",
            "enable_json_schema_validation",
            "langfuse_default_tags",
            "callback_settings",
            "disable_end_user_cost_tracking",
            "enable_preview_features",
            "ssl_verify",
            "force_ipv4",
            "disable_streaming_logging",
        ],
    ),
    (
        General,
        &[
            "master_key",
            "global_max_parallel_requests",
            "max_request_size_mb",
            "otel",
            "database_connection_pool_limit",
            "database_connection_timeout",
            "proxy_batch_write_at",
            "proxy_budget_rescheduler_min_time",
            "proxy_budget_rescheduler_max_time",
            "disable_spend_logs",
            "disable_error_logs",
            "disable_master_key_return",
            "infer_model_from_keys",
            "health_check_details",
            "use_redis_transaction_buffer",
            "port",
            "host",
            "num_workers",
            "store_prompts_in_spend_logs",
            "disable_retry_on_max_parallel_request_limit_error",
            "ui_theme",
            "proxy_base_url",
            "maximum_spend_logs_retention_period",
            "maximum_spend_logs_retention_interval",
            "disable_adding_master_key_hash_to_db",
            "role_permissions",
            "user_header_name",
            "disable_reset_budget",
            "dangerously_permit_weak_or_unset_master_key",
        ],
    ),
];

impl Section {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Router => "router_settings",
            Self::Litellm => "litellm_settings",
            Self::General => "general_settings",
        }
    }
}

/// Notes every setting of a section that has a remark, or that is not known.
pub(super) fn of(cx: &mut Context, section: Section, node: &Node) {
    for (key, value) in node.entries().iter().filter(|(_, value)| !value.is_null()) {
        let place = format!("{}.{key}", section.name());
        let is_off = matches!(value.value, crate::tree::Value::Bool(false));
        if let Some((.., kind, text)) = REMARKS.iter().find(|(of, name, ..)| *of == section && name == key) {
            if !is_off {
                cx.note(*kind, value.line, place, *text);
            }
        } else if !SILENT.iter().any(|(of, names)| *of == section && names.contains(&&**key)) && !is_off {
            cx.gap(value.line, place, "a setting that this import does not know");
        }
    }
    if section == Router {
        strategy(cx, node);
    }
}

fn strategy(cx: &mut Context, router: &Node) {
    let Some(node) = router.get("routing_strategy") else { return };
    let place = "router_settings.routing_strategy";
    match node.text().as_deref() {
        Some("least-busy") => {}
        Some("cost-based-routing") => {
            let text = "pools are tried in the order of the policy: name the cheapest first in `to`, or use `complexity` with prices";
            cx.gap(node.line, place, text);
        }
        Some("usage-based-routing" | "usage-based-routing-v2") => {
            let text = "backends are chosen by predicted latency (`least_cost`); limits of accounts keep the provider's limits";
            cx.differs(node.line, place, text);
        }
        Some("provider-budget-routing") => cx.gap(node.line, place, "no budgets of providers: budgets belong to teams"),
        _ => cx.differs(
            node.line,
            place,
            "backends are chosen by predicted latency (`least_cost`); `balance` of a pool selects another strategy",
        ),
    }
}

/// Notes a callback.
pub(super) fn callback(cx: &mut Context, line: usize, key: &str, name: &str) {
    let place = format!("litellm_settings.{key} `{name}`");
    match name {
        "otel" | "arize" | "arize_phoenix" | "traceloop" => {
            cx.differs(
                line,
                place,
                "traces are exported with OpenTelemetry (`otel`), without texts of prompts and answers",
            );
        }
        "prometheus" | "prometheus_system" => {
            cx.note(BuiltIn, line, place, "`/metrics` at the admin address; names differ: see the metrics reference");
        }
        "langfuse" | "langfuse_otel" => {
            let text = "Langfuse accepts OpenTelemetry: `otel: { endpoint: https://HOST/api/public/otel, headers: { authorization: \"Basic …\" } }`; texts of prompts and answers are not exported";
            cx.gap(line, place, text);
        }
        "datadog" | "dd_tracing" | "langsmith" | "langtrace" | "logfire" | "newrelic" | "honeycomb" | "braintrust"
        | "opik" => {
            cx.gap(line, place, "send traces through an OpenTelemetry collector (`otel`); texts of prompts and answers are not exported");
        }
        "s3" | "s3_v2" | "gcs_bucket" | "azure_storage" | "dynamodb" | "sqs" | "gcs_pubsub" => {
            cx.gap(line, place, "write a `journal` or an `access_log`, and ship the files");
        }
        "presidio"
        | "lakera_prompt_injection"
        | "llmguard_moderations"
        | "detect_prompt_injection"
        | "hide_secrets" => {
            cx.gap(line, place, GUARDS);
        }
        "sentry" | "slack" | "slack_alerting" | "email" | "smtp_email" => cx.gap(line, place, ALERTS),
        _ => {
            cx.gap(line, place, "no code runs in the gateway: read the `journal`, the `access_log` or traces (`otel`)");
        }
    }
}
