//! The access log as it is typed.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    scalar::{Field, Scalar, choice, choice_schema},
};

/// A line for each request that is over: who asked for what, where it went, and what came of it; no text of prompts or answers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// `text`, or `json` for an object a line. Default: `text`.
    pub format: Option<Field<AccessFormat>>,
    /// The file; rotated ones get `.1`, `.2`, … appended. Without it, the standard output.
    pub path: Option<Field<String>>,
    /// Size at which the file is rotated. Default: `64Mi`.
    pub max_size: Option<Field<u64>>,
    /// How many rotated files are kept. Default: 5.
    pub keep: Option<Field<u32>>,
}

/// How a line of the access log is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// For people: words, and `name=value`.
    Text,
    /// For machines: an object.
    Json,
}

const FORMATS: [(&str, AccessFormat); 2] = [("text", AccessFormat::Text), ("json", AccessFormat::Json)];

impl Scalar for AccessFormat {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &FORMATS)
    }

    fn schema() -> Schema {
        choice_schema(&FORMATS)
    }
}
