//! Prices: per token, or per hour of an engine.

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    scalar::{Field, Scalar},
    units,
};

/// The cost of a pool: per token, in US dollars per million, and per hour of its engines. If both are set, requests are
/// charged per token and the pool's cost is that of its hours.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens that were computed.
    pub input: Option<Field<f64>>,
    /// Prompt tokens found in the prefix cache. Default: as `input`.
    pub cached_input: Option<Field<f64>>,
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
        json_schema!({ "type": ["number", "string"] })
    }
}
