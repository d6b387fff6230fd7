//! Models' tokenizers from the Hugging Face hub: out of its cache folder, else downloaded once into it.

use std::{
    env, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use http_body_util::{BodyExt, Limited};

use super::{LARGEST, LoadError, parse, read};
use crate::prompt::tokens::ModelTokenizer;

const ENDPOINT: &str = "https://huggingface.co";
const FILE: &str = "tokenizer.json";
/// How long a connection, and the whole of a download, may take.
const CONNECT: Duration = Duration::from_secs(10);
const DOWNLOAD: Duration = Duration::from_mins(5);
/// A download goes through a store of the hub's.
const REDIRECTS: usize = 5;

/// The hub, and the folder that its clients share.
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

    /// As the hub's own clients have it: `HF_ENDPOINT` (default: the public hub); `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else
    /// `~/.cache/huggingface/hub`.
    pub fn from_env() -> Self {
        let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || env::home_dir().unwrap_or_default().join(".cache");
        let root = || var("HF_HOME").unwrap_or_else(|| var("XDG_CACHE_HOME").unwrap_or_else(home).join("huggingface"));
        let endpoint = env::var("HF_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
        Self::new(endpoint.as_deref().unwrap_or(ENDPOINT), var("HF_HUB_CACHE").unwrap_or_else(|| root().join("hub")))
    }

    /// The tokenizer of the model `name` (`org/name`): from the cache folder, else downloaded into it.
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
        // A second installation is refused and harmless: the first one serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(DOWNLOAD)
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS))
            .build()
            .map_err(|error| unreachable(&error))?;
        let response = client.get(&url).send().await.map_err(|error| unreachable(&error))?;
        if !response.status().is_success() {
            return Err(LoadError::Refused(url, response.status()));
        }
        let body = Limited::new(http::Response::<reqwest::Body>::from(response).into_body(), LARGEST).collect().await;
        let bytes = body.map_err(|error| LoadError::Unreachable(url, error.to_string()))?.to_bytes();
        let keep = move || {
            let own = parse(&bytes)?;
            // Without the copy it works too, until the next start.
            if let Err(error) = store(&folder, &bytes) {
                tracing::warn!(folder = %folder.display(), %error, "the tokenizer cannot be kept: it is downloaded again at the next start");
            }
            Ok(own)
        };
        tokio::task::spawn_blocking(keep).await.map_err(|_| LoadError::BrokenOff)?
    }
}

/// The tokenizer in a model's folder of the cache: of the revision that `main` is, else the newest.
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

/// Keeps a download where the hub's clients look, renamed into place so that nobody finds half of it. `refs` are left alone: to
/// others they would promise a whole model.
fn store(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let snapshot = folder.join("snapshots").join("main");
    std::fs::create_dir_all(&snapshot)?;
    let draft = snapshot.join(format!("{FILE}.{}.draft", std::process::id()));
    std::fs::write(&draft, bytes)?;
    std::fs::rename(&draft, snapshot.join(FILE))
}
