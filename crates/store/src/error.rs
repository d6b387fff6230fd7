//! Errors of opening a log.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Reason why a log cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("{} is in use by another process; each gateway needs a folder of its own", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// Other users could place files there.
    #[error("{} is writable by other users; remove that permission (chmod go-w) or name another folder", folder.display())]
    Open {
        /// The folder.
        folder: PathBuf,
    },
    /// Another release wrote it.
    #[error("{} is of version {version}, which this release does not read; remove it or name another folder", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u8,
    },
    /// An error of the operating system.
    #[error("{}: {problem}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The error.
        problem: String,
    },
}

impl StoreError {
    pub(super) fn io(path: &Path, problem: &io::Error) -> Self {
        Self::Io { path: path.into(), problem: problem.to_string() }
    }
}
