//! Requests of the gateway itself to an engine: what they carry, and where its API is.

use http::HeaderMap;

use super::address;
use signalbox_policy::{Dialect, Engine, EngineWay, Secret};

/// Credentials and headers of the gateway's own requests to an engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineAccess {
    key: Option<Secret>,
    way: EngineWay,
}

impl EngineAccess {
    /// One of this engine's keys, and what all requests to it carry.
    pub fn of(engine: &Engine, key: Option<&Secret>) -> Self {
        Self { key: key.cloned(), way: engine.way.clone() }
    }

    /// The key alone, for servers that are no engines of a policy.
    pub fn with_key(key: Option<&str>) -> Self {
        Self { key: key.map(|key| Secret(key.into())), way: EngineWay::default() }
    }

    /// URL of `path` of the API at the base address `base`.
    pub(crate) fn api_url(&self, base: &str, path: &str) -> String {
        address::with_query(address::openai_url(base, path, self.way.is_exact), &self.way, None)
    }

    /// Headers of a request.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(key) = &self.key {
            address::authorise_dialect(&mut headers, &Dialect::OpenAi, key);
        }
        address::put_headers(&mut headers, &self.way);
        headers
    }
}
