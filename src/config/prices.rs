//! What is paid for: tokens, or the hours of engines.

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    scalar::{Field, Scalar},
    units,
};

/// What a pool costs: by the token, in US dollars per million, and by the hour of its engines. Where both are said, requests are charged by
/// the token, and the pool costs what its hours do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens that had to be computed.
    pub input: Option<Field<f64>>,
    /// Prompt tokens found in the prefix cache. Default: as `input`.
    pub cached_input: Option<Field<f64>>,
    /// Tokens of the answer.
    pub output: Option<Field<f64>>,
    /// US dollars for an hour of each of its engines that says no price of its own, such as `3.00`.
    pub gpu_hour: Option<Field<Hourly>>,
}

/// US dollars for an hour.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Hourly(pub f64);

impl Scalar for Hourly {
    fn read(text: &str) -> Result<Self, Mistake> {
        let help = |mistake: Mistake| match &*mistake.message {
            "not a number" => mistake.help("write US dollars for an hour, such as `3.00`"),
            _ => mistake,
        };
        units::amount(text).map(Self).map_err(help)
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"] })
    }
}
