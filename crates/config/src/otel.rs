//! OpenTelemetry export as written in the file.

use std::time::Duration;

use regex::Regex;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    patterns::plain_schema,
    scalar::{Field, Scalar, Share, Url, Word},
    shape::Named,
};

/// Export of traces and metrics with OpenTelemetry, as OTLP over HTTP (protobuf). What is not set here is read from the
/// `OTEL_*` variables of the specification.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otel {
    /// The collector's base address, such as `http://127.0.0.1:4318`: traces go to `/v1/traces`, metrics to
    /// `/v1/metrics`. Default: `OTEL_EXPORTER_OTLP_ENDPOINT`, else port 4318 of this machine.
    pub endpoint: Option<Field<Url>>,
    /// Headers for the collector, such as `{ authorization: "Bearer ${TOKEN}" }`, beside those of
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Option<Named<Field<HeaderText>>>,
    /// The share of requests whose trace is recorded, unless the caller's `traceparent` decides. Default:
    /// `OTEL_TRACES_SAMPLER`, else `100%`.
    pub sample: Option<Field<Share>>,
    /// The service name. Default: `OTEL_SERVICE_NAME`, else `signalbox`.
    pub service: Option<Field<Word>>,
    /// The id of this gateway among those of the service, such as `${HOSTNAME}`. Default: `service.instance.id` of
    /// `OTEL_RESOURCE_ATTRIBUTES`, else a random one for each process.
    pub instance: Option<Field<Word>>,
    /// The interval at which metrics are sent. Default: `OTEL_METRIC_EXPORT_INTERVAL`, else `60s`.
    pub interval: Option<Field<Duration>>,
    /// Puts prompts and answers into spans, redacted and cut. Default: no content leaves the gateway.
    pub content: Option<Content>,
}

/// Prompts and answers in spans, as `gen_ai.input.messages`, `gen_ai.system_instructions` and `gen_ai.output.messages`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// The most bytes of a prompt, and of an answer, as JSON, at most `256Ki`: long texts are cut, and of too many messages
    /// the first are left out. Default: `8Ki`.
    pub max_bytes: Option<Field<u64>>,
    /// Regular expressions of what is replaced by `[redacted]`, besides e-mail addresses, credentials (API keys, tokens,
    /// private keys, passwords in addresses) and rows of 13 to 19 digits.
    #[serde(default)]
    pub redact: Vec<Field<Pattern>>,
}

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern(pub Regex);

impl Scalar for Pattern {
    fn read(text: &str) -> Result<Self, Mistake> {
        Regex::new(text).map(Self).map_err(|error| {
            let cause = error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Mistake::new(format!("not a regular expression: {cause}"))
                .help("write it in the syntax of Rust's `regex`, which has no look-around")
        })
    }

    fn schema() -> Schema {
        plain_schema(".+")
    }
}

/// A header value, which is usually secret.
#[derive(Clone)]
pub struct HeaderText(pub String);

impl std::fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl Scalar for HeaderText {
    fn read(text: &str) -> Result<Self, Mistake> {
        let sound = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        if text.is_empty() || !text.bytes().all(sound) {
            return Err(Mistake::new("not a value that can stand in a header")
                .help("write at least one character, and none beyond printable ASCII"));
        }
        Ok(Self(text.to_owned()))
    }

    fn schema() -> Schema {
        plain_schema("[ -~]+")
    }
}
