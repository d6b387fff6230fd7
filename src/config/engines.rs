//! Accounts and engines, as they are typed.

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

/// Who pays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Provider keys, used in turn: `"${NAME}"` or `{ file: path }`.
    pub keys: Located<Vec<KeySource>>,
    /// What all of its keys together may use. Requests that it has no room for go elsewhere, or wait.
    pub limits: Option<AccountLimits>,
}

/// One server process, or one hosted endpoint, that runs models.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Base address of its API: `http://host:8000/v1`, or the resource's root for Azure.
    pub url: Field<Url>,
    /// How it is addressed. Default: `openai`.
    pub dialect: Option<Field<Dialect>>,
    /// The dated version of Azure's API.
    pub api_version: Option<Field<Word>>,
    /// The account whose keys it is called with.
    pub account: Option<Field<Word>>,
    /// How often its `/metrics` is read, such as `1s`, or `false` for never. Default: every second, over plain http.
    pub scrape: Option<Field<Scrape>>,
    /// An active check of whether it is well, such as `{ path: /health }`. Default: none; its answers to requests show it.
    pub health: Option<Health>,
    /// Most requests there at once, those that others seem to have put there included. Default: no limit.
    pub max_concurrency: Option<Field<u64>>,
    /// Size of its KV cache in tokens, such as `400k`, where it does not report it.
    pub kv_tokens: Option<Field<u64>>,
    /// What an hour of it costs in US dollars, busy or not, such as `3.00`.
    pub gpu_hour: Option<Field<Hourly>>,
    /// Where NVIDIA's DCGM exporter has the metrics of its GPUs, such as `http://g1:9400/metrics`.
    pub dcgm: Option<Field<Exporter>>,
}

/// An active check of an engine: after two failed checks in a row requests avoid it, after one that succeeds they return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// The path to ask for, at the root of the engine's server. An answer below 400 means that it is well.
    pub path: Field<Word>,
    /// Time between two checks. Default: `5s`.
    pub every: Option<Field<Duration>>,
    /// The longest that an answer may take. Default: `2s`.
    pub timeout: Option<Field<Duration>>,
}
