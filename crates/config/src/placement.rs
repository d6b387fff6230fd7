//! Placement of requests by several gateways.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    connection::ClientTls,
    key_source::KeySource,
    redis::{KeyPrefix, SentinelLogin},
    scalar::{Field, Token},
};

/// Placement of requests on backends.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementSection {
    /// Exchanges with other gateways before the same engines what each has under way there, and which prompts were
    /// computed where. Default: each gateway knows only what it has sent itself.
    pub shared: Option<SharedPlacement>,
}

/// Loads of engines and contents of their caches, as several gateways exchange them through one server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedPlacement {
    /// The Redis or Valkey server: `redis://host:6379`, with TLS `rediss://host:6379`, with
    /// Sentinels `redis+sentinel://host:26379,host2:26379/master-name`, or a cluster
    /// `redis+cluster://host:6379,host2:6379`.
    pub url: Field<Token>,
    /// A secret common to all gateways of the group: it keys the hashes of prompts and encrypts the messages. At least
    /// 16 characters.
    pub key: KeySource,
    /// The user of the server (ACL). It may have the keys that begin with `prefix`. Default: `default`.
    pub user: Option<Field<String>>,
    /// The password of the server, with any characters. In the address, some are percent-encoded (`@` is `%40`).
    pub password: Option<KeySource>,
    /// Certificates, for addresses with `rediss`.
    pub tls: Option<ClientTls>,
    /// The password of the Sentinels, if they require one; `password` is for the servers.
    pub sentinel: Option<SentinelLogin>,
    /// The beginning of the names of all keys on the server. Gateways with different ones share nothing, as on servers of
    /// their own. Default: `signalbox`.
    pub prefix: Option<Field<KeyPrefix>>,
}
