//! What was learned, on disk: read at the start, written whole whenever it changed.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{AFTER_ROLLBACK, BETWEEN_TRIES, Learner, Lesson, Lessons, Tally, Weights};
use crate::measure::lock;

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

/// What a file holds.
#[derive(Serialize, Deserialize)]
pub struct Stored {
    format: String,
    /// The weights that were compiled in when it was written.
    prior: String,
    routes: BTreeMap<String, StoredLesson>,
}

#[derive(Serialize, Deserialize)]
struct StoredLesson {
    learner: Learner,
    tally: Tally,
    #[serde(default = "between_tries")]
    until_try: usize,
}

fn between_tries() -> usize {
    BETWEEN_TRIES
}

impl Lessons {
    /// Reads what was learned before. Where there is no file yet, nothing was; what was learned on top of other weights than those
    /// compiled in is left aside.
    pub fn read(file: &Path) -> Result<Option<Stored>, StoreError> {
        let path = || file.display().to_string();
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::Io { path: path(), error }),
        };
        let broken = |error: String| StoreError::Broken { path: path(), error };
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
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

    /// Takes over what was read. Routes that have seen as many labels since keep what they know.
    pub fn restore(&self, stored: Stored) {
        for (route, StoredLesson { learner, tally, until_try }) in stored.routes {
            let known = self.routes.get(&*route).map(|lesson| lock(&lesson.state).learner.seen());
            if known >= Some(learner.seen()) {
                tracing::info!(%route, "what was learned since is kept: the file has seen no more labels");
                continue;
            }
            let lesson = Lesson::of(learner.restored(), tally, until_try.min(AFTER_ROLLBACK));
            self.routes.insert(route.into(), Arc::new(lesson));
        }
    }

    /// Writes what was learned, where the policy says so. It takes milliseconds: not on the way of a request.
    pub fn save(&self) {
        let Some(file) = self.file.load_full() else { return };
        let _saving = lock(&self.saving);
        let lessons: Vec<_> = self.routes.iter().map(|it| (it.key().to_string(), it.value().clone())).collect();
        let routes = lessons.into_iter().map(|(route, lesson)| {
            let state = lock(&lesson.state);
            (route, StoredLesson { learner: state.learner.clone(), tally: state.tally, until_try: state.until_try })
        });
        let stored =
            Stored { format: FORMAT.to_owned(), prior: Weights::built_in().version.clone(), routes: routes.collect() };
        let written = serde_json::to_vec(&stored).map_err(io::Error::other).and_then(|bytes| {
            // Renamed into place, so that a crash leaves the old one whole.
            let draft = file.with_extension("draft");
            let mut written = fs::File::create(&draft)?;
            written.write_all(&bytes)?;
            written.sync_all()?;
            fs::rename(&draft, &*file)
        });
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), %error, "what was learned could not be written");
        }
    }
}
