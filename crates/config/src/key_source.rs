//! The source of a secret: the value itself, preferably from the environment, or a file.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    scalar::{Field, Token},
    shape::{Either, Shapes},
};

/// The source of a key: the value itself (preferably from the environment) or a file.
pub type KeySource = Either<Token, KeyFile>;

/// A file that contains a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// Its path.
    pub file: Field<String>,
}

impl Shapes for KeyFile {
    const EXPECTED: &'static str = "a key such as `\"${KEY}\"`, or `{ file: path }`";
}
