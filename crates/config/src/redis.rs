//! The connection to a Redis or Valkey server as written in the file, beside its address.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{key_source::KeySource, scalar::Field};

/// Certificates of a connection by `rediss://`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedisTls {
    /// A PEM file with the roots that sign the server's certificate. Default: those of the operating system. Relative to
    /// this file's folder, like the other two.
    pub roots: Option<Field<String>>,
    /// A PEM file with this gateway's certificate, where the server requires one.
    pub certificate: Option<Field<String>>,
    /// A PEM file with its private key.
    pub key: Option<Field<String>>,
}

/// Credentials for Sentinels, which have others than the servers that they watch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentinelLogin {
    /// The user. Default: `default`.
    pub user: Option<Field<String>>,
    /// The password.
    pub password: KeySource,
}
