//! The access log as written in the file.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    scalar::{Field, Scalar, choice, choice_schema},
};

/// A line for each completed request: the caller, the route, the backend and the outcome; no text of prompts or
/// answers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// `text`, or `json` for one object per line. Default: `text`.
    pub format: Option<Field<AccessFormat>>,
    /// The file; rotated files get `.1`, `.2`, … appended. Default: standard output.
    pub path: Option<Field<String>>,
    /// The size at which the file is rotated. Default: `64Mi`.
    pub max_size: Option<Field<u64>>,
    /// The number of rotated files that are kept. Default: 5.
    pub keep: Option<Field<u32>>,
}

/// The format of an access log line.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// For people: words and `name=value`.
    Text,
    /// For programs: a JSON object.
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
