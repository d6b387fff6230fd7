//! Accounts, engines and prices as written in the file.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    connection::{ClientTls, Proxy},
    discovery::Port,
    engine_scalars::{Base, Dialect, HeaderWord, Scrape, ToolCallIds},
    key_source::KeySource,
    keys::AccountLimits,
    mistake::{At, Mistake},
    otel::HeaderText,
    patterns::{self, number_schema},
    scalar::{Field, Scalar, Url, Word, choice, choice_schema},
    shape::{Located, Named},
    units,
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
    /// The ids of tool calls that it accepts: `any`, or `mistral` for nine letters and digits; others are replaced in
    /// requests. Default: `mistral` at Mistral's addresses and for models with a name of Mistral's, else `any`.
    pub tool_call_ids: Option<Field<ToolCallIds>>,
    /// The account whose keys are used for it.
    pub account: Option<Field<Word>>,
    /// The base of the API's paths: `auto`, which is `/v1` below an address without a version, or `exact`, which is the
    /// address as it stands, as SDKs read it. Default: `auto`.
    pub base: Option<Field<Base>>,
    /// Parameters of every request's query, such as `{ api-version: "2025-01-01" }`.
    pub query: Option<Named<Field<HeaderText>>>,
    /// Headers of every request, such as `{ OpenAI-Project: "${PROJECT}" }`. They replace those of callers and of the
    /// account's key.
    pub headers: Option<Named<Field<HeaderText>>>,
    /// Certificates of the connection: a private root, or a certificate of the gateway's own.
    pub tls: Option<ClientTls>,
    /// The proxy to it, such as `http://proxy:3128`, or `none`. Default: that of the environment.
    pub proxy: Option<Field<Proxy>>,
    /// The interval at which its `/metrics` is read, such as `1s`, or `false` for never. Default: every second over
    /// plain http.
    pub scrape: Option<Field<Scrape>>,
    /// The place of its metrics page, if it is none of those that engines have.
    pub metrics: Option<Metrics>,
    /// `true` asks the engine which endpoints it serves, by requests that are invalid on purpose and generate nothing;
    /// `false` never does. Default: `true` if its metrics are read and it has no account.
    pub probe: Option<Field<bool>>,
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
    /// Headers of callers that go to it although it has an account or a public address, such as `[x-tenant]`. Default:
    /// only those of the APIs and of tracing; to engines without an account at a private address, all but credentials.
    pub forward_headers: Option<Vec<Field<HeaderWord>>>,
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

/// The place of an engine's metrics page.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// The path on the engine's server, such as `/prometheus/metrics`. Default: those of the known engines, in turn.
    pub path: Option<Field<Word>>,
    /// The port, such as `8081`, if it is another than that of the API.
    pub port: Option<Field<Port>>,
}

impl Metrics {
    /// The position of its first key.
    pub fn at(&self) -> Option<At> {
        self.path.as_ref().map(Field::at).or_else(|| self.port.as_ref().map(Field::at))
    }
}

/// The address of an exporter's metrics; `/metrics` if the address has no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter(pub String);

impl Scalar for Exporter {
    fn read(text: &str) -> Result<Self, Mistake> {
        let has_credentials = text.split('/').nth(2).is_some_and(|authority| authority.contains('@'));
        let help = if has_credentials {
            "exporters with credentials are not supported: let this one answer the gateway without them"
        } else {
            "write the address of its metrics, over http or https, such as `http://g1:9400/metrics`"
        };
        let Url(url) = Url::read(text).map_err(|_| Mistake::new("not the address of an exporter").help(help))?;
        let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        Ok(Self(if has_path { url } else { format!("{url}/metrics") }))
    }

    fn schema() -> Schema {
        super::url::schema()
    }
}

/// The cost of a pool: per token, in US dollars per million, and per hour of its engines. If both are set, requests are
/// charged per token and the pool's cost is that of its hours.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens that were computed.
    pub input: Option<Field<f64>>,
    /// Prompt tokens found in the prefix cache. Default: as `input`.
    pub cached_input: Option<Field<f64>>,
    /// Prompt tokens that the provider writes to its prefix cache. Default: as `input`.
    pub cache_write: Option<Field<f64>>,
    /// Tokens of the answer.
    pub output: Option<Field<f64>>,
    /// US dollars per hour for each of its engines without a price of its own, such as `3.00`.
    pub gpu_hour: Option<Field<Hourly>>,
}

/// US dollars per hour.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Hourly(pub f64);

impl Scalar for Hourly {
    fn read(text: &str) -> Result<Self, Mistake> {
        let help = |mistake: Mistake| match &*mistake.message {
            "not a number" => mistake.help("write US dollars per hour, such as `3.00`"),
            _ => mistake,
        };
        units::amount(text).map(Self).map_err(help)
    }

    fn schema() -> Schema {
        number_schema("number", 0, patterns::AMOUNT, &[])
    }
}

/// The source of prices and context sizes of pools that give none.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Prices {
    /// There is none.
    None,
    /// The table that comes with the gateway.
    Builtin,
}

/// The names of the sources in files.
const PRICES: [(&str, Prices); 2] = [("builtin", Prices::Builtin), ("none", Prices::None)];

impl Scalar for Prices {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &PRICES)
    }

    fn schema() -> Schema {
        choice_schema(&PRICES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_addresses_are_completed() {
        let read = |text| Exporter::read(text).map(|Exporter(url)| url);
        assert_eq!(read("http://G1:9400").unwrap(), "http://g1:9400/metrics");
        assert_eq!(read("http://g1:9400/gpus").unwrap(), "http://g1:9400/gpus");
        for text in ["g1:9400", "ftp://g1/metrics"] {
            assert!(read(text).unwrap_err().help.unwrap().contains("9400/metrics"));
        }
        assert!(read("http://me:secret@g1:9400").unwrap_err().help.unwrap().contains("not supported"));
    }
}
