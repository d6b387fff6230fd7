//! The workspace on disk.

use std::path::{Path, PathBuf};

/// Its folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
