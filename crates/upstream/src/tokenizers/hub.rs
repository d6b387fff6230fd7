//! Tokenizers from the Hugging Face hub: read from its cache folder, or downloaded into it once.

use std::{
    env, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use http_body_util::{BodyExt, Limited};

use super::{LoadError, MAX_FILE_BYTES, parse, read};
use crate::own_clients::proxy;
use signalbox_prompt::tokens::ModelTokenizer;

const ENDPOINT: &str = "https://huggingface.co";
const FILE: &str = "tokenizer.json";
/// Timeouts of a connection and of a whole download.
const CONNECT: Duration = Duration::from_secs(10);
const DOWNLOAD: Duration = Duration::from_mins(5);
/// Most redirects: downloads are redirected to a storage server.
const REDIRECTS: usize = 5;

/// The hub, and the cache folder shared with its own clients.
#[derive(Clone, Debug)]
pub struct Hub {
    endpoint: String,
    cache: PathBuf,
}

impl Hub {
    /// The hub at `endpoint`, with the cache folder `cache`.
    pub fn new(endpoint: &str, cache: PathBuf) -> Self {
        Self { endpoint: endpoint.trim_end_matches('/').to_owned(), cache }
    }

    /// Same settings as the hub's own clients: `HF_ENDPOINT` (default: the public hub); `HF_HUB_CACHE`, else `hub` in
    /// `HF_HOME`, else `~/.cache/huggingface/hub`.
    pub fn from_env() -> Self {
        let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || env::home_dir().unwrap_or_default().join(".cache");
        let root = || var("HF_HOME").unwrap_or_else(|| var("XDG_CACHE_HOME").unwrap_or_else(home).join("huggingface"));
        let endpoint = env::var("HF_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
        Self::new(endpoint.as_deref().unwrap_or(ENDPOINT), var("HF_HUB_CACHE").unwrap_or_else(|| root().join("hub")))
    }

    /// Loads the tokenizer of the model `name` (`org/name`) from the cache folder, or downloads it.
    pub(super) async fn load(&self, name: &str) -> Result<ModelTokenizer, LoadError> {
        let folder = self.cache.join(format!("models--{}", name.replace('/', "--")));
        let looked_in = folder.clone();
        let found = tokio::task::spawn_blocking(move || cached(&looked_in)).await.map_err(|_| LoadError::BrokenOff)?;
        match found {
            Some(path) => read(path).await,
            None => self.download(name, folder).await,
        }
    }

    async fn download(&self, name: &str, folder: PathBuf) -> Result<ModelTokenizer, LoadError> {
        let url = format!("{}/{name}/resolve/main/{FILE}", self.endpoint);
        let unreachable = |error: &dyn std::error::Error| LoadError::Unreachable(url.clone(), error.to_string());
        // A second installation is rejected and harmless: the first one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(DOWNLOAD)
            .proxy(proxy())
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS))
            .build()
            .map_err(|error| unreachable(&error))?;
        let response = client.get(&url).send().await.map_err(|error| unreachable(&error))?;
        if !response.status().is_success() {
            return Err(LoadError::Refused(url, response.status()));
        }
        let body =
            Limited::new(http::Response::<reqwest::Body>::from(response).into_body(), MAX_FILE_BYTES).collect().await;
        let bytes = body.map_err(|error| LoadError::Unreachable(url, error.to_string()))?.to_bytes();
        let keep = move || {
            let own = parse(&bytes)?;
            // Works without the copy too, until the next start.
            if let Err(error) = store(&folder, &bytes) {
                tracing::warn!(folder = %folder.display(), %error, "tokenizer: caching the download failed, the next start downloads it again");
            }
            Ok(own)
        };
        tokio::task::spawn_blocking(keep).await.map_err(|_| LoadError::BrokenOff)?
    }
}

/// Tokenizer in a model's cache folder: of the revision `main`, else the newest.
fn cached(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    if let Ok(main) = std::fs::read_to_string(folder.join("refs").join("main")) {
        let path = snapshots.join(main.trim()).join(FILE);
        if path.is_file() {
            return Some(path);
        }
    }
    let paths = std::fs::read_dir(snapshots).ok()?.filter_map(|entry| Some(entry.ok()?.path().join(FILE)));
    let written =
        |path: &PathBuf| std::fs::metadata(path).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    paths.filter(|path| path.is_file()).max_by_key(written)
}

/// Stores a download in the cache layout of the hub's clients, renamed into place so that no reader finds an incomplete
/// file. Leaves `refs` alone: to other clients they would indicate a complete model.
fn store(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let snapshot = folder.join("snapshots").join("main");
    std::fs::create_dir_all(&snapshot)?;
    let draft = snapshot.join(format!("{FILE}.{}.draft", std::process::id()));
    std::fs::write(&draft, bytes)?;
    std::fs::rename(&draft, snapshot.join(FILE))
}
