//! A file of lines that is rotated when it is full, keeping a few predecessors.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Bytes of lines collected before they are written.
const BATCH: usize = 64 * 1024;

/// Lines that could not be written, and the error.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) lines: u64,
    pub(super) error: io::Error,
}

/// Destination of lines.
#[derive(Debug)]
pub(super) enum Sink {
    /// A file.
    File(Rotating),
    /// Standard output: the collected bytes and their number of lines.
    Stdout(Vec<u8>, u64),
}

impl Sink {
    /// Creates a sink to standard output.
    pub(super) const fn stdout() -> Self {
        Self::Stdout(Vec::new(), 0)
    }

    /// Adds a line, including its line break. Returns the number of lines written.
    pub(super) fn push(&mut self, line: &[u8]) -> Result<u64, Lost> {
        match self {
            Self::File(file) => file.push(line),
            Self::Stdout(pending, lines) => {
                pending.extend_from_slice(line);
                *lines += 1;
                if pending.len() >= BATCH { self.flush() } else { Ok(0) }
            }
        }
    }

    /// Writes the collected lines. Returns their number.
    pub(super) fn flush(&mut self) -> Result<u64, Lost> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(pending, lines) => {
                let mut out = io::stdout().lock();
                let written = out.write_all(pending).and_then(|()| out.flush());
                pending.clear();
                let lines = std::mem::take(lines);
                written.map(|()| lines).map_err(|error| Lost { lines, error })
            }
        }
    }
}

impl Sink {
    /// Opens the file again by its name, after the lines so far.
    pub(super) fn reopen(&mut self) -> Result<u64, Lost> {
        let written = self.flush()?;
        if let Self::File(file) = self {
            file.follow_path().map_err(|error| Lost { lines: 0, error })?;
        }
        Ok(written)
    }

    /// Finds out if lines can be written.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        if let Self::File(file) = self { file.probe() } else { Ok(()) }
    }
}

/// A file of lines, never larger than `max_size` except for a single longer line. `path` is the newest file, `path.1`
/// the previous one, up to `path.{keep}`.
#[derive(Debug)]
pub(super) struct Rotating {
    path: PathBuf,
    max_size: u64,
    keep: u32,
    /// `None` after a failure, until it can be opened again.
    file: Option<File>,
    size: u64,
    pending: Vec<u8>,
    pending_lines: u64,
}

impl Rotating {
    /// Opens `path` for appending, readable by its owner only.
    pub(super) fn open(path: PathBuf, max_size: u64, keep: u32) -> io::Result<Self> {
        let (file, size) = open(&path)?;
        Ok(Self { path, max_size, keep, file: Some(file), size, pending: Vec::new(), pending_lines: 0 })
    }

    /// Adds a line, including its line break. It may stay in memory until [`Rotating::flush`]. Returns the number of
    /// lines written to the file.
    pub(super) fn push(&mut self, line: &[u8]) -> Result<u64, Lost> {
        let filled = self.size + self.pending.len() as u64;
        let mut written = 0;
        if filled > 0 && filled + line.len() as u64 > self.max_size {
            // A file that cannot be rotated must not grow either: this line is lost like those before it.
            written = self.flush().map_err(|lost| Lost { lines: lost.lines + 1, ..lost })?;
            self.rotate().map_err(|error| Lost { lines: 1, error })?;
        }
        self.pending.extend_from_slice(line);
        self.pending_lines += 1;
        if self.pending.len() >= BATCH { Ok(written + self.flush()?) } else { Ok(written) }
    }

    /// Writes the collected lines and returns their number. Drops what cannot be written, so that memory stays bounded.
    pub(super) fn flush(&mut self) -> Result<u64, Lost> {
        let written = if self.pending.is_empty() { Ok(()) } else { self.write_pending() };
        let lines = std::mem::take(&mut self.pending_lines);
        self.pending.clear();
        written.map(|()| lines).map_err(|error| Lost { lines, error })
    }

    /// Opens the file at the path again unless it is the open one: a program that rotates it has moved or deleted that.
    /// One that was emptied counts from its start.
    fn follow_path(&mut self) -> io::Result<&mut File> {
        let is_there = |file: &File| same_file(file, &self.path);
        if let Some(size) = self.file.as_ref().and_then(is_there) {
            self.size = size;
        } else {
            self.file = None;
        }
        match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let (file, size) = open(&self.path)?;
                self.size = size;
                Ok(none.insert(file))
            }
        }
    }

    /// Writes a byte and removes it again.
    fn probe(&mut self) -> io::Result<()> {
        let file = self.follow_path()?;
        let written = file.write_all(b"\n");
        let size = self.size;
        let cut = self.file.as_ref().map_or(Ok(()), |file| file.set_len(size));
        written.and(cut)
    }

    fn write_pending(&mut self) -> io::Result<()> {
        self.follow_path()?;
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.write_all(&self.pending) {
            // A full disk splits a line; the fragment is removed, so that every line stays complete.
            let _ = file.set_len(self.size);
            self.file = None;
            return Err(error);
        }
        self.size += self.pending.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        for number in (0..self.keep).rev() {
            if_found(fs::rename(self.numbered(number), self.numbered(number + 1)))?;
        }
        if self.keep == 0 {
            if_found(fs::remove_file(&self.path))?;
        }
        let (file, size) = open(&self.path)?;
        (self.file, self.size) = (Some(file), size);
        Ok(())
    }

    /// Path of a predecessor; 0 is the file itself.
    fn numbered(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut path = OsString::from(&self.path);
        path.push(format!(".{number}"));
        path.into()
    }
}

/// Treats a missing file as success: an earlier attempt or another process has already moved it.
fn if_found(moved: io::Result<()>) -> io::Result<()> {
    match moved {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// Size of the file at `path` if it is `file`.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let (open, there) = (file.metadata().ok()?, fs::metadata(path).ok()?);
    ((open.dev(), open.ino()) == (there.dev(), there.ino())).then_some(there.len())
}

/// Size of the file, which cannot be moved while it is open.
#[cfg(not(unix))]
fn same_file(file: &File, _: &Path) -> Option<u64> {
    Some(file.metadata().ok()?.len())
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    // Devices and pipes can be neither protected from other users nor rotated.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let mut size = file.metadata()?.len();
    if size > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            // A killed process may have left an incomplete line; the next line must not be appended to it.
            file.write_all(b"\n")?;
            size += 1;
        }
    }
    Ok((file, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_full_file_is_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut file = Rotating::open(path.clone(), 12, 2).unwrap();
        for number in 0..9 {
            file.push(format!("line{number}\n").as_bytes()).unwrap();
        }
        file.push(b"a line longer than the limit\n").unwrap();
        file.push(b"end\n").unwrap();
        file.flush().unwrap();
        assert_eq!(read(&path), "end\n");
        assert_eq!(read(&dir.path().join("journal.jsonl.1")), "a line longer than the limit\n");
        assert_eq!(read(&dir.path().join("journal.jsonl.2")), "line8\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no more are kept");
    }

    #[test]
    fn keeping_no_predecessors_truncates_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut file = Rotating::open(path.clone(), 10, 0).unwrap();
        for line in ["first\n", "second\n"] {
            file.push(line.as_bytes()).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(read(&path), "second\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_incomplete_line_is_terminated_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        fs::write(&path, "{\"cut").unwrap();
        let mut file = Rotating::open(path.clone(), 1000, 1).unwrap();
        file.push(b"{}\n").unwrap();
        file.flush().unwrap();
        assert_eq!(read(&path), "{\"cut\n{}\n");
    }

    #[test]
    fn lost_lines_are_counted_and_later_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        let path = home.join("journal.jsonl");
        let mut file = Rotating::open(path.clone(), 8, 1).unwrap();
        file.push(b"first\n").unwrap();
        file.flush().unwrap();
        fs::remove_dir_all(&home).unwrap();
        for _ in 0..2 {
            assert_eq!(file.push(b"second\n").unwrap_err().lines, 1);
        }
        fs::create_dir(&home).unwrap();
        file.push(b"third\n").unwrap();
        assert_eq!(file.flush().unwrap(), 1);
        assert_eq!(read(&path), "third\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_moved_deleted_or_emptied_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut file = Rotating::open(path.clone(), 1000, 1).unwrap();
        let mut write = |line: &[u8]| file.push(line).and_then(|_| file.flush()).map(|_| ());
        write(b"first\n").unwrap();
        fs::rename(&path, dir.path().join("rotated")).unwrap();
        write(b"second\n").unwrap();
        assert_eq!((read(&dir.path().join("rotated")).as_str(), read(&path).as_str()), ("first\n", "second\n"));
        fs::remove_file(&path).unwrap();
        write(b"third\n").unwrap();
        assert_eq!(read(&path), "third\n");
        fs::write(&path, "").unwrap();
        write(b"fourth\n").unwrap();
        assert_eq!((read(&path).as_str(), file.size), ("fourth\n", 7));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(file.probe().is_err());
        fs::remove_dir(&path).unwrap();
        file.probe().unwrap();
        assert_eq!(read(&path), "", "a probe leaves nothing");
    }

    #[test]
    fn only_regular_files_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Rotating::open(dir.path().to_owned(), 1000, 1).is_err());
        assert!(Rotating::open("/dev/null".into(), 1000, 1).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_private_to_its_owner() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut file = Rotating::open(path.clone(), 4, 1).unwrap();
        for _ in 0..2 {
            file.push(b"line\n").unwrap();
        }
        file.flush().unwrap();
        for path in [path.clone(), dir.path().join("journal.jsonl.1")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
