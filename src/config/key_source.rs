//! Where secrets are found: the value itself, from the environment at best, or a file.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    scalar::{Field, Token},
    shape::{Either, Shapes},
};

/// Where a key is found: the value itself (from the environment, at best), or a file.
pub type KeySource = Either<Token, KeyFile>;

/// A file that holds a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// Its path.
    pub file: Field<String>,
}

impl Shapes for KeyFile {
    const EXPECTED: &'static str = "a key such as `\"${KEY}\"`, or `{ file: path }`";
}
