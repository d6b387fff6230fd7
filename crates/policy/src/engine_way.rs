//! The way to an engine beside its address: what its requests carry, and how connections to it are made.

use std::sync::Arc;

use super::Secret;
use signalbox_config::connection::Proxy;
use signalbox_types::{ClientTls, Name};

/// The way to an engine beside its address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineWay {
    /// True if its address is the base of its API's paths even without a version.
    pub is_exact: bool,
    /// Parameters of every request's query, encoded: `a=b&c=d`.
    pub query: Option<Secret>,
    /// Headers of every request, in lower case.
    pub headers: Arc<[(Name, Secret)]>,
    /// Connections to it.
    pub connection: Connection,
}

/// The connections to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Certificates.
    pub tls: Option<ClientTls>,
    /// The proxy; `None` for that of the environment.
    pub proxy: Option<Proxy>,
}

impl Connection {
    /// True if it is made as most are.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}
