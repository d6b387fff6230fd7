//! The learning file: read at the start, written whole after each change.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

use signalbox_prompt::complexity::{Weights, learn::Learner};

/// Format of the file; files of another format are rejected.
const FORMAT: &str = "signalbox-lessons-1";

/// The learning file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file exists and cannot be read.
    #[error("the learned weights in '{path}' cannot be read: {error} (learning.file in the policy)")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The content is not of this format.
    #[error(
        "'{path}' is not a learning file of this version: {error} (learning.file in the policy; move the file away to start without learned weights)"
    )]
    Broken {
        /// The file.
        path: String,
        /// The reason.
        error: String,
    },
}

/// Labels between two attempts to promote new weights.
pub(super) const BETWEEN_TRIES: usize = 50;

/// Counts of a route's labels and of the attempts to promote new weights.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Labels from callers.
    pub feedback: u64,
    /// Labels from conversations that asked again, or went on.
    pub re_ask: u64,
    /// Labels from pairs: prompts that both the cheapest and the most capable tier answered.
    #[serde(default)]
    pub pairs: u64,
    /// Attempts to promote new weights.
    pub tries: u64,
    /// Attempts that succeeded.
    pub promotions: u64,
    /// Rollbacks to earlier weights.
    pub rollbacks: u64,
    /// Quality gain per prompt of the last candidate: mean and lower bound.
    pub last_gain: Option<(f64, f64)>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub struct LearningFile {
    format: String,
    /// Version of the built-in weights at the time of writing.
    prior: String,
    pub(super) routes: BTreeMap<String, StoredRoute>,
}

/// The stored state of one route.
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

impl LearningFile {
    /// The content for these routes.
    pub(super) fn new(routes: BTreeMap<String, StoredRoute>) -> Self {
        Self { format: FORMAT.to_owned(), prior: Weights::built_in().version.clone(), routes }
    }

    /// Reads the file; `None` where there is none. A file that builds on other weights than the built-in ones is renamed to `*.old` and not
    /// used.
    pub fn read(file: &Path) -> Result<Option<LearningFile>, LoadError> {
        let path = || file.display().to_string();
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LoadError::Io { path: path(), error }),
        };
        let broken = |error: String| LoadError::Broken { path: path(), error };
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
                "learning: weights learned on built-in version {version} do not fit this build's {prior}: ignored and renamed to {shown}"
            );
            fs::rename(file, &aside).map_err(|error| LoadError::Io { path: path(), error })?;
            return Ok(None);
        }
        Ok(Some(stored))
    }

    /// Writes the file and renames it into place, so that a crash leaves the old one intact.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::other)?;
        let draft = file.with_extension("draft");
        let mut written = fs::File::create(&draft)?;
        written.write_all(&bytes)?;
        written.sync_all()?;
        fs::rename(&draft, file)
    }
}
