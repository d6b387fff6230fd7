//! Folder of a log: private to its owner, locked by one process, with an atomically replaced file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::error::StoreError;

/// A folder locked by this process.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The lock, held until this file is closed, also by the end of the process.
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |problem: io::Error| StoreError::io(path, &problem);
        if !path.exists() {
            create(path).map_err(failed)?;
        }
        guarded(path)?;
        let lock = private_file().create(true).truncate(false).open(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { folder: path.into() }),
            Err(TryLockError::Error(problem)) => return Err(failed(problem)),
        }
        let folder = Self { path: path.into(), _lock: lock };
        // Left over from an interrupted compaction; nothing refers to it.
        match fs::remove_file(folder.temporary()) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => Err(failed(problem)),
            _ => Ok(folder),
        }
    }

    /// Path of the log file.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    fn temporary(&self) -> PathBuf {
        self.path.join("log.new")
    }

    /// Opens the log file; creates it if it is missing.
    pub(super) fn open_log(&self) -> io::Result<File> {
        private_file().create(true).truncate(false).open(self.log())
    }

    /// Creates an empty file that may replace the log.
    pub(super) fn create_next(&self) -> io::Result<File> {
        private_file().create(true).truncate(true).open(self.temporary())
    }

    /// Replaces the log by the new file, which must be completely on disk.
    pub(super) fn replace(&self) -> io::Result<()> {
        fs::rename(self.temporary(), self.log())?;
        self.sync()
    }

    /// Removes the new file.
    pub(super) fn discard_next(&self) {
        let _ = fs::remove_file(self.temporary());
    }

    /// Deletes the log.
    pub(super) fn delete(&self) -> io::Result<()> {
        fs::remove_file(self.log())?;
        self.sync()
    }

    /// Forces the folder to disk: a name is durable only when its folder is.
    fn sync(&self) -> io::Result<()> {
        #[cfg(unix)]
        File::open(&self.path)?.sync_all()?;
        Ok(())
    }
}

/// Options to open a file for reading and writing that only its owner may read.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Rejects a folder in which other users could replace files.
fn guarded(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        let data = fs::metadata(path).map_err(|problem| StoreError::io(path, &problem))?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&data.permissions());
        if mode & 0o022 != 0 {
            return Err(StoreError::Open { folder: path.into() });
        }
    }
    Ok(())
}
