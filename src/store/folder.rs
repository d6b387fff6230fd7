//! The folder of a log: made for its owner alone, held by one process, its file replaced in one step.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::error::StoreError;

/// A folder that this process holds.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held until it is closed, which the end of the process does too.
    _lock: File,
}

impl Folder {
    /// Makes it where there is none, and takes hold of it.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |problem: io::Error| StoreError::io(path, &problem);
        if !path.exists() {
            create(path).map_err(failed)?;
        }
        guarded(path)?;
        let lock = options().create(true).truncate(false).open(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { folder: path.into() }),
            Err(TryLockError::Error(problem)) => return Err(failed(problem)),
        }
        let folder = Self { path: path.into(), _lock: lock };
        // A compaction that did not come to its end left it, and nothing refers to it.
        match fs::remove_file(folder.temporary()) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => Err(failed(problem)),
            _ => Ok(folder),
        }
    }

    /// The log's file.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    fn temporary(&self) -> PathBuf {
        self.path.join("log.new")
    }

    /// The log's file, made if there is none.
    pub(super) fn open_log(&self) -> io::Result<File> {
        options().create(true).truncate(false).open(self.log())
    }

    /// A new, empty file that may take the log's place.
    pub(super) fn create_next(&self) -> io::Result<File> {
        options().create(true).truncate(true).open(self.temporary())
    }

    /// Puts the new file, which is all on the disk by now, in the log's place.
    pub(super) fn replace(&self) -> io::Result<()> {
        fs::rename(self.temporary(), self.log())?;
        self.sync()
    }

    /// Leaves the new file alone.
    pub(super) fn discard_next(&self) {
        let _ = fs::remove_file(self.temporary());
    }

    /// Deletes the log.
    pub(super) fn delete(&self) -> io::Result<()> {
        fs::remove_file(self.log())?;
        self.sync()
    }

    /// Names in a folder are on the disk only when the folder is.
    fn sync(&self) -> io::Result<()> {
        #[cfg(unix)]
        File::open(&self.path)?.sync_all()?;
        Ok(())
    }
}

fn options() -> OpenOptions {
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

/// Refuses a folder in which others could put files in place of ours.
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
