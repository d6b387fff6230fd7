//! Backends that operators added and drained, and the file that keeps them across restarts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::private_file;
use signalbox_policy::{AddedBackend, DrainedBackend, Policy, compile_added};
use signalbox_types::Name;

/// Format of the file; files of another format are rejected.
const FORMAT: &str = "signalbox-fleet-1";
/// The most backends that operators may add.
pub(crate) const MOST_ADDED: usize = 1_000;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EditsError {
    /// An I/O error.
    #[error("'{path}': {error} (discovery.state in the policy)")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The content is not of this format.
    #[error(
        "'{path}' cannot be read ({error}): repair it, or move it away to start without what it holds (discovery.state in the policy)"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: String,
    },
}

/// Changes that operators made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    path: Option<PathBuf>,
    content: Content,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Content {
    format: String,
    added: Vec<Added>,
    drained: Vec<DrainedBackend>,
}

/// A backend as it was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Added {
    pool: Name,
    id: Name,
    backend: Value,
}

impl Edits {
    /// Reads the file at `path`; one that does not exist is empty.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, EditsError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let content = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<Content>(&bytes)
                .map_err(|error| error.to_string())
                .and_then(
                    |content| if content.format == FORMAT { Ok(content) } else { Err("another format".to_owned()) },
                )
                .map_err(|error| EditsError::Unreadable { path: path.to_owned(), error })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content::default(),
            Err(error) => return Err(EditsError::Io { path: path.to_owned(), error }),
        };
        Ok(Self { path: Some(path.to_owned()), content })
    }

    /// Replaces the file. It may hold keys, so that only its owner may read it.
    pub(super) fn write(&self) -> Result<(), EditsError> {
        let Some(path) = &self.path else { return Ok(()) };
        let content = Content { format: FORMAT.to_owned(), ..self.content.clone() };
        let text = serde_json::to_vec_pretty(&content).map_err(io::Error::from);
        let written = text.and_then(|text| private_file::replace(path, &text));
        written.map_err(|error| EditsError::Io { path: path.clone(), error })
    }

    /// True if changes survive a restart.
    pub(crate) fn is_persistent(&self) -> bool {
        self.path.is_some()
    }

    /// The added backends of pools that `base` has. Others stay in the file, for a policy that has their pool again.
    pub(super) fn compiled(&self, base: &Policy) -> Vec<AddedBackend> {
        let compiled = self.content.added.iter().filter_map(|added| {
            let Some(pool) = base.pools.iter().find(|pool| pool.name == added.pool) else {
                tracing::warn!(pool = %added.pool, backend = %added.id, "discovery: the pool of an added backend is not in the policy: it gets no requests");
                return None;
            };
            compile_added(&base.admin_access, pool, &added.id, &added.backend)
                .inspect_err(|error| tracing::warn!(pool = %added.pool, backend = %added.id, "discovery: an added backend is not used: {error}"))
                .ok()
        });
        compiled.collect()
    }

    /// Backends that get no new requests.
    pub(super) fn drained(&self) -> Vec<DrainedBackend> {
        self.content.drained.clone()
    }

    /// Follows drained backends to their names in `policy`, and logs those that it has no longer, unlike `before`.
    pub(super) fn follow_drained(&mut self, policy: &Policy, before: Option<&Policy>) {
        for drained in &mut self.content.drained {
            let was_found = before.is_none_or(|before| drained.clone().follow(before));
            let name = drained.id.clone();
            if drained.follow(policy) {
                if drained.id != name {
                    tracing::info!(pool = %drained.pool, backend = %drained.id, before = %name, "discovery: a drained backend has another name now and stays drained");
                }
            } else if was_found {
                tracing::warn!(
                    pool = %drained.pool, backend = %name,
                    "discovery: the drained backend '{name}' is not in the pool '{pool}' any more; it stays drained if it returns, \
                     until `signalbox backend undrain {pool} {name}`", pool = drained.pool
                );
            }
        }
    }

    /// Number of added backends.
    pub(crate) fn added(&self) -> usize {
        self.content.added.len()
    }

    /// The pool of the added backend `id`.
    pub(crate) fn pool_of(&self, id: &str) -> Option<&Name> {
        self.content.added.iter().find(|added| *added.id == *id).map(|added| &added.pool)
    }

    /// Adds a backend, or replaces the one that was added with this name.
    pub(crate) fn put(&mut self, pool: &str, id: &str, backend: Value) {
        self.content.added.retain(|added| *added.id != *id);
        self.content.added.push(Added { pool: pool.into(), id: id.into(), backend });
    }

    /// Removes an added backend. Returns false if there is none.
    pub(crate) fn remove(&mut self, pool: &str, id: &str) -> bool {
        let before = self.content.added.len();
        self.content.added.retain(|added| *added.id != *id || *added.pool != *pool);
        let is_removed = self.content.added.len() < before;
        if is_removed {
            self.undrain(pool, id);
        }
        is_removed
    }

    /// Drains a backend. Returns false if it is drained already.
    pub(crate) fn drain(&mut self, backend: DrainedBackend) -> bool {
        let is_new = !self.is_drained(&backend.pool, &backend.id);
        if is_new {
            self.content.drained.push(backend);
        }
        is_new
    }

    /// Ends the drain of a backend. Returns false if there is none.
    pub(crate) fn undrain(&mut self, pool: &str, id: &str) -> bool {
        let before = self.content.drained.len();
        self.content.drained.retain(|it| *it.pool != *pool || *it.id != *id);
        self.content.drained.len() < before
    }

    /// True if an operator drained the backend.
    pub(crate) fn is_drained(&self, pool: &str, id: &str) -> bool {
        self.content.drained.iter().any(|it| *it.pool == *pool && *it.id == *id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_survive_in_a_file_of_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/fleet.json");
        let mut edits = Edits::open(Some(&path)).unwrap();
        edits.put("main", "b", json!({ "url": "http://b/v1", "key": "sk" }));
        let drained = DrainedBackend { pool: "main".into(), id: "a".into(), identity: None };
        assert!(edits.drain(drained.clone()) && !edits.drain(drained));
        edits.write().unwrap();
        let read = Edits::open(Some(&path)).unwrap();
        assert_eq!(
            (read.added(), read.is_drained("main", "a"), read.pool_of("b").map(|it| &**it)),
            (1, true, Some("main"))
        );
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        let mut read = read;
        assert!(!read.remove("other", "b") && read.remove("main", "b") && !read.remove("main", "b"));
        fs::write(&path, "{}").unwrap();
        assert!(matches!(Edits::open(Some(&path)), Err(EditsError::Unreadable { .. })));
    }
}
