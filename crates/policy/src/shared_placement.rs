//! Sharing of what is cached where between gateways.

use super::Secret;
use signalbox_types::RedisServer;

/// The server through which gateways exchange which prompts were computed where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPlacement {
    /// The server.
    pub server: RedisServer,
    /// The secret that the gateways have in common.
    pub key: Secret,
}
