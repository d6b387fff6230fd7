//! Reads text files of a limited size.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// Reads the regular file at `path` of at most `most` bytes. Blocks on the disk and on nothing else: a pipe or a device
/// is refused.
///
/// # Errors
/// Those of the system, and for anything that is no such file.
pub fn read_limited(path: &Path, most: usize) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = String::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_string(&mut text)?;
    if text.len() > most {
        let message = format!("it is larger than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_limited_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.yaml");
        fs::write(&path, "a".repeat(100)).unwrap();
        assert_eq!(read_limited(&path, 100).unwrap().len(), 100);
        assert_eq!(read_limited(&path, 99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_limited(folder.path(), 99).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        #[cfg(unix)]
        assert_eq!(read_limited(Path::new("/dev/zero"), 99).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
