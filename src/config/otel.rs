//! OpenTelemetry export as written in the file.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    patterns::plain_schema,
    scalar::{Field, Scalar, Share, Url, Word},
    shape::Named,
};

/// Export of traces and metrics with OpenTelemetry, as OTLP over HTTP (protobuf).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otel {
    /// The collector's base address, such as `http://127.0.0.1:4318`: traces go to `/v1/traces`, metrics to
    /// `/v1/metrics`.
    pub endpoint: Field<Url>,
    /// Headers for the collector, such as `{ authorization: "Bearer ${TOKEN}" }`.
    pub headers: Option<Named<Field<HeaderText>>>,
    /// The share of requests whose trace is recorded, unless the caller's `traceparent` decides. Default: `100%`.
    pub sample: Option<Field<Share>>,
    /// The service name. Default: `signalbox`.
    pub service: Option<Field<Word>>,
    /// The interval at which metrics are sent. Default: `60s`.
    pub interval: Option<Field<Duration>>,
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
