//! Proxies under test: the gateway, and the ones it is compared with.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    litellm::{self, Proxy},
    signalbox::{self, Gateway},
    site::Topology,
};

/// A proxy that can be tested.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Signalbox,
    Litellm,
}

/// A proxy that is ready to serve its topologies.
pub(crate) enum Peer {
    /// A process of its own for each topology.
    Signalbox { binary: PathBuf, dir: PathBuf },
    /// One process for all.
    Litellm(Proxy),
}

/// Address and model name for callers of one topology.
pub(crate) struct Access {
    pub(crate) url: String,
    pub(crate) model: String,
    /// True where callers authenticate by key.
    pub(crate) keys: bool,
    _gateway: Option<Gateway>,
}

/// Files and folders needed to start proxies.
pub(crate) struct Means {
    pub(crate) binary: PathBuf,
    pub(crate) target: PathBuf,
    /// Folder of configurations and logs.
    pub(crate) dir: PathBuf,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Signalbox => "signalbox",
            Self::Litellm => "litellm",
        }
    }

    /// Most requests per second of all series that run at once.
    pub(crate) fn most(self) -> u32 {
        match self {
            Self::Signalbox => 120,
            Self::Litellm => 32,
        }
    }

    /// Installs and starts it for these topologies.
    ///
    /// # Errors
    /// Says why it cannot be installed or started.
    pub(crate) async fn prepare(self, means: &Means, name: &str, topologies: &[Topology]) -> io::Result<Peer> {
        let dir = means.dir.join(self.name());
        std::fs::create_dir_all(&dir)?;
        Ok(match self {
            Self::Signalbox => Peer::Signalbox { binary: means.binary.clone(), dir },
            Self::Litellm => {
                let binary = litellm::installed(&means.target).await?;
                Peer::Litellm(Proxy::start(&binary, name, topologies, &dir).await?)
            }
        })
    }

    pub(crate) async fn version(self, binary: &Path) -> io::Result<String> {
        match self {
            Self::Signalbox => signalbox::version(binary).await,
            Self::Litellm => Ok(format!("litellm {}", litellm::VERSION)),
        }
    }
}

impl Peer {
    /// Returns the access to one of its topologies, and starts a process for it where each has its own.
    pub(crate) async fn open(&self, topology: &Topology) -> io::Result<Access> {
        Ok(match self {
            Self::Signalbox { binary, dir } => {
                let gateway = Gateway::start(binary, topology, dir).await?;
                let keys = !topology.callers.is_empty();
                Access { url: gateway.url.clone(), model: "auto".to_owned(), keys, _gateway: Some(gateway) }
            }
            Self::Litellm(proxy) => {
                Access { url: proxy.url.clone(), model: litellm::model(topology), keys: false, _gateway: None }
            }
        })
    }
}
