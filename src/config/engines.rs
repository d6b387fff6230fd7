//! Accounts and engines as written in the file.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    exporter::Exporter,
    key_source::KeySource,
    keys::AccountLimits,
    prices::Hourly,
    scalar::{Dialect, Field, Scrape, Url, Word},
    shape::Located,
};

/// An account at a provider.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Provider keys, used in rotation: `"${NAME}"` or `{ file: path }`.
    pub keys: Located<Vec<KeySource>>,
    /// The limits of all its keys together. Requests beyond them go elsewhere or wait.
    pub limits: Option<AccountLimits>,
}

/// An inference server, or a hosted endpoint, that runs models.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Base address of its API: `http://host:8000/v1`, or the resource's root for Azure.
    pub url: Field<Url>,
    /// The API dialect: `openai` (the default) or `azure`.
    pub dialect: Option<Field<Dialect>>,
    /// The dated version of Azure's API.
    pub api_version: Option<Field<Word>>,
    /// The account whose keys are used for it.
    pub account: Option<Field<Word>>,
    /// The interval at which its `/metrics` is read, such as `1s`, or `false` for never. Default: every second over
    /// plain http.
    pub scrape: Option<Field<Scrape>>,
    /// An active health check, such as `{ path: /health }`. Default: none; health is inferred from its responses.
    pub health: Option<Health>,
    /// The most concurrent requests, including the estimated requests of other clients. Default: no limit.
    pub max_concurrency: Option<Field<u64>>,
    /// The size of its KV cache in tokens, such as `400k`, if it does not report it.
    pub kv_tokens: Option<Field<u64>>,
    /// Its cost per hour in US dollars, busy or idle, such as `3.00`.
    pub gpu_hour: Option<Field<Hourly>>,
    /// The address of NVIDIA's DCGM exporter for its GPUs, such as `http://g1:9400/metrics`.
    pub dcgm: Option<Field<Exporter>>,
}

/// An active health check of an engine: after two failed checks in a row requests avoid it, after one successful check
/// they return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// The path on the engine's server. A response status below 400 means healthy.
    pub path: Field<Word>,
    /// The interval between checks. Default: `5s`.
    pub every: Option<Field<Duration>>,
    /// The longest that a response may take. Default: `2s`.
    pub timeout: Option<Field<Duration>>,
}
