//! The connection to a Redis or Valkey server as written in the file, beside its address.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{key_source::KeySource, scalar::Field};

/// Credentials for Sentinels, which have others than the servers that they watch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentinelLogin {
    /// The user. Default: `default`.
    pub user: Option<Field<String>>,
    /// The password.
    pub password: KeySource,
}
