//! What was learned, on disk: read at the start, written whole whenever it changed.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::prompt::complexity::{Weights, learn::Learner};

/// What the file is; another version's is not read.
const FORMAT: &str = "signalbox-lessons-1";

/// What was learned could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is there and cannot be read.
    #[error("what was learned cannot be read from '{path}': {error} (learning.file in the policy)")]
    Io {
        /// The file.
        path: String,
        /// Why not.
        error: io::Error,
    },
    /// It is something else.
    #[error(
        "'{path}' holds nothing that was learned by this version: {error} (learning.file in the policy; move it away to begin anew)"
    )]
    Broken {
        /// The file.
        path: String,
        /// What is wrong.
        error: String,
    },
}

/// Labels between two tries at better weights.
pub(super) const BETWEEN_TRIES: usize = 50;

/// What came in for a route, and what came of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Labels from callers.
    pub feedback: u64,
    /// Labels from conversations that asked again, or went on.
    pub re_ask: u64,
    /// Labels from pairs: prompts that both ends of the tiers answered.
    #[serde(default)]
    pub pairs: u64,
    /// Tries at better weights.
    pub tries: u64,
    /// Those that were better.
    pub promotions: u64,
    /// Times that earlier weights were brought back.
    pub rollbacks: u64,
    /// What the last candidate would have gained in quality a prompt, and the lower bound of that.
    pub last_gain: Option<(f64, f64)>,
}

/// The content of a file.
#[derive(Serialize, Deserialize)]
pub struct Stored {
    format: String,
    /// The weights that were compiled in when it was written.
    prior: String,
    pub(super) routes: BTreeMap<String, StoredRoute>,
}

/// The state of one route, as the file holds it.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRoute {
    pub(super) learner: Learner,
    pub(super) tally: Tally,
    #[serde(default = "between_tries")]
    pub(super) until_try: usize,
}

fn between_tries() -> usize {
    BETWEEN_TRIES
}

impl Stored {
    /// The state of these routes, as it is written.
    pub(super) fn new(routes: BTreeMap<String, StoredRoute>) -> Self {
        Self { format: FORMAT.to_owned(), prior: Weights::built_in().version.clone(), routes }
    }

    /// Reads what was learned before; `None` where there is no file. State learned on top of other weights than the built-in ones is
    /// renamed to `*.old` and not used.
    pub fn read(file: &Path) -> Result<Option<Stored>, StoreError> {
        let path = || file.display().to_string();
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::Io { path: path(), error }),
        };
        let broken = |error: String| StoreError::Broken { path: path(), error };
        let stored: Self = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if stored.format != FORMAT {
            return Err(broken(format!("its format is '{}'", stored.format)));
        }
        let prior = &Weights::built_in().version;
        if stored.prior != *prior {
            let aside = file.with_extension("old");
            let (shown, version) = (aside.display(), &stored.prior);
            tracing::warn!(
                file = path(),
                "what was learned is for weights of version {version}: it is put aside as {shown}"
            );
            fs::rename(file, &aside).map_err(|error| StoreError::Io { path: path(), error })?;
            return Ok(None);
        }
        Ok(Some(stored))
    }

    /// Writes the file whole. Renamed into place, so that a crash leaves the old one intact.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::other)?;
        let draft = file.with_extension("draft");
        let mut written = fs::File::create(&draft)?;
        written.write_all(&bytes)?;
        written.sync_all()?;
        fs::rename(&draft, file)
    }
}
