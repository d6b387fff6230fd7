//! Engines: server processes and hosted endpoints that run models.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{EngineWay, Secret};
use signalbox_config::ToolCallIds;
use signalbox_types::{EngineId, Name, Payer};

/// An engine: one server process, or one hosted endpoint, that runs models.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Its name in logs, metrics and headers.
    pub name: Name,
    /// Base address, without a trailing slash: `http://host:8000/v1`, or the resource's root for Azure.
    pub url: String,
    /// The host name for TLS and the `Host` header, if `url` only says where to connect.
    pub host: Option<Name>,
    /// Its API dialect.
    pub dialect: Dialect,
    /// The ids of tool calls that it accepts; `None` to tell by its address and the model.
    pub tool_call_ids: Option<ToolCallIds>,
    /// Provider keys, used in rotation; empty if it needs none.
    pub keys: Arc<[Secret]>,
    /// Index of the account that the keys belong to, if any.
    pub account: Option<usize>,
    /// The owner of the keys: a part of the engine's identity.
    pub payer: Payer,
    /// The interval at which its `/metrics` is read; `None` if it is not read.
    pub scrape: Option<Duration>,
    /// The place of its metrics page.
    pub metrics: MetricsPlace,
    /// True if it is asked which endpoints it serves; `None` for engines whose metrics are read and that have no account.
    pub probe: Option<bool>,
    /// The most concurrent requests, including those of other clients, if limited.
    pub max_concurrency: Option<u32>,
    /// Size of its KV cache in tokens, if it does not report it.
    pub kv_tokens: Option<u64>,
    /// Its cost per hour in US dollars, busy or idle, if it is paid by the hour.
    pub gpu_hour: Option<f64>,
    /// The address of the exporter of its GPU metrics.
    pub dcgm: Option<String>,
    /// The active health check, if any.
    pub health: Option<Health>,
    /// The way to it beside its address.
    pub way: EngineWay,
    /// Headers of callers that go to it although it is [outside](Self::is_outside), in lower case.
    pub forward_headers: Arc<[Name]>,
}

/// The place of an engine's metrics page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsPlace {
    /// The path on the engine's server; `None` for those of the known engines, in turn.
    pub path: Option<Name>,
    /// The port, if it is another than that of the API.
    pub port: Option<u16>,
}

/// An active check of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The path on the engine's server.
    pub path: Name,
    /// The interval between checks.
    pub every: Duration,
    /// The longest that a response may take.
    pub timeout: Duration,
}

impl Engine {
    /// An engine with defaults for everything but its address; its metrics are not read.
    pub fn at(name: Name, url: String) -> Self {
        Self {
            name,
            url,
            host: None,
            dialect: Dialect::OpenAi,
            tool_call_ids: None,
            keys: [].into(),
            account: None,
            payer: Payer::Own,
            scrape: None,
            metrics: MetricsPlace::default(),
            probe: None,
            max_concurrency: None,
            kv_tokens: None,
            gpu_hour: None,
            dcgm: None,
            health: None,
            way: EngineWay::default(),
            forward_headers: [].into(),
        }
    }

    /// True if it belongs to others, as far as the policy tells: it has an account, or a public address. Addresses of
    /// private networks, names without a dot and names below `internal`, `local` and such are the operator's own.
    pub fn is_outside(&self) -> bool {
        self.account.is_some() || is_public(&self.url)
    }

    /// True if it is asked which endpoints it serves. Hosted accounts are not, unless the policy says so: requests that
    /// are invalid on purpose may count towards their rate limits.
    pub fn is_probed(&self) -> bool {
        let has_probes = self.dialect == Dialect::OpenAi;
        has_probes && self.probe.unwrap_or(self.scrape.is_some() && self.account.is_none())
    }

    /// Its identity across policies.
    pub fn id(&self) -> EngineId {
        EngineId { url: self.url.clone(), payer: self.payer.clone() }
    }
}

fn is_public(url: &str) -> bool {
    const PRIVATE: [&str; 10] =
        ["internal", "local", "localhost", "localdomain", "lan", "home", "arpa", "svc", "intranet", "private"];
    let authority = signalbox_config::authority(url);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            !(address.is_private() || address.is_loopback() || address.is_link_local() || is_shared)
        }
        Ok(IpAddr::V6(address)) => {
            !(address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local())
        }
        Err(_) => host.trim_end_matches('.').rsplit_once('.').is_some_and(|(_, top)| !PRIVATE.contains(&top)),
    }
}

/// The API dialect of an engine: its paths and its authorisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `POST {url}/chat/completions`, `Authorization: Bearer`.
    OpenAi,
    /// `POST {url}/openai/deployments/{deployment}/chat/completions?api-version=…`, `api-key`.
    Azure {
        /// The dated version of Azure's API.
        api_version: String,
    },
    /// `POST {url}/messages`, `x-api-key`. Chat completions are translated.
    Anthropic,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_private_networks_are_not_outside() {
        let is_outside = |url: &str| Engine::at("e".into(), url.to_owned()).is_outside();
        for url in [
            "http://127.0.0.1:8000/v1",
            "http://10.1.2.3",
            "http://192.168.0.7:1",
            "http://172.20.0.1",
            "http://100.70.0.1",
            "http://[::1]:8000",
            "http://[fd00::1]",
            "http://gpu-1:8000",
            "http://localhost:8000/v1",
            "http://vllm.models.svc.cluster.local:8000",
            "http://engine.corp.internal.:80",
        ] {
            assert!(!is_outside(url), "{url}");
        }
        for url in ["https://api.openai.com/v1", "http://8.8.8.8", "http://[2001:db8::1]:80", "http://172.32.0.1"] {
            assert!(is_outside(url), "{url}");
        }
        assert!(Engine { account: Some(0), ..Engine::at("e".into(), "http://127.0.0.1".to_owned()) }.is_outside());
    }
}
