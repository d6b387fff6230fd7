//! Files that are written whole and may hold secrets: their content is replaced at once, and only their owner may read them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Replaces the file at `path`. A draft of its own is written beside it and renamed into place, so that readers and a
/// crash see the old or the new content, and nothing that stands at a known name is followed or kept.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
    }
    let draft = path.with_extension(format!("{:016x}.draft", fastrand::u64(..)));
    let mut options = OpenOptions::new();
    // Fails where anything has this name, be it a link.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&draft)?;
    let written = fill(file, content).and_then(|()| fs::rename(&draft, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    // The rename itself lasts once its folder is on disk.
    #[cfg(unix)]
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

/// Finds out if the file at `path` could be replaced.
pub(super) fn probe(path: &Path) -> io::Result<()> {
    let draft = path.with_extension(format!("{:016x}.draft", fastrand::u64(..)));
    let written = OpenOptions::new().write(true).create_new(true).open(&draft).and_then(|file| fill(file, b"probe"));
    let removed = fs::remove_file(&draft);
    written.and(removed)
}

fn fill(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_draft_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("state/keys.json"), folder.path().join("other"));
        replace(&path, b"one").unwrap();
        fs::write(&other, "untouched").unwrap();
        symlink(&other, path.with_extension("draft")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"two".to_vec(), b"untouched".to_vec()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "no draft is left");
    }
}
