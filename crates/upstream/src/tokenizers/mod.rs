//! Background loading of the tokenizers that a policy names: until one is loaded, its prompts are estimated.

mod hub;

use std::{
    collections::HashMap,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

pub use self::hub::Hub;
use signalbox_policy::Tokenizer;
use signalbox_prompt::tokens::{ModelTokenizer, TokenizerError, TokenizerSlot};

/// Most tokenizers in memory; one takes tens of megabytes.
const MAX_TOKENIZERS: usize = 64;
/// Largest `tokenizer.json`, in bytes.
const MAX_FILE_BYTES: usize = 64 << 20;

/// Reason why a tokenizer could not be loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    /// Its file cannot be read.
    #[error("{path} cannot be read: {error}")]
    File {
        /// The file.
        path: String,
        /// The error.
        error: io::Error,
    },
    /// It is larger than 64 MiB.
    #[error("it is larger than 64 MiB")]
    TooLarge,
    /// The file is not a tokenizer.
    #[error(transparent)]
    NotOne(#[from] TokenizerError),
    /// The hub does not answer.
    #[error("{0} does not answer: {1}")]
    Unreachable(String, String),
    /// The hub requires a login, or has no such file.
    #[error(
        "{0} answers {1}: download its tokenizer.json yourself, where it asks for a login, and name the file in the policy"
    )]
    Refused(String, http::StatusCode),
    /// The process is ending, or reading the file panicked.
    #[error("loading it was broken off")]
    BrokenOff,
}

/// Tokenizers of the process, by source. They outlive a change of policy, so that none is loaded twice.
#[derive(Debug)]
pub struct Tokenizers {
    hub: Arc<Hub>,
    known: Mutex<HashMap<Tokenizer, Arc<TokenizerSlot>>>,
}

impl Tokenizers {
    /// Creates an empty set; models are looked up on `hub`.
    pub fn new(hub: Hub) -> Self {
        Self { hub: Arc::new(hub), known: Mutex::default() }
    }

    /// Source of `tokenizer`, returned immediately. A file or a hub model is loaded in the background, once per
    /// process. If that fails, one warning is logged and the source stays without a tokenizer. Must be called within a
    /// Tokio runtime.
    pub fn source(&self, tokenizer: &Tokenizer) -> Arc<TokenizerSlot> {
        match tokenizer {
            Tokenizer::Learned => return Arc::new(TokenizerSlot::learned()),
            Tokenizer::OpenAi(encoding) => return Arc::new(TokenizerSlot::open_ai(*encoding)),
            Tokenizer::File(_) | Tokenizer::Hub(_) => {}
        }
        let source = {
            let mut known = self.known.lock();
            if let Some(source) = known.get(tokenizer) {
                return source.clone();
            }
            if known.len() >= MAX_TOKENIZERS {
                known.retain(|_, source| Arc::strong_count(source) > 1);
            }
            if known.len() >= MAX_TOKENIZERS {
                tracing::warn!(
                    ?tokenizer,
                    "tokenizer: not loaded, {MAX_TOKENIZERS} are loaded already: prompts of its models are estimated"
                );
                return Arc::new(TokenizerSlot::learned());
            }
            known.entry(tokenizer.clone()).or_default().clone()
        };
        let (hub, tokenizer, loading) = (self.hub.clone(), tokenizer.clone(), source.clone());
        tokio::spawn(async move {
            let loaded = match &tokenizer {
                Tokenizer::File(path) => read(path.clone()).await,
                Tokenizer::Hub(name) => hub.load(name).await,
                Tokenizer::Learned | Tokenizer::OpenAi(_) => return,
            };
            match loaded {
                Ok(own) => {
                    loading.put(own);
                    tracing::info!(?tokenizer, "tokenizer: loaded, prompts are counted with it");
                }
                Err(error) => tracing::warn!(
                    ?tokenizer,
                    "tokenizer: loading failed, prompts are estimated until a restart: {error}"
                ),
            }
        });
        source
    }

    /// Loads a tokenizer's file that has changed. The next [`source`](Self::source) of it returns the new tokenizer; if loading
    /// fails, a warning is logged and the one in use stays.
    pub async fn renew(&self, file: &Path) {
        let tokenizer = Tokenizer::File(file.to_owned());
        match read(file.to_owned()).await {
            Ok(own) => {
                let slot = Arc::new(TokenizerSlot::default());
                slot.put(own);
                self.known.lock().insert(tokenizer, slot);
                tracing::info!(file = %file.display(), "tokenizer: loaded again");
            }
            Err(error) => {
                tracing::warn!(file = %file.display(), "tokenizer: the changed file cannot be used, the one before stays: {error}");
            }
        }
    }
}

/// Reads a tokenizer's file on a blocking thread.
async fn read(path: PathBuf) -> Result<ModelTokenizer, LoadError> {
    let load = move || {
        let bytes = bytes(&path).map_err(|error| LoadError::File { path: path.display().to_string(), error })?;
        parse(&bytes)
    };
    tokio::task::spawn_blocking(load).await.map_err(|_| LoadError::BrokenOff)?
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<ModelTokenizer, LoadError> {
    if bytes.len() > MAX_FILE_BYTES { Err(LoadError::TooLarge) } else { Ok(ModelTokenizer::read(bytes)?) }
}

#[cfg(test)]
mod tests;
